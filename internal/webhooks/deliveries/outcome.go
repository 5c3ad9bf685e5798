package deliveries

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi/oas"
)

// Codes of failures that are not failures of the transport; see the table in docs/arch/states.md.
const (
	codeUnexpectedStatus = "unexpected_status"
	codeRedirectRefused  = "redirect_refused"
	codeGone             = "gone"
	codeWorkerLost       = "worker_lost"
	codeForwardLoop      = "forward_loop"
	codePayloadExpired   = "payload_expired"
	codeHeldExpired      = "held_expired"
	codeLeaseLost        = "lease_lost"
)

// maxRetryAfter is the longest wait that a receiver can request.
const maxRetryAfter = time.Hour

// outcome is the end of one attempt.
type outcome struct {
	At         time.Time
	HTTPStatus *int
	// Failure is nil for a success.
	Failure *Failure
	// Permanent is set when a retry cannot help.
	Permanent bool
	// Refused is set when nothing was sent.
	Refused bool
	// DisableSubscription is set when the receiver wants no more deliveries (410 Gone).
	DisableSubscription bool
	// RetryAfter is the shortest wait that the receiver requests.
	RetryAfter time.Duration
}

// judgeResponse returns the outcome of a response or a transport error.
func judgeResponse(resp egress.Response, err *egress.Error, now time.Time) outcome {
	o := outcome{At: now}
	fail := func(code, message string) {
		o.Failure = &Failure{Code: code, Message: message, HTTPStatus: o.HTTPStatus, At: now}
	}
	if status := resp.Status; status != 0 {
		o.HTTPStatus = &status
	}
	if err != nil && resp.Status != http.StatusGone {
		fail(err.Code, err.Message)
		o.Permanent = err.Permanent
		return o
	}
	switch status := resp.Status; {
	case status >= 200 && status < 300:
	case status >= 300 && status < 400:
		fail(codeRedirectRefused, "The receiver responded with a redirect, which is never followed")
	case status == http.StatusGone:
		fail(codeGone, "The receiver responded with 410 Gone; the subscription is disabled")
		o.Permanent, o.DisableSubscription = true, true
	default:
		fail(codeUnexpectedStatus, "The receiver responded with status "+strconv.Itoa(status))
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			o.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
		}
	}
	return o
}

// retryAfter reads the header of RFC 9110 §10.2.3: seconds or a date. It returns 0 for an unreadable header.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	var d time.Duration
	if n, err := strconv.ParseInt(value, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

// Attempt is the record of one attempt.
type Attempt struct {
	ID             string
	EventUUID      string
	SubscriptionID string
	Generation     int64
	// Number counts the attempts of the generation from 1.
	Number    int64
	StartedAt time.Time
	// outcome is succeeded, failed, or superseded for an attempt whose lease was lost before its outcome was stored.
	Outcome AttemptOutcome
	Timings egress.Timings
	// RequestHeaders and ResponseHeaders are JSON objects. The values of signatures and custom headers are redacted.
	RequestHeaders  string
	ResponseHeaders string
	HTTPStatus      *int
	ResponseBody    []byte
	Truncated       bool
	ErrorCode       *string
	ErrorMessage    *string
}

// AttemptOutcome is how an attempt ended.
type AttemptOutcome string

// The outcomes of an attempt.
const (
	AttemptSucceeded  AttemptOutcome = "succeeded"
	AttemptFailed     AttemptOutcome = "failed"
	AttemptSuperseded AttemptOutcome = "superseded"
)

// attemptOutcomes returns every outcome of an attempt.
func attemptOutcomes() []AttemptOutcome {
	return []AttemptOutcome{AttemptSucceeded, AttemptFailed, AttemptSuperseded}
}

// Schema returns the schema with the outcomes, for the API.
func (AttemptOutcome) Schema(oas.Registry) *oas.Schema { return oas.Enum(attemptOutcomes()) }

// millis is clock.Millis for an optional time.
func millis(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	ms := clock.Millis(*t)
	return &ms
}
