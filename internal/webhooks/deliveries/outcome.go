package deliveries

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
)

// Codes of failures that are not the transport's; see the table in docs/arch/states.md.
const (
	CodeUnexpectedStatus = "unexpected_status"
	CodeRedirectRefused  = "redirect_refused"
	CodeGone             = "gone"
	CodeWorkerLost       = "worker_lost"
	CodeForwardLoop      = "forward_loop"
	CodePayloadExpired   = "payload_expired"
	CodeHeldExpired      = "held_expired"
)

// maxRetryAfter bounds how long a receiver can ask us to wait.
const maxRetryAfter = time.Hour

// Outcome is the end of one try.
type Outcome struct {
	At         time.Time
	HTTPStatus *int
	// Failure is nil for a success.
	Failure *Failure
	// Permanent says that trying again cannot help.
	Permanent bool
	// DisableSubscription says that the receiver wants no more (410 Gone).
	DisableSubscription bool
	// RetryAfter is the least wait that the receiver asked for.
	RetryAfter time.Duration
}

// judge turns an answer or a transport error into an outcome.
func judge(resp egress.Response, err *egress.Error, now time.Time) Outcome {
	o := Outcome{At: now}
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
		fail(CodeRedirectRefused, "The receiver answered with a redirect, which is never followed")
	case status == http.StatusGone:
		fail(CodeGone, "The receiver answered 410 Gone; the subscription is disabled")
		o.Permanent, o.DisableSubscription = true, true
	default:
		fail(CodeUnexpectedStatus, "The receiver answered with status "+strconv.Itoa(status))
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			o.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
		}
	}
	return o
}

// retryAfter reads the header of RFC 9110 §10.2.3: seconds or a date. What cannot be read asks for nothing.
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

// Attempt is the record of one try.
type Attempt struct {
	ID             string
	EventUUID      string
	SubscriptionID string
	Generation     int64
	// Number counts the tries of the generation from 1.
	Number    int64
	StartedAt time.Time
	// Outcome is succeeded, failed, or superseded for a try whose lease was lost before its outcome was stored.
	Outcome AttemptOutcome
	Timings egress.Timings
	// RequestHeaders and ResponseHeaders are JSON objects; values of signatures and custom headers are redacted.
	RequestHeaders  string
	ResponseHeaders string
	HTTPStatus      *int
	ResponseBody    []byte
	Truncated       bool
	ErrorCode       *string
	ErrorMessage    *string
}

// AttemptOutcome says how a try ended.
type AttemptOutcome string

// The outcomes of a try.
const (
	AttemptSucceeded  AttemptOutcome = "succeeded"
	AttemptFailed     AttemptOutcome = "failed"
	AttemptSuperseded AttemptOutcome = "superseded"
)

// AttemptOutcomes returns every outcome of a try.
func AttemptOutcomes() []AttemptOutcome {
	return []AttemptOutcome{AttemptSucceeded, AttemptFailed, AttemptSuperseded}
}

// millis is clock.Millis for an optional time.
func millis(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	ms := clock.Millis(*t)
	return &ms
}
