// Package replays owns bulk replays: jobs that send the events of a filter again. See README.md.
package replays

import (
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/deliveries"
)

// Status is the state of a replay. statuses lists all of them.
type Status string

// The states of a replay.
const (
	// Queued waits for a worker.
	Queued Status = "queued"
	// Running has a worker.
	Running Status = "running"
	// Paused starts nothing until it is resumed.
	Paused Status = "paused"
	// Completed has started all its deliveries, and their first attempts have ended.
	Completed Status = "completed"
	// Cancelled was ended on request. Deliveries that it has started continue.
	Cancelled Status = "cancelled"
	// Failed cannot continue; Failure is the reason.
	Failed Status = "failed"
)

// statuses returns every state.
func statuses() []Status { return []Status{Queued, Running, Paused, Completed, Cancelled, Failed} }

// Schema returns the schema with the states, for the API.
func (Status) Schema(oas.Registry) *oas.Schema { return oas.Enum(statuses()) }

// hasEnded reports whether the replay has ended.
func (s Status) hasEnded() bool { return s == Completed || s == Cancelled || s == Failed }

// Limits of replays.
const (
	// MaxUnfinished is the maximum number of unfinished replays of an environment.
	MaxUnfinished = 10
	// MinRate, MaxRate and DefaultRate are numbers of deliveries that a replay starts per second.
	MinRate     = 1
	MaxRate     = 500
	DefaultRate = 50
	// MaxEventUUIDs is the maximum number of events that a filter names.
	MaxEventUUIDs = 1000
	// Lifetime is how long a replay is kept after its end.
	Lifetime = 30 * 24 * time.Hour
)

// window is the maximum number of a replay's deliveries that wait for their first attempt.
const window = 50

// The workers have room in memory for all deliveries that the replays of an environment have started and that wait,
// even if they go to one subscription: none of them stands before a new delivery. The conversion does not compile
// otherwise.
const _ = uint(deliveries.MaxReplays - window*MaxUnfinished)

// FailureCode is the reason why a replay failed.
type FailureCode string

// The codes of failed replays.
const (
	// FailedSubscriptionDeleted: the subscription To was deleted.
	FailedSubscriptionDeleted FailureCode = "subscription_deleted"
	// FailedInternal: the replay met errors of the service, one after the other.
	FailedInternal FailureCode = "internal_error"
)

// failureCodes returns every code.
func failureCodes() []FailureCode { return []FailureCode{FailedSubscriptionDeleted, FailedInternal} }

// Schema returns the schema with the codes, for the API.
func (FailureCode) Schema(oas.Registry) *oas.Schema { return oas.Enum(failureCodes()) }

// Message explains the code to a person.
func (c FailureCode) Message() string {
	switch c {
	case FailedSubscriptionDeleted:
		return "The subscription that the events were to go to has been deleted"
	case FailedInternal:
		return "The replay stopped at an error of the service; the service's log names it"
	default:
		return ""
	}
}

// Counts holds what a replay has done so far.
type Counts struct {
	// Matched counts the events that the filter has selected so far.
	Matched int64
	// Replayed counts the deliveries that were started.
	Replayed int64
	// Succeeded, Failed and Other count started deliveries by the outcome of their first attempt. Other counts those that
	// ended without an attempt.
	Succeeded, Failed, Other int64
	// Skipped counts what was skipped, by reason: deliveries, and events that have no delivery to count.
	Skipped map[deliveries.SkipReason]int64
}

// Creator is the principal that created a replay.
type Creator struct {
	Kind access.Kind
	ID   string
	Name string
}

// Replay is a job that sends the events of a filter again.
type Replay struct {
	ID          string
	Environment id.Environment
	Status      Status
	Order
	CreatedBy Creator
	Counts
	// Failure is empty unless the replay has failed.
	Failure   FailureCode
	CreatedAt time.Time
	UpdatedAt time.Time
	// StartedAt is when a worker first worked on the replay.
	StartedAt *time.Time
	// FinishedAt is when the replay ended.
	FinishedAt *time.Time
	work       work
}

// Order says which deliveries a replay starts.
type Order struct {
	Filter Filter
	// Bound limits the replay to the connections that its creator may see.
	Bound access.Bound
	// Force also replays deliveries that have not failed.
	Force bool
	// To is the subscription to send the events to, whether or not it received them before; empty for the subscriptions
	// of their existing deliveries.
	To string
	// RatePerSecond is the maximum number of deliveries started per second.
	RatePerSecond int
}

// work is the position of a replay.
type work struct {
	// first and last are the environment's first and last event when the replay was created. It ends with last.
	first, last string
	// place is the event up to which all events are done.
	place string
	// begun is the event after place whose deliveries up to that of the subscription after are done; empty for none.
	begun, after string
	// scanned is set when no events follow place and begun.
	scanned bool
	// open are the started deliveries whose first attempt has not ended.
	open []deliveries.Started
	// due is when the next deliveries may be started.
	due     time.Time
	version int64
}

// InProgress returns the number of started deliveries whose first attempt has not ended.
func (r *Replay) InProgress() int { return len(r.work.open) }

// Progress estimates the share of the environment's events that the replay has looked at, from 0 to 1, by the times of
// the first and the last event.
func (r *Replay) Progress() float64 {
	first, last, at := millisOf(r.work.first), millisOf(r.work.last), millisOf(r.work.place)
	switch {
	case r.Status == Completed || r.work.scanned && r.work.begun == "":
		return 1
	case at <= first:
		return 0
	default:
		// Below 1, because the end is not reached.
		return min(float64(at-first)/float64(max(last-first, 1)), 0.99)
	}
}

// millisOf returns the time in a UUIDv7 in Unix milliseconds (RFC 9562 section 5.7), and 0 for any other text.
func millisOf(uuid string) int64 {
	const digits = 12
	text := strings.ReplaceAll(uuid, "-", "")
	if len(text) < digits {
		return 0
	}
	ms, err := strconv.ParseInt(text[:digits], 16, 64)
	if err != nil {
		return 0
	}
	return ms
}

// errEnded is the error of a change to a replay that has ended.
func errEnded() error {
	return apperr.New(apperr.CodeReplayEnded, "The replay has ended; it can no longer be paused, resumed or cancelled")
}

// pause stops the replay until it is resumed. It reports whether that changed something.
func (r *Replay) pause(now time.Time) (bool, error) {
	switch {
	case r.Status == Paused:
		return false, nil
	case r.Status.hasEnded():
		return false, errEnded()
	default:
		r.become(Paused, now)
		return true, nil
	}
}

// resume continues a paused replay.
func (r *Replay) resume(now time.Time) (bool, error) {
	switch {
	case r.Status.hasEnded():
		return false, errEnded()
	case r.Status != Paused:
		return false, nil
	default:
		r.become(Queued, now)
		return true, nil
	}
}

// cancel ends the replay.
func (r *Replay) cancel(now time.Time) (bool, error) {
	switch {
	case r.Status == Cancelled:
		return false, nil
	case r.Status.hasEnded():
		return false, errEnded()
	default:
		r.become(Cancelled, now)
		return true, nil
	}
}

// begin records that a worker has the replay.
func (r *Replay) begin(now time.Time) {
	if r.StartedAt == nil {
		r.StartedAt = &now
	}
	r.become(Running, now)
}

// fail ends the replay for the reason given.
func (r *Replay) fail(code FailureCode, now time.Time) {
	r.become(Failed, now)
	r.Failure = code
}

// become changes the state.
func (r *Replay) become(s Status, now time.Time) {
	r.Status, r.UpdatedAt = s, now
	if s.hasEnded() {
		r.FinishedAt = &now
	}
}
