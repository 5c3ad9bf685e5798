package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/obs"
)

// run does a claimed job, stores its outcome and returns what happened.
func (q *Queue) run(ctx context.Context, j *Job) Event {
	var o Outcome
	var err error
	switch {
	case context.Cause(ctx) != nil:
		err = context.Cause(ctx) // claimed while the queue was beginning to stop
	case q.cfg.MaxLost > 0 && j.Lost >= q.cfg.MaxLost:
		err = Permanent(ErrLeasesLost)
	default:
		o, err = q.handle(ctx, j)
	}
	return q.storeOutcome(ctx, j, o, err)
}

// handle calls the handler. A panic is an error of the attempt: one job must not end the process again and again.
func (q *Queue) handle(ctx context.Context, j *Job) (o Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			q.log(ctx, slog.LevelError, "a job's handler panicked", j, slog.String("stack", string(debug.Stack())))
			o, err = Outcome{}, fmt.Errorf("the handler panicked: %v", v)
		}
	}()
	return q.cfg.Handle(ctx, j)
}

// verdict is the outcome of a job, with how to store it.
type verdict struct {
	Event
	query  *query
	change Change
}

// judge decides what happens to a job.
func (q *Queue) judge(ctx context.Context, j *Job, o Outcome, err error) verdict {
	t, now := &q.cfg.Table, q.cfg.Clock.Now()
	cause, marks := context.Cause(ctx), marksOf(err)
	wait := max(q.cfg.Backoff.wait(max(j.Attempt, 1), Random()), marks.wait)
	switch {
	case err == nil && o.again:
		return verdict{Event{EventAgain, j, nil, o.due}, t.release(j, o.due, startCount), o.change}
	case err == nil:
		return verdict{Event{EventDone, j, nil, time.Time{}}, t.finish(j, now), o.change}
	case errors.Is(cause, ErrLost), errors.Is(err, ErrLost):
		return verdict{Event: Event{EventLost, j, err, time.Time{}}}
	case errors.Is(cause, errStopped):
		return verdict{Event{EventReleased, j, nil, now}, t.release(j, now, dropCount), nil}
	case marks.before:
		due := now.Add(max(q.cfg.Backoff.wait(1, Random()), marks.wait))
		return verdict{Event{EventReleased, j, err, due}, t.release(j, due, dropCount), nil}
	case marks.permanent, q.cfg.MaxAttempts > 0 && j.Attempt >= q.cfg.MaxAttempts:
		return verdict{Event{EventFailed, j, err, time.Time{}}, t.finish(j, now), q.failed(Failure{Job: j, Err: err})}
	default:
		due := now.Add(wait)
		return verdict{Event{EventRetried, j, err, due}, t.release(j, due, keepCount),
			q.failed(Failure{Job: j, Err: err, Retry: due})}
	}
}

// failed returns what the domain changes when an attempt has failed.
func (q *Queue) failed(f Failure) Change {
	if q.cfg.Failed == nil {
		return nil
	}
	return func(ctx context.Context, tx *sql.Tx) error { return q.cfg.Failed(ctx, tx, f) }
}

// storeRetry is the wait between attempts to reach a database that is down.
const storeRetry = 250 * time.Millisecond

// storeOutcome stores the outcome of a job. While the database is down it retries and keeps the lease: the job has had
// its effect, which must not happen again because it could not be recorded. An outcome that the database refuses counts
// as a failed attempt.
func (q *Queue) storeOutcome(ctx context.Context, j *Job, o Outcome, err error) Event {
	if marksOf(err).systemic {
		q.mu.Lock()
		q.rest = q.cfg.Clock.Now().Add(q.cfg.Poll)
		q.mu.Unlock()
	}
	v := q.judge(ctx, j, o, err)
	unknown, refused := false, false
	for v.query != nil {
		//nolint:contextcheck // an outcome is stored although the handler's context has ended
		stored := q.change(q.storing.ctx, v.query, v.change)
		switch {
		case stored == nil, unknown && errors.Is(stored, ErrLost): // the commit whose response was lost went through
			q.logEvent(ctx, v.Event)
			return v.Event
		case errors.Is(stored, ErrLost):
			v = verdict{Event: Event{EventLost, j, err, time.Time{}}}
		case q.storing.ctx.Err() != nil, db.IsUnavailable(stored) && errors.Is(context.Cause(ctx), ErrLost), refused:
			// The job is done again when its lease expires.
			v = verdict{Event: Event{EventLost, j, fmt.Errorf("cannot store the outcome: %w", stored), time.Time{}}}
		case db.IsUnavailable(stored):
			unknown = unknown || errors.Is(stored, db.ErrCommitUnknown)
			q.log(ctx, slog.LevelError, "cannot store the outcome of a job yet", j, slog.String("error", stored.Error()),
				obs.Outage("jobs"))
			q.pause()
		default:
			refused = true
			v = q.judge(ctx, j, Outcome{}, fmt.Errorf("store the outcome: %w", stored))
		}
	}
	q.logEvent(ctx, v.Event)
	return v.Event
}

// pause waits before the next request to a database that is down.
func (q *Queue) pause() {
	t := q.cfg.Clock.NewTimer(storeRetry)
	defer t.Stop()
	select {
	case <-t.C():
	case <-q.storing.ctx.Done():
	}
}

// logEvent logs what happened to a job unless it went as intended.
func (q *Queue) logEvent(ctx context.Context, e Event) {
	var attrs []slog.Attr
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	if !e.Due.IsZero() {
		attrs = append(attrs, slog.Time("due", e.Due))
	}
	switch e.Kind {
	case EventRetried:
		q.log(ctx, slog.LevelWarn, "a job failed; it is retried", e.Job, attrs...)
	case EventFailed:
		q.log(ctx, slog.LevelError, "a job failed permanently", e.Job, attrs...)
	case EventReleased:
		if e.Err != nil {
			q.log(ctx, slog.LevelWarn, "cannot start a job; it is retried", e.Job, attrs...)
		}
	case EventLost:
		if q.wasRecalled(e.Job) {
			q.log(ctx, slog.LevelInfo, "a job was recalled", e.Job)
			return
		}
		q.log(ctx, slog.LevelWarn, "the lease of a job was lost", e.Job, attrs...)
	case EventDone, EventAgain:
	}
}

// wasRecalled reports whether this process has recalled the job.
func (q *Queue) wasRecalled(j *Job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return j.recalled
}

func (q *Queue) log(ctx context.Context, level slog.Level, message string, j *Job, attrs ...slog.Attr) {
	all := append([]slog.Attr{slog.String("job_id", j.ID)}, j.attrs...)
	if j.Attempt > 0 {
		all = append(all, slog.Int64("attempt", j.Attempt))
	}
	//nolint:sloglint // the messages are the constants above
	q.cfg.Logger.LogAttrs(ctx, level, message, append(all, attrs...)...)
}
