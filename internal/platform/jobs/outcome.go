package jobs

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Change is the domain's change in the transaction that stores an outcome or progress. It can run more than once, as
// any function of a transaction, and must not call anything outside the database.
type Change func(ctx context.Context, tx *sql.Tx) error

// Outcome is a handler's result of a job without an error. The zero Outcome is Done(nil).
type Outcome struct {
	change Change
	again  bool
	due    time.Time
}

// Done ends the job, together with the change; nil changes nothing else.
func Done(change Change) Outcome { return Outcome{change: change} }

// Again makes the job due at the time given, together with the change; nil changes nothing else. It is for jobs that
// recur, and for long ones that yield their place. Attempts are counted from the start again.
func Again(due time.Time, change Change) Outcome {
	return Outcome{change: change, again: true, due: due}
}

// Errors of a handler are of three kinds, by when they came:
//
//   - before the attempt, marked by Before: the job is released and the attempt is not counted;
//   - during the attempt, which is every other error: the job is retried after a back-off, until MaxAttempts;
//   - after the attempt, when the outcome cannot be stored: the queue stores it as soon as the database is there, and
//     keeps the lease meanwhile. The handler is not called again unless the lease is lost or the change is refused.

// Before marks an error that came before the attempt began.
func Before(err error) error { return &marked{error: err, before: true} }

// Permanent marks an error that a further attempt cannot avoid: the job ends.
func Permanent(err error) error { return &marked{error: err, permanent: true} }

// Systemic marks an error that every other job would meet, too: the queue claims nothing before its next poll.
func Systemic(err error) error { return &marked{error: err, systemic: true} }

// RetryAfter marks an error after which the job must wait for at least the time given.
func RetryAfter(err error, wait time.Duration) error { return &marked{error: err, wait: wait} }

// marked is an error with what it means for the job. Marks can be put around each other.
type marked struct {
	error
	before, permanent, systemic bool
	wait                        time.Duration
}

// Unwrap returns the error without the mark.
func (m *marked) Unwrap() error { return m.error }

// marksOf returns all marks of an error in one.
func marksOf(err error) marked {
	var all marked
	for m := (*marked)(nil); errors.As(err, &m); err = m.error {
		all.before, all.permanent = all.before || m.before, all.permanent || m.permanent
		all.systemic, all.wait = all.systemic || m.systemic, max(all.wait, m.wait)
	}
	return all
}

var (
	// ErrLost says that the lease of a job was lost: it expired, or the job was recalled. The change is not stored.
	ErrLost = errors.New("the lease of the job was lost")
	// ErrLeasesLost is the error of a job that ends because MaxLost of its leases in a row were lost.
	ErrLeasesLost = errors.New("the leases of the job were lost too often")
	// errStopped ends the context of jobs when the queue is stopped hard.
	errStopped = errors.New("the queue has stopped")
)

// Failure is an attempt that failed.
type Failure struct {
	Job *Job
	Err error
	// Retry is when the job is due again; zero when the job ends.
	Retry time.Time
}

// Permanent reports whether no further attempt follows.
func (f *Failure) Permanent() bool { return f.Retry.IsZero() }

// EventKind says what happened to a job.
type EventKind string

// The kinds of events.
const (
	// EventDone: the job has ended.
	EventDone EventKind = "done"
	// EventAgain: the job is due again by its own schedule.
	EventAgain EventKind = "again"
	// EventRetried: an attempt failed, and another one follows.
	EventRetried EventKind = "retried"
	// EventFailed: an attempt failed, and no other follows.
	EventFailed EventKind = "failed"
	// EventReleased: the job was released without an attempt.
	EventReleased EventKind = "released"
	// EventLost: the lease was lost, or the outcome cannot be stored. The next claim does the job again.
	EventLost EventKind = "lost"
)

// Event is the outcome of a claimed job.
type Event struct {
	Kind EventKind
	Job  *Job
	// Err is the error of the attempt; nil where there was none.
	Err error
	// Due is when the job is next due; zero where it is not.
	Due time.Time
}
