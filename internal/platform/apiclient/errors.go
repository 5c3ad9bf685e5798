package apiclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/apperr"
)

// Errors of responses.
var (
	// ErrForeign: the response is not one of a Sallyport server, or a proxy has changed it.
	ErrForeign = errors.New("the response is not one of a Sallyport server")
	// ErrTooLarge: the response is larger than a command accepts.
	ErrTooLarge = errors.New("the response is larger than 96 MiB; request fewer rows")
)

// Unreachable is the error of a request without a response.
type Unreachable struct {
	// Server is the server's URL without a path.
	Server string
	// Code is the code of the egress error, such as connection_refused.
	Code    string
	Message string
	// Sent is false only if it is certain that nothing of the request was sent.
	Sent bool
}

// Error names the server and the failure.
func (e *Unreachable) Error() string { return "no response from " + e.Server + ": " + e.Message }

// Error is the error envelope of a response.
type Error struct {
	// Status is the HTTP status code.
	Status int
	// Code is the code of the envelope; empty for a response without one, which probably comes from a proxy.
	Code    apperr.Code
	Message string
	// Details are the validation errors of the request.
	Details []apperr.Detail
	// RequestID names the request in the server's log; empty for a response without one.
	RequestID string
	// RetryAfter is the time that the server asks the client to wait, or 0.
	RetryAfter time.Duration
	// Call is what the error of a call to a provider says in addition.
	Call CallError
}

// CallError is what the error of a call to a provider says in addition. It is empty for other errors.
type CallError struct {
	// ExecutionID is the id of the execution, and Effect says whether the provider may have acted.
	ExecutionID string `json:"execution_id"`
	Effect      string `json:"effect"`
	// Upstream is the provider's response.
	Upstream struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	} `json:"upstream"`
}

// maxUpstream is how much of a provider's response a message has.
const maxUpstream = 500

// text says what a provider responded.
func (c *CallError) text() string {
	if c.Upstream.Status == 0 {
		return ""
	}
	body := string(c.Upstream.Body)
	if len(body) > maxUpstream {
		body = strings.ToValidUTF8(body[:maxUpstream], "") + "…"
	}
	return fmt.Sprintf("; the provider responded with %d: %s", c.Upstream.Status, body)
}

// Error returns one line: the message, each validation error, and in brackets status, code and request id. The text
// comes from outside.
func (e *Error) Error() string { return e.Text(field) }

// Text is Error with other names for the locations of validation errors.
func (e *Error) Text(name func(location string) string) string {
	var b strings.Builder
	b.WriteString(e.Message)
	for i, d := range e.Details {
		separator := ": "
		if i > 0 {
			separator = "; "
		}
		b.WriteString(separator + name(d.Location) + ": " + d.Message)
	}
	b.WriteString(e.Call.text())
	if e.Call.Effect == "unknown" {
		b.WriteString("; it may have acted")
	}
	fmt.Fprintf(&b, " (status %d", e.Status)
	if e.Code != "" {
		b.WriteString(", " + string(e.Code))
	}
	if e.RetryAfter > 0 {
		b.WriteString(", retry after " + e.RetryAfter.String())
	}
	if e.Call.ExecutionID != "" {
		b.WriteString(", execution " + e.Call.ExecutionID)
	}
	if e.RequestID != "" {
		b.WriteString(", request " + e.RequestID)
	}
	return b.String() + ")"
}

// field returns a detail's location without the part of the request, which a user of flags does not know.
func field(location string) string {
	for _, part := range []string{"body.", "query.", "path."} {
		if name, ok := strings.CutPrefix(location, part); ok {
			return name
		}
	}
	return location
}

// Temporary reports whether the same request may succeed later: the server is unreachable, overloaded or has failed.
func Temporary(err error) bool {
	var gone *Unreachable
	var refused *Error
	return errors.As(err, &gone) || errors.As(err, &refused) && (refused.Status == http.StatusTooManyRequests ||
		refused.Status == http.StatusRequestTimeout || refused.Status >= http.StatusInternalServerError)
}

func errorOf(status int, h http.Header, body []byte) *Error {
	e := &Error{Status: status, RequestID: h.Get("X-Request-Id")}
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 && s < 1<<20 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	var envelope struct {
		Error struct {
			Code    apperr.Code     `json:"code"`
			Message string          `json:"message"`
			Details []apperr.Detail `json:"details"`
			CallError
		} `json:"error"`
	}
	if json.Unmarshal(body, &envelope) == nil && envelope.Error.Code != "" {
		e.Code, e.Message, e.Details = envelope.Error.Code, envelope.Error.Message, envelope.Error.Details
		e.Call = envelope.Error.CallError
		return e
	}
	e.Message = "the response is not from a Sallyport server, but probably from a proxy"
	if status >= 300 && status < 400 {
		e.Message = "the server redirects to another URL, which is not followed: use that URL"
	}
	return e
}
