package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/obs"
)

// wireError is the envelope of every error.
type wireError struct {
	status int
	// The error.
	Err wireErrorBody `json:"error"`
}

type wireErrorBody struct {
	// The error code.
	Code wireCode `json:"code" example:"not_found"`
	// A human-readable message.
	Message string `json:"message" example:"No such webhook event"`
	// The validation errors that were found. Present only with the code `validation_error`.
	Details []apperr.Detail `json:"details,omitempty"`
	// Where a call to a provider failed: `gateway` and `policy` refused it, `provider` responded with an error, and with
	// `network` it did not respond. Present only in errors of calls, as are all further fields.
	Source apperr.Source `json:"source,omitempty" enum:"gateway,policy,provider,network"`
	// Whether the same call may succeed later.
	Retryable *bool `json:"retryable,omitempty"`
	// After how many milliseconds it may; absent if that is not known.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty" example:"1500"`
	// The id of the execution; absent if there is none.
	ExecutionID string `json:"execution_id,omitempty" example:"0199b3f2-7a1c-7c3e-9d55-0a4f6b8d2e11"`
	// Whether the provider may have acted: `none` if it certainly did nothing.
	Effect apperr.Effect `json:"effect,omitempty" enum:"none,unknown"`
	// The requests that were made.
	Attempts []apperr.CallAttempt `json:"attempts,omitempty"`
	// The provider's response; absent without one.
	Upstream *apperr.CallUpstream `json:"upstream,omitempty"`
	// The decision of the environment's rules; absent before they were asked.
	Policy *apperr.CallPolicy `json:"policy,omitempty"`
}

// wireCode is an error code. Its schema lists all registered codes.
type wireCode apperr.Code

// Schema returns the schema with all codes.
func (wireCode) Schema(oas.Registry) *oas.Schema {
	var codes []apperr.Code
	for _, c := range apperr.Codes() {
		codes = append(codes, c.Code)
	}
	return oas.Enum(codes)
}

// GetStatus returns the HTTP status code, for Huma.
func (e *wireError) GetStatus() int { return e.status }

// Error returns the message.
func (e *wireError) Error() string { return e.Err.Message }

// resolveError returns the error that the client sees. An error that is not an *apperr.Error becomes a fixed 500, or
// 503 if the database is unavailable; its text is only logged.
func resolveError(err error) *apperr.Error {
	var e *apperr.Error
	switch {
	case errors.As(err, &e):
	case db.IsUnavailable(err):
		return apperr.Unavailable(err)
	default:
		return apperr.Wrap(apperr.CodeInternal, "An unexpected error occurred", err)
	}
	if e.Code.Info().Code != e.Code || e.Code == apperr.CodeInternal {
		return apperr.Wrap(apperr.CodeInternal, "An unexpected error occurred", err)
	}
	return e
}

// WriteError responds with the envelope of err and records err for the log.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	e := resolveError(err)
	obs.LineFrom(r.Context()).Fail(err)
	setErrorHeaders(r.Context(), w.Header().Set, e)
	writeJSON(w, e.HTTPStatus(), wireErrorFrom(e))
}

// ErrorBody returns the envelope of an http_error, for responses that are made without a handler.
func ErrorBody(status int, message string) []byte {
	var b bytes.Buffer
	_ = json.NewEncoder(&b).Encode(wireErrorFrom(apperr.HTTP(status, message))) // writing to a buffer never fails
	return b.Bytes()
}

func wireErrorFrom(e *apperr.Error) *wireError {
	body := wireErrorBody{Code: wireCode(e.Code), Message: e.Message, Details: e.Details}
	if c := e.Call; c != nil {
		body.Source, body.Retryable, body.RetryAfterMS = c.Source, &c.Retryable, e.RetryAfter.Milliseconds()
		body.ExecutionID, body.Effect, body.Attempts = c.ExecutionID, c.Effect, c.Attempts
		body.Upstream, body.Policy = c.Upstream, c.Policy
	}
	return &wireError{status: e.HTTPStatus(), Err: body}
}

func setErrorHeaders(ctx context.Context, set func(name, value string), e *apperr.Error) {
	if c := callFrom(ctx).challenge; c != "" && e.HTTPStatus() == http.StatusUnauthorized {
		set("WWW-Authenticate", c)
	}
	if e.RetryAfter > 0 {
		set(retryAfter, seconds(e.RetryAfter))
	}
	if e.Allow != "" {
		set("Allow", e.Allow)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// The client is gone when this fails.
	_ = json.NewEncoder(w).Encode(v)
}

// newWireError creates every error of Huma. ctx is nil if Huma only needs the type.
func newWireError(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
	if ctx == nil {
		return &wireError{status: status, Err: wireErrorBody{Message: msg}}
	}
	e := fromHuma(ctx, status, msg, errs)
	obs.LineFrom(ctx.Context()).Fail(e)
	setErrorHeaders(ctx.Context(), ctx.SetHeader, e)
	ctx.SetHeader("Cache-Control", "no-store")
	return wireErrorFrom(e)
}

func fromHuma(ctx huma.Context, status int, msg string, errs []error) *apperr.Error {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if len(errs) == 0 {
			errs = []error{At("body", "required", "a JSON body is required")}
		}
		return apperr.Invalid(callFrom(ctx.Context()).checkRefused(errs)...)
	case http.StatusRequestEntityTooLarge:
		return apperr.New(apperr.CodePayloadTooLarge, "The body is larger than this route accepts")
	case http.StatusInternalServerError:
		if len(errs) > 0 {
			var malformed *apperr.Error
			if msg == "cannot read request body" && !errors.As(errs[0], &malformed) {
				return apperr.HTTP(http.StatusBadRequest, "The request body ended early")
			}
			return resolveError(errs[0])
		}
		return resolveError(errors.New(msg))
	case http.StatusUnsupportedMediaType:
		return apperr.HTTP(status, wrongMediaType(ctx.Method()))
	default:
		return apperr.HTTP(status, http.StatusText(status))
	}
}

// Limits of the response to an invalid request, so that a small request cannot cause a large response.
const (
	maxDetails  = 100
	maxLocation = 200 // in bytes
)

// detailList collects validation errors. For one location it keeps those of the first source, because the errors of
// later rules follow from the first.
type detailList struct {
	details []apperr.Detail
	seen    map[string]bool
}

// add adds the errors of one source, which may be several at one location.
func (l *detailList) add(found ...apperr.Detail) {
	before := l.seen
	if l.seen = maps.Clone(before); l.seen == nil {
		l.seen = map[string]bool{}
	}
	for _, d := range found {
		if len(d.Location) > maxLocation {
			d.Location = strings.ToValidUTF8(d.Location[:maxLocation], "") + "…"
		}
		if before[d.Location] || len(l.details) >= maxDetails {
			continue
		}
		l.seen[d.Location] = true
		l.details = append(l.details, d)
	}
}

// addErrors adds the errors that Huma collected.
func (l *detailList) addErrors(errs []error) {
	for _, err := range errs {
		var own *apperr.Error
		var d *huma.ErrorDetail
		switch {
		case errors.As(err, &own):
			l.add(own.Details...)
		case errors.As(err, &d):
			l.add(fromHumaDetail(d))
		default:
			l.add(apperr.Detail{Location: "body", Rule: "format", Message: "the value has the wrong form"})
		}
	}
}

var requiredProperty = regexp.MustCompile(`^expected required property (\S+) to be present$`)

// fromHumaDetail converts a validation error of Huma. The result has a rule and does not contain the value.
func fromHumaDetail(d *huma.ErrorDetail) apperr.Detail {
	location := d.Location
	if location == "" {
		location = "body"
	}
	if m := requiredProperty.FindStringSubmatch(d.Message); m != nil {
		return apperr.Detail{Location: location + "." + m[1], Rule: "required", Message: "the field is required"}
	}
	for _, r := range humaRules() {
		if strings.HasPrefix(d.Message, r.prefix) {
			return apperr.Detail{Location: location, Rule: r.rule, Message: r.text(d.Message)}
		}
	}
	if location == "body" {
		return apperr.Detail{Location: location, Rule: "json", Message: "the body is not valid JSON"}
	}
	return apperr.Detail{Location: location, Rule: "format", Message: "the value has the wrong form"}
}

// humaRule has the message for the client: empty for Huma's own, and with %s for what follows the prefix in it.
type humaRule struct{ prefix, rule, message string }

func (r humaRule) text(from string) string {
	rest := strings.TrimPrefix(from, r.prefix)
	switch {
	case r.message == "":
		return from
	case r.rule == "enum":
		rest = strings.Trim(rest, `"`)
		if strings.Count(rest, ", ") == 1 {
			return "must be " + strings.Replace(rest, ", ", " or ", 1)
		}
	case r.rule == "min_length" && rest == "1":
		return "must not be empty"
	}
	return strings.Replace(r.message, "%s", rest, 1)
}

// humaRules maps Huma's messages to rules. It replaces messages that could contain a value or that are meant for
// programmers.
func humaRules() []humaRule {
	return []humaRule{
		{"unexpected property", "unknown_field", "the field is unknown"},
		{"required ", "required", "the parameter is required"},
		{"expected string to be RFC", "format", "the value has the wrong form"},
		{"expected string to be base64", "format", ""},
		{"expected string to match pattern", "pattern", "must have the documented form"},
		{"expected string to be", "pattern", "must have the documented form"},
		{"expected string", "type", ""},
		{"expected boolean", "type", ""},
		{"expected number >= ", "minimum", "must be at least %s"},
		{"expected number > ", "minimum", "must be greater than %s"},
		{"expected number <= ", "maximum", "must be at most %s"},
		{"expected number < ", "maximum", "must be less than %s"},
		{"expected number", "type", ""},
		{"expected integer", "type", ""},
		{"expected array length >= ", "min_items", "must have at least %s items"},
		{"expected array length <= ", "max_items", "must have at most %s items"},
		{"expected array items to be unique", "unique", "must not have duplicates"},
		{"expected array", "type", ""},
		{"expected object with at least ", "min_properties", "must have at least %s"},
		{"expected object with at most ", "max_properties", "must have at most %s"},
		{"expected object", "type", ""},
		{"expected length >= ", "min_length", "must have at least %s characters"},
		{"expected length <= ", "max_length", "must have at most %s characters"},
		{"expected value to be one of ", "enum", "must be one of: %s"},
		{"expected value", "schema", "the value does not match the documented schema"},
		{"json: cannot unmarshal", "type", "a value has the wrong type or is out of range"},
		{"invalid integer", "type", "expected integer"},
		{"invalid boolean", "type", "expected boolean"},
		{"invalid floating", "type", "expected number"},
		{"invalid value: read a time", "format", "expected an RFC 3339 time"},
	}
}

// At returns a validation error for one location. It is for rules that run after those of the schema.
func At(location, rule, format string, args ...any) error {
	return apperr.Invalid(apperr.Detail{Location: location, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

// WithHeaders returns err with headers for its response.
func WithHeaders(err error, h http.Header) error { return huma.ErrorWithHeaders(err, h) }
