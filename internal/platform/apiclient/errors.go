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

// Errors of answers.
var (
	// ErrForeign says that what answered is not a Sallyport server, or that something between changed its answer.
	ErrForeign = errors.New("the answer is not one of a Sallyport server")
	// ErrTooLarge says that the answer is larger than a command takes.
	ErrTooLarge = errors.New("the answer is larger than 96 MiB; ask for fewer rows")
)

// Unreachable says that no answer came from the server.
type Unreachable struct {
	// Server is its URL, without path.
	Server string
	// Code is that of the egress error, such as connection_refused.
	Code    string
	Message string
	// Sent is false only when it is certain that the request has not left.
	Sent bool
}

// Error names the server and what happened.
func (e *Unreachable) Error() string { return "no answer from " + e.Server + ": " + e.Message }

// Error is the error envelope of an answer.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code is the code of the envelope; empty when the answer has none, and then something between has answered.
	Code    apperr.Code
	Message string
	// Details are the faults of a request that broke a rule.
	Details []apperr.Detail
	// RequestID names the request in the server's log; empty when the answer has none.
	RequestID string
	// RetryAfter is how long the server asks to wait; 0 when it does not.
	RetryAfter time.Duration
}

// Error is one line: what is wrong, each fault, and in brackets status, code and request id. The text comes from
// outside.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for i, d := range e.Details {
		separator := ": "
		if i > 0 {
			separator = "; "
		}
		b.WriteString(separator + field(d.Location) + ": " + d.Message)
	}
	fmt.Fprintf(&b, " (status %d", e.Status)
	if e.Code != "" {
		b.WriteString(", " + string(e.Code))
	}
	if e.RetryAfter > 0 {
		b.WriteString(", retry after " + e.RetryAfter.String())
	}
	if e.RequestID != "" {
		b.WriteString(", request " + e.RequestID)
	}
	return b.String() + ")"
}

// field is a detail's location without the part of the request that it lies in, which whoever gives flags did not
// choose.
func field(location string) string {
	for _, part := range []string{"body.", "query.", "path."} {
		if name, ok := strings.CutPrefix(location, part); ok {
			return name
		}
	}
	return location
}

// Temporary reports whether the same request may be answered otherwise later: the server is away, overloaded or has
// failed.
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
		} `json:"error"`
	}
	if json.Unmarshal(body, &envelope) == nil && envelope.Error.Code != "" {
		e.Code, e.Message, e.Details = envelope.Error.Code, envelope.Error.Message, envelope.Error.Details
		return e
	}
	e.Message = "what answered is no Sallyport server, or something between answered in its place"
	if status >= 300 && status < 400 {
		e.Message = "the server redirects elsewhere, which is not followed: name the URL that answers by itself"
	}
	return e
}
