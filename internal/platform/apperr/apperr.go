// Package apperr is the typed error that rules return and the one place that lists every error code of the API.
//
// A rule returns an *Error, which the HTTP layer writes as the documented envelope. For any other error the client
// receives a fixed 500 text and the log one line, so internal text cannot leak by accident.
package apperr

import (
	"errors"
	"fmt"
	"time"
)

// Error is an error that may be shown to a client.
type Error struct {
	// Code is a registered code; it fixes the HTTP status unless Status is set.
	Code Code
	// Status overrides the code's status. http_error has no status of its own, and a provider may need another for a
	// rejected webhook.
	Status int
	// Message is shown to the client. It contains no SQL, path, address, secret or offending value.
	Message string
	// Details lists all validation errors.
	Details []Detail
	// RetryAfter, when positive, becomes the Retry-After header (rounded up to seconds); see RetryIn.
	RetryAfter time.Duration
	// Allow is the Allow header of a 405.
	Allow string
	// Call is set for errors of calls to providers.
	Call *Call
	// Cause is for the log only.
	Cause error
}

// Detail is one validation error of a request.
type Detail struct {
	// The location of the error, for example `body.event_types[0]`, `query.limit`, `path.event_uuid` or
	// `header.Environment-Id`.
	Location string `json:"location" example:"body.event_types[0]"`
	// A human-readable message. It never contains the value.
	Message string `json:"message" example:"must not be empty"`
	// The name of the violated rule, for example `required`, `max_length` or `pattern`.
	Rule string `json:"rule" example:"required"`
}

// Error returns the code, the message and the cause, for logs.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// HTTPStatus is the status code of the response.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Code.Info().Status
}

// New returns an error of a code with a message for the client.
func New(code Code, message string) *Error { return &Error{Code: code, Message: message} }

// Wrap is New with a cause for the log.
func Wrap(code Code, message string, cause error) *Error {
	return &Error{Code: code, Message: message, Cause: cause}
}

// RetryIn returns a copy of the error whose response has a Retry-After header with the given time:
//
//	apperr.New(apperr.CodeRateLimited, "Too many tests are in progress").RetryIn(time.Second)
func (e *Error) RetryIn(wait time.Duration) *Error {
	later := *e
	later.RetryAfter = wait
	return &later
}

// NotFound returns the 404 of a kind of resource, named in plain words ("webhook event").
func NotFound(kind string) *Error { return New(CodeNotFound, "No such "+kind) }

// Unauthorized returns the 401 for a missing or invalid credential. Its text is the same for every reason. The cause is
// for the log only, and may be nil.
func Unauthorized(cause error) *Error {
	return Wrap(CodeUnauthorized, "The credential is missing or not valid", cause)
}

// Unavailable returns the 503 for a dependency that does not respond now.
func Unavailable(cause error) *Error {
	return Wrap(CodeUnavailable, "The service cannot store data right now; try again", cause).RetryIn(2 * time.Second)
}

// Invalid returns an error with the given validation errors.
func Invalid(details ...Detail) *Error {
	return &Error{Code: CodeValidation, Message: "Invalid request", Details: details}
}

// HTTP returns an http_error with the given status code.
func HTTP(status int, message string) *Error {
	return &Error{Code: CodeHTTP, Status: status, Message: message}
}

// Is reports whether err is, or wraps, an *Error of the code.
func Is(err error, code Code) bool {
	if err == nil {
		return false // nearly always, without an allocation
	}
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Violations collects validation errors, so that a request gets all of them in one response.
type Violations struct {
	details []Detail
	// root collects for a Violations that At returned, whose locations begin with prefix.
	root   *Violations
	prefix string
}

// Add records an error at a location, which is relative to that of At.
func (v *Violations) Add(location, rule, message string) {
	root := v.collector()
	root.details = append(root.details, Detail{Location: join(v.prefix, location), Message: message, Rule: rule})
}

// AddAll records errors whose locations are relative to that of At.
func (v *Violations) AddAll(details []Detail) {
	for _, d := range details {
		v.Add(d.Location, d.Rule, d.Message)
	}
}

// At returns a Violations that adds to v, with locations below the one given.
func (v *Violations) At(location string) *Violations {
	return &Violations{root: v.collector(), prefix: join(v.prefix, location)}
}

func (v *Violations) collector() *Violations {
	if v.root != nil {
		return v.root
	}
	return v
}

// join returns the location of a member, or of an item as [0], below a prefix.
func join(prefix, location string) string {
	if prefix == "" || location == "" || location[0] == '[' {
		return prefix + location
	}
	return prefix + "." + location
}

// Err returns nil when no error was added, else the validation error. It has the errors of every At, too.
func (v *Violations) Err() error {
	if details := v.Details(); len(details) > 0 {
		return Invalid(details...)
	}
	return nil
}

// Details returns the errors of Err, or nil when there are none.
func (v *Violations) Details() []Detail { return v.collector().details }

// Below returns err with the location of each validation error below the one given. Other errors stay what they are.
func Below(location string, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeValidation {
		return err
	}
	below := *e
	below.Details = make([]Detail, len(e.Details))
	for i, d := range e.Details {
		d.Location = join(location, d.Location)
		below.Details[i] = d
	}
	return &below
}
