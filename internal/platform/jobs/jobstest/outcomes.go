package jobstest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
)

// The domain's change and the job's outcome are stored together or not at all.
func finishIsAtomic(w *world) {
	id := w.insert("", 0)
	one := w.node("one")
	r := one.one()
	refused := func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(effect(id)(ctx, tx), errFailed)
	}
	require.ErrorIs(w.t, r.Save(w.ctx, refused), errFailed)
	require.Zero(w.t, w.count(id))
	e := r.End(w.t, jobs.Done(refused), nil)
	require.Equal(w.t, jobs.EventRetried, e.Kind, "a change that is refused is a failed attempt")
	require.ErrorIs(w.t, e.Err, errFailed)
	require.Zero(w.t, w.count(id))
	w.clock.Advance(e.Due.Sub(w.clock.Now()))
	r = one.one()
	require.NoError(w.t, r.Save(w.ctx, effect(id)))
	require.Equal(w.t, 1, w.count(id))
	require.Equal(w.t, jobs.EventDone, w.done(r).Kind)
	require.Equal(w.t, 2, w.count(id))
	w.clock.Advance(time.Hour)
	one.take(0)

	// The record that the domain keeps of a failure is part of its outcome, too.
	w.clear()
	id = w.insert("", 0)
	failing := w.node("two", func(c *jobs.Config) {
		c.Failed = func(ctx context.Context, tx *sql.Tx, f jobs.Failure) error {
			require.ErrorIs(w.t, f.Err, errFailed)
			return effect(f.Job.ID)(ctx, tx)
		}
	})
	stale := w.node("three").one()
	w.clock.Advance(lease)
	r = failing.one()
	require.Equal(w.t, jobs.EventRetried, w.fails(r, errFailed).Kind)
	require.Equal(w.t, 1, w.count(id))
	w.fails(stale, errFailed)
}

// An outcome that the database cannot take is stored when it can, with the lease kept, and the job is not done again.
func outcomeWaitsForTheDatabase(w *world) {
	id := w.insert("", 0)
	one, two := w.node("one"), w.node("two")
	r := one.one()
	var mu sync.Mutex
	down, tries := true, 0
	ended := w.finish(r, jobs.Done(func(ctx context.Context, tx *sql.Tx) error {
		mu.Lock()
		defer mu.Unlock()
		if tries++; down {
			return context.DeadlineExceeded // as of a database that hangs
		}
		return effect(id)(ctx, tx)
	}))
	w.until(1, time.Second, func() bool {
		require.NoError(w.t, one.Renew(w.ctx))
		mu.Lock()
		defer mu.Unlock()
		return tries > 3
	})
	two.take(0)
	w.awaitTimers(1, lease)
	mu.Lock()
	down = false
	mu.Unlock()
	w.clock.Advance(time.Second)
	require.Equal(w.t, jobs.EventDone, ended().Kind)
	require.Equal(w.t, 1, w.count(id))
	require.Zero(w.t, one.Waiting(), "the handler is not called again")
}

// An outcome whose commit went through although its response was lost is taken as stored.
func commitWithoutResponse(w *world) {
	id := w.insert("", 0)
	n := w.node("one")
	r := n.one()
	ended := w.finish(r, jobs.Done(func(context.Context, *sql.Tx) error { return db.ErrCommitUnknown }))
	w.awaitTimers(1, lease)
	w.exec("DELETE FROM "+w.fixture.Table.Name+" WHERE "+w.fixture.Table.ID+" = $1", id) // as a commit would have
	w.clock.Advance(time.Second)
	require.Equal(w.t, jobs.EventDone, ended().Kind)
}

// An error before the attempt releases the job, one during the attempt retries it, and a permanent one ends it.
func kindsOfErrors(w *world) {
	w.insert("", 0)
	n := w.node("one")
	wait := func(e jobs.Event) time.Duration { return e.Due.Sub(w.clock.Now()) }
	within := func(d, of time.Duration) {
		require.InDelta(w.t, of.Seconds(), d.Seconds(), 0.2*of.Seconds()+0.001)
	}
	next := func(e jobs.Event) *Run {
		n.take(0)
		w.clock.Advance(wait(e) + time.Millisecond)
		return n.one()
	}
	r := n.one()
	e := w.fails(r, jobs.Before(errFailed))
	require.Equal(w.t, jobs.EventReleased, e.Kind)
	require.ErrorIs(w.t, e.Err, errFailed)
	within(wait(e), backoff().First)
	r = next(e)
	if w.fixture.Table.Claim != "" && w.fixture.Table.Attempts != "" {
		require.EqualValues(w.t, 1, r.Attempt, "an attempt that did not begin is not counted")
	}
	e = w.fails(r, jobs.Before(jobs.RetryAfter(errFailed, time.Hour)))
	require.Equal(w.t, jobs.EventReleased, e.Kind)
	require.Equal(w.t, time.Hour, wait(e))
	r = next(e)
	e = w.fails(r, errFailed)
	require.Equal(w.t, jobs.EventRetried, e.Kind)
	r = next(e)
	e = w.fails(r, jobs.RetryAfter(errFailed, 2*time.Hour))
	require.Equal(w.t, jobs.EventRetried, e.Kind)
	require.Equal(w.t, 2*time.Hour, wait(e))
	r = next(e)
	require.Equal(w.t, jobs.EventFailed, w.fails(r, jobs.Permanent(errFailed)).Kind)
	w.clock.Advance(24 * time.Hour)
	n.take(0)
}

// An error that every job would meet keeps the queue from claiming the others immediately.
func systemicError(w *world) {
	w.insert("", -time.Second)
	w.insert("", 0)
	n := w.node("one", func(c *jobs.Config) { c.Concurrency = 1 })
	r := n.one()
	w.fails(r, jobs.Systemic(errFailed))
	n.take(0)
	w.clock.Advance(poll)
	n.take(1)
}

// A handler that panics has failed, and the process goes on.
func handlerPanics(w *world) {
	w.insert("", 0)
	events := make(chan jobs.Event, 1)
	n := w.node("one", func(c *jobs.Config) {
		c.Handle = func(context.Context, *jobs.Job) (jobs.Outcome, error) { panic("trouble") }
		c.Observe = func(e jobs.Event) { events <- e }
	})
	require.NoError(w.t, n.RunDue(w.ctx))
	e := <-events
	require.Equal(w.t, jobs.EventRetried, e.Kind)
	require.ErrorContains(w.t, e.Err, "trouble")
}

// Each failure waits twice as long as the one before, up to the greatest wait, within the jitter.
func backOff(w *world) {
	w.insert("", 0)
	n := w.node("one")
	for _, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
		r := n.one()
		e := w.fails(r, errFailed)
		wait := e.Due.Sub(w.clock.Now())
		require.InDelta(w.t, want.Seconds(), wait.Seconds(), 0.2*want.Seconds())
		w.clock.Advance(wait - time.Second)
		n.take(0)
		w.clock.Advance(time.Second)
	}
}

func attemptsAreBounded(w *world) {
	id := w.insert("", 0)
	var failures []jobs.Failure
	n := w.node("one", func(c *jobs.Config) {
		c.MaxAttempts = 3
		c.Failed = func(ctx context.Context, tx *sql.Tx, f jobs.Failure) error {
			failures = append(failures, f)
			return effect(id)(ctx, tx)
		}
	})
	for _, want := range []jobs.EventKind{jobs.EventRetried, jobs.EventRetried, jobs.EventFailed} {
		r := n.one()
		require.Equal(w.t, want, w.fails(r, errFailed).Kind)
		require.Equal(w.t, want == jobs.EventFailed, failures[len(failures)-1].Permanent())
		w.clock.Advance(time.Hour)
	}
	n.take(0)
	require.Equal(w.t, 3, w.count(id))
}

// A job that recurs is due at the time that it names, and its failures are counted from the start each time.
func recurringJob(w *world) {
	id := w.insert("", 0)
	n := w.node("one", func(c *jobs.Config) { c.MaxAttempts = 2 })
	for range 3 {
		if r := n.one(); w.fixture.Table.Attempts != "" {
			require.Equal(w.t, jobs.EventRetried, w.fails(r, errFailed).Kind)
			w.clock.Advance(time.Minute)
			require.Equal(w.t, jobs.EventAgain, w.again(n.one(), time.Hour).Kind)
		} else {
			require.Equal(w.t, jobs.EventAgain, w.again(r, time.Hour).Kind)
		}
		w.clock.Advance(time.Hour - time.Millisecond)
		n.take(0)
		w.clock.Advance(time.Millisecond)
	}
	require.Equal(w.t, 3, w.count(id))
}

// A long job that fails now and then goes on as long as it saves something in between, and ends when it no longer does.
func savedJobsAreNotExhausted(w *world) {
	id := w.insert("", 0)
	n := w.node("one", func(c *jobs.Config) { c.MaxAttempts = 2 })
	for range 4 {
		r := n.one()
		require.NoError(w.t, r.Save(w.ctx, effect(id)))
		require.EqualValues(w.t, 1, r.Attempt)
		require.Equal(w.t, jobs.EventRetried, w.fails(r, errFailed).Kind)
		w.clock.Advance(time.Hour)
	}
	require.Equal(w.t, jobs.EventFailed, w.fails(n.one(), errFailed).Kind)
	require.Equal(w.t, 4, w.count(id))
}

// place is the progress of a long job.
type place struct {
	Done, Total int64
	After       string
}

// The progress that a long job stores can be read, and is there for the claim after a crash.
func progressSurvives(w *world) {
	id := w.insert("", 0)
	one, two := w.node("one"), w.node("two")
	r := one.one()
	var p place
	there, err := r.Progress(&p)
	require.NoError(w.t, err)
	require.False(w.t, there)
	want := place{Done: 3, Total: 7, After: "x"}
	require.NoError(w.t, r.SaveProgress(w.ctx, place{Done: 1}, nil))
	require.NoError(w.t, r.SaveProgress(w.ctx, want, effect(id)))
	require.NoError(w.t, r.Save(w.ctx, nil))
	require.ErrorIs(w.t, r.SaveProgress(w.ctx, place{Done: 4}, func(context.Context, *sql.Tx) error {
		return errFailed
	}), errFailed)
	there, err = two.Progress(w.ctx, w.store.DB.Read(), id, &p)
	require.NoError(w.t, err)
	require.True(w.t, there)
	require.Equal(w.t, want, p)
	w.clock.Advance(lease) // the process was killed
	again := two.one()
	p = place{}
	there, err = again.Progress(&p)
	require.NoError(w.t, err)
	require.True(w.t, there)
	require.Equal(w.t, want, p)
	require.ErrorIs(w.t, r.SaveProgress(w.ctx, place{}, nil), jobs.ErrLost)
	require.Equal(w.t, 1, w.count(id))
}
