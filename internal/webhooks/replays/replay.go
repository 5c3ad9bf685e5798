// Package replays owns bulk replays: jobs that send the events of a filter again. See README.md.
package replays

import (
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/deliveries"
)

// Status is where a job stands. The set is closed: Statuses lists it.
type Status string

// The states of a job.
const (
	// Queued waits for a worker.
	Queued Status = "queued"
	// Running is being worked on.
	Running Status = "running"
	// Paused starts nothing until it is resumed.
	Paused Status = "paused"
	// Completed has started everything that it is about, and every first try has ended.
	Completed Status = "completed"
	// Cancelled was ended on request. What it had started goes on.
	Cancelled Status = "cancelled"
	// Failed cannot go on; Failure says why.
	Failed Status = "failed"
)

// Statuses returns every state.
func Statuses() []Status { return []Status{Queued, Running, Paused, Completed, Cancelled, Failed} }

// Ended reports whether the job is over.
func (s Status) Ended() bool { return s == Completed || s == Cancelled || s == Failed }

// Limits of jobs.
const (
	// MaxUnfinished is how many jobs of an environment may be unfinished at a time.
	MaxUnfinished = 10
	// MinRate, MaxRate and DefaultRate are about the deliveries that a job starts a second.
	MinRate     = 1
	MaxRate     = 500
	DefaultRate = 50
	// MaxEventUUIDs bounds the events that a filter names.
	MaxEventUUIDs = 1000
	// Lifetime is how long a job is kept once it has ended.
	Lifetime = 30 * 24 * time.Hour
)

// window is how many deliveries of a job may wait for their first try at a time. With MaxUnfinished it keeps an
// environment's replays to half of what the workers hold in memory for one subscription.
const window = 50

// FailureCode says why a job failed.
type FailureCode string

// The codes of failed jobs.
const (
	// FailedSubscriptionDeleted: the subscription that the events were to go to is gone.
	FailedSubscriptionDeleted FailureCode = "subscription_deleted"
	// FailedInternal: the job met the same error of the service over and over.
	FailedInternal FailureCode = "internal_error"
)

// Message is the sentence of the code for a person.
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

// Counts is what a job has done so far.
type Counts struct {
	// Matched counts the events that the filter selected, of those that the job has come to.
	Matched int64
	// Replayed counts the deliveries that were started.
	Replayed int64
	// Succeeded, Failed and Other count those of them whose first try has ended; Other are those without a try.
	Succeeded, Failed, Other int64
	// Skipped counts what was left as it was, by reason: deliveries, and events as one where they have none to count.
	Skipped map[deliveries.SkipReason]int64
}

// Creator is who made a job.
type Creator struct {
	Kind access.Kind
	ID   string
	Name string
}

// Replay is a job.
type Replay struct {
	ID          string
	Environment id.Environment
	Status      Status
	Order
	CreatedBy Creator
	Counts
	// Failure is empty unless the job has failed.
	Failure   FailureCode
	CreatedAt time.Time
	UpdatedAt time.Time
	// StartedAt is when a worker first took the job.
	StartedAt *time.Time
	// FinishedAt is when it ended.
	FinishedAt *time.Time
	// work is the worker's.
	work work
}

// Order is what a job is to do.
type Order struct {
	Filter Filter
	// Bound holds the connections whose events the job is about: those that whoever ordered it might see.
	Bound access.Bound
	// Force replays deliveries that have not failed, too.
	Force bool
	// To is the subscription that the events go to, whether it took them before or not; empty for the deliveries that
	// there are.
	To string
	// RatePerSecond is how many deliveries are started a second, at most.
	RatePerSecond int
}

// work is how far a job has come.
type work struct {
	// first and last are the environment's first and last event when the job was made. The job goes up to last.
	first, last string
	// place is the event up to which every event is done.
	place string
	// begun is an event behind it whose deliveries are done up to that of the subscription after; empty for none.
	begun, after string
	// scanned says that nothing is behind place and begun.
	scanned bool
	// open are the deliveries that were started and whose first try has not ended.
	open []deliveries.Started
	// claim names the worker that has the job until the end of the lease.
	claim string
	lease time.Time
	// due is when the next deliveries may be started.
	due     time.Time
	version int64
}

// InProgress is how many deliveries were started and wait for the end of their first try.
func (r *Replay) InProgress() int { return len(r.work.open) }

// Progress estimates which share of the environment's events the job has looked at, from 0 to 1: the share of the time
// between the first and the last of them.
func (r *Replay) Progress() float64 {
	first, last, at := millisOf(r.work.first), millisOf(r.work.last), millisOf(r.work.place)
	switch {
	case r.Status == Completed || r.work.scanned && r.work.begun == "":
		return 1
	case at <= first:
		return 0
	default:
		// Less than all of it, because the end is not reached.
		return min(float64(at-first)/float64(max(last-first, 1)), 0.99)
	}
}

// millisOf is the time in a UUIDv7, in Unix milliseconds (RFC 9562 section 5.7); 0 for what is none.
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

// errEnded is the answer to whoever wants to change a job that is over.
func errEnded() error {
	return apperr.New(apperr.CodeReplayEnded, "The replay has ended; it can no longer be paused, resumed or cancelled")
}

// pause stops the job for a while. It reports whether that changed something.
func (r *Replay) pause(now time.Time) (bool, error) {
	switch {
	case r.Status == Paused:
		return false, nil
	case r.Status.Ended():
		return false, errEnded()
	default:
		r.become(Paused, now)
		return true, nil
	}
}

// resume lets a paused job go on.
func (r *Replay) resume(now time.Time) (bool, error) {
	switch {
	case r.Status.Ended():
		return false, errEnded()
	case r.Status != Paused:
		return false, nil
	default:
		r.become(Queued, now)
		return true, nil
	}
}

// cancel ends the job.
func (r *Replay) cancel(now time.Time) (bool, error) {
	switch {
	case r.Status == Cancelled:
		return false, nil
	case r.Status.Ended():
		return false, errEnded()
	default:
		r.become(Cancelled, now)
		return true, nil
	}
}

// take gives the job to a worker until the end of the lease.
func (r *Replay) take(claim string, until, now time.Time) {
	if r.StartedAt == nil {
		r.StartedAt = &now
	}
	r.become(Running, now)
	r.work.claim, r.work.lease = claim, until
}

// fail ends the job for the reason given.
func (r *Replay) fail(code FailureCode, now time.Time) {
	r.become(Failed, now)
	r.Failure = code
}

// become changes the state, which takes the job from its worker.
func (r *Replay) become(s Status, now time.Time) {
	r.Status, r.UpdatedAt = s, now
	r.work.claim, r.work.lease = "", clock.FromMillis(0)
	if s.Ended() {
		r.FinishedAt = &now
	}
}
