package jobstest

import (
	"context"
	"database/sql"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/jobs"
)

func leaseExpiryReturnsTheJob(w *world) {
	id := w.insert("", 0)
	one, two := w.node("one"), w.node("two")
	stale := one.one() // and hangs
	two.take(0)
	w.clock.Advance(lease - time.Millisecond)
	two.take(0)
	w.clock.Advance(time.Millisecond)
	r := two.one()
	require.Equal(w.t, id, r.ID)
	require.Equal(w.t, jobs.EventDone, w.done(r).Kind)
	require.Equal(w.t, jobs.EventLost, w.done(stale).Kind)
	require.Equal(w.t, 1, w.count(id))
}

// A holder whose lease was lost changes nothing, whether another node has the job or it is free again.
func staleClaimChangesNothing(w *world) {
	for name, end := range map[string]func(r *Run) jobs.Event{
		"done":    w.done,
		"again":   func(r *Run) jobs.Event { return w.again(r, 0) },
		"fail":    func(r *Run) jobs.Event { return w.fails(r, errFailed) },
		"release": func(r *Run) jobs.Event { return w.fails(r, jobs.Before(errFailed)) },
	} {
		id := w.insert("", 0)
		stale := w.node("one").one()
		w.clock.Advance(lease)
		present := w.node("two").one()
		require.ErrorIs(w.t, stale.Save(w.ctx, effect(id)), jobs.ErrLost, name)
		require.Equal(w.t, jobs.EventLost, end(stale).Kind, name)
		require.Zero(w.t, w.count(id), name)
		require.NoError(w.t, present.Save(w.ctx, nil), "%s: the job is still the other's", name)
		require.Equal(w.t, jobs.EventReleased, w.fails(present, jobs.Before(errFailed)).Kind)

		w.clock.Advance(time.Hour)
		stale = w.node("one").one()
		w.clock.Advance(lease)
		r := w.node("two").one()
		w.fails(r, jobs.Before(errFailed))
		require.Equal(w.t, jobs.EventLost, end(stale).Kind, "%s, when the job is free", name)
		require.Zero(w.t, w.count(id), name)
		w.clear()
	}
}

func heartbeatKeepsTheLease(w *world) {
	id := w.insert("", 0)
	one, two := w.node("one"), w.node("two")
	r := one.one()
	for range 5 {
		w.clock.Advance(lease - time.Second)
		require.NoError(w.t, one.Renew(w.ctx))
		two.take(0)
	}
	w.clock.Advance(lease - time.Second)
	require.NoError(w.t, r.Save(w.ctx, nil))
	w.clock.Advance(lease - time.Second)
	two.take(0)
	require.NoError(w.t, r.Ctx.Err())
	require.Equal(w.t, jobs.EventDone, w.done(r).Kind)
	require.Equal(w.t, 1, w.count(id))

	// A started queue does it by itself.
	w.insert("", 0)
	require.NoError(w.t, one.Start(w.ctx))
	kept := one.next()
	due := w.due(kept.ID)
	w.until(loops, lease/4, func() bool { return w.due(kept.ID) != due })
	require.NoError(w.t, kept.Ctx.Err())
}

// due returns the end of the job's lease.
func (w *world) due(jobID string) int64 {
	if w.fixture.Table.Lease != "" {
		return w.column(w.fixture.Table.Lease, jobID)
	}
	return w.column(w.fixture.Table.Due, jobID)
}

func lostLeaseEndsTheContext(w *world) {
	w.insert("", 0)
	one := w.node("one")
	r := one.one()
	w.clock.Advance(lease)
	w.node("two").one()
	require.NoError(w.t, r.Ctx.Err())
	require.NoError(w.t, one.Renew(w.ctx))
	require.ErrorIs(w.t, context.Cause(r.Ctx), jobs.ErrLost)
	require.Equal(w.t, jobs.EventLost, w.fails(r, r.Ctx.Err()).Kind)

	// A lease that cannot be renewed is lost before it is over for the others.
	w.clear()
	w.insert("", 0)
	one = w.node("three")
	r = one.one()
	gone, cancel := context.WithCancel(w.ctx)
	cancel()
	w.clock.Advance(lease / 2)
	require.Error(w.t, one.Renew(gone))
	require.NoError(w.t, r.Ctx.Err())
	w.clock.Advance(lease / 4)
	require.Error(w.t, one.Renew(gone))
	require.ErrorIs(w.t, context.Cause(r.Ctx), jobs.ErrLost)
	require.Equal(w.t, jobs.EventDone, w.done(r).Kind, "the holder keeps it until another claim")
}

// uncertain is a clock that may be behind the database's while it says so.
type uncertain struct {
	*clock.Manual
	now atomic.Bool
}

// IsUncertain implements the method that clock.IsUncertain asks for.
func (u *uncertain) IsUncertain() bool { return u.now.Load() }

// No lease begins while the clock may be behind the database's, neither by a claim nor by a renewal; a handler whose
// lease runs out meanwhile is stopped. Afterwards the queue goes on.
func uncertainClock(w *world) {
	clk := &uncertain{Manual: w.clock}
	id := w.insert("", 0)
	one, two := w.node("one", func(c *jobs.Config) { c.Clock = clk }), w.node("two")
	clk.now.Store(true)
	one.take(0)
	clk.now.Store(false)
	r := one.one()
	w.clock.Advance(lease / 2)
	clk.now.Store(true)
	require.NoError(w.t, one.Renew(w.ctx))
	require.NoError(w.t, r.Ctx.Err())
	w.clock.Advance(lease / 4)
	require.NoError(w.t, one.Renew(w.ctx))
	require.ErrorIs(w.t, context.Cause(r.Ctx), jobs.ErrLost)
	w.clock.Advance(lease / 4)
	again := two.one()
	require.Equal(w.t, id, again.ID, "the lease was not renewed")
	require.Equal(w.t, jobs.EventDone, w.done(again).Kind)
	require.Equal(w.t, jobs.EventLost, w.done(r).Kind)
	clk.now.Store(false)
	w.insert("", 0)
	require.Equal(w.t, jobs.EventDone, w.done(one.one()).Kind)
}

// A handler can see that its lease may be over before the next heartbeat does, no matter how the clocks were set: as
// after its process stood still.
func leaseLasts(w *world) {
	w.insert("", 0)
	n := w.node("one")
	r := n.one()
	w.clock.Advance(lease / 2)
	require.True(w.t, r.Lasts(lease/2))
	require.False(w.t, r.Lasts(lease/2+time.Millisecond))
	w.clock.Set(-time.Hour)
	require.False(w.t, r.Lasts(lease/2+time.Millisecond), "no lease lasts longer because the clock was set back")
	require.NoError(w.t, n.Renew(w.ctx))
	require.True(w.t, r.Lasts(lease))
	w.clock.Set(time.Hour)
	require.False(w.t, r.Lasts(0), "or the machine slept for that long")
	require.NoError(w.t, n.Renew(w.ctx))
	require.True(w.t, r.Lasts(lease))
	require.NoError(w.t, r.Ctx.Err())
	require.Equal(w.t, jobs.EventDone, w.done(r).Kind)
}

// Jobs wait for as long as before after the clock was set, and so do their leases last.
func timesAreShifted(w *world) {
	w.insert("", 0)
	n := w.node("one")
	r := n.one()
	waits := w.insert("", time.Minute)
	for _, by := range []time.Duration{time.Hour, -2 * time.Hour} {
		held, due := w.due(r.ID), w.column(w.fixture.Table.Due, waits)
		require.NoError(w.t, w.store.DB.Tx(w.ctx, func(tx *sql.Tx) error { return n.ShiftTimes(w.ctx, tx, by) }))
		require.Equal(w.t, due+by.Milliseconds(), w.column(w.fixture.Table.Due, waits))
		require.Equal(w.t, held+by.Milliseconds(), w.due(r.ID))
	}
	require.Equal(w.t, jobs.EventDone, w.done(r).Kind)
}

func recall(w *world) {
	id := w.insert("", 0)
	n := w.node("one")
	r := n.one()
	require.ErrorIs(w.t, w.store.DB.Tx(w.ctx, func(tx *sql.Tx) error {
		require.NoError(w.t, n.Recall(w.ctx, tx, id))
		return errFailed
	}), errFailed)
	require.NoError(w.t, r.Save(w.ctx, nil), "a recall that was rolled back changes nothing")
	require.NoError(w.t, w.store.DB.Tx(w.ctx, func(tx *sql.Tx) error { return n.Recall(w.ctx, tx, id) }))
	require.ErrorIs(w.t, r.Save(w.ctx, effect(id)), jobs.ErrLost)
	require.NoError(w.t, n.Renew(w.ctx))
	require.ErrorIs(w.t, context.Cause(r.Ctx), jobs.ErrLost)
	require.Equal(w.t, jobs.EventLost, w.done(r).Kind)
	require.Zero(w.t, w.count(id))
}

// However far apart the clocks of nodes are, each job's effect is stored once.
func clocksMayDiffer(w *world) {
	ids := make([]string, 20)
	for i := range ids {
		ids[i] = w.insert("", -24*time.Hour)
	}
	ahead, behind := clock.NewManual(w.clock.Now().Add(time.Hour)), clock.NewManual(w.clock.Now().Add(-time.Hour))
	slow := w.node("behind", func(c *jobs.Config) { c.Clock, c.Concurrency = behind, len(ids) })
	fast := w.node("ahead", func(c *jobs.Config) { c.Clock, c.Concurrency = ahead, len(ids) })
	first := slow.take(len(ids))
	second := fast.take(len(ids)) // for it every lease is over
	for i := range ids {
		if i%2 == 0 {
			require.Equal(w.t, jobs.EventLost, w.done(first[i]).Kind)
		}
	}
	for i := range ids {
		require.Equal(w.t, jobs.EventDone, w.done(second[i]).Kind)
		if i%2 == 1 {
			require.Equal(w.t, jobs.EventLost, w.done(first[i]).Kind)
		}
	}
	for _, id := range ids {
		require.Equal(w.t, 1, w.count(id))
	}
}

// A process that starts recovers the leases of its predecessor, and no others.
func recoveryAtStart(w *world) {
	mine, others := w.insert("", 0), w.insert("", 0)
	killed := w.node("one", func(c *jobs.Config) { c.Concurrency = 1 })
	first := killed.one()
	other := w.node("one-and-a-half").one()
	w.clock.Advance(time.Second)
	n := w.node("one")
	n.take(0)
	require.NoError(w.t, n.Start(w.ctx))
	r := n.next()
	require.Equal(w.t, first.ID, r.ID)
	require.ElementsMatch(w.t, []string{mine, others}, []string{first.ID, other.ID})
	if hasLost(&w.fixture.Table) {
		require.EqualValues(w.t, 1, r.Lost)
	}
	require.Equal(w.t, jobs.EventDone, w.done(r).Kind)
	require.Equal(w.t, jobs.EventDone, w.done(other).Kind)
	require.Equal(w.t, jobs.EventLost, w.done(first).Kind)
}

// A job whose leases are lost again and again ends; one that saves progress does not.
func lostLeasesAreBounded(w *world) {
	id := w.insert("", 0)
	var reasons []error
	events := make(chan jobs.Event, 10)
	bound := func(c *jobs.Config) {
		c.MaxLost = 3
		c.Failed = func(_ context.Context, _ *sql.Tx, f jobs.Failure) error {
			reasons = append(reasons, f.Err)
			return nil
		}
	}
	crash := func(lost int64) {
		require.Equal(w.t, lost, w.node("one", bound).one().Lost)
		w.clock.Advance(lease)
	}
	crash(0)
	r := w.node("one", bound).one()
	require.NoError(w.t, r.Save(w.ctx, nil))
	w.clock.Advance(lease)
	for lost := range int64(2) {
		crash(lost + 1)
	}
	last := w.node("two", bound, func(c *jobs.Config) { c.Observe = func(e jobs.Event) { events <- e } })
	require.NoError(w.t, last.RunDue(w.ctx))
	e := <-events
	require.Equal(w.t, jobs.EventFailed, e.Kind)
	require.Equal(w.t, id, e.Job.ID)
	require.ErrorIs(w.t, e.Err, jobs.ErrLeasesLost)
	require.Len(w.t, reasons, 1)
	require.Zero(w.t, last.Waiting(), "the handler is not called any more")
	w.clock.Advance(time.Hour)
	last.take(0)
}

// A stop whose context has ended ends the handlers' contexts and releases the jobs that they have not finished, for
// others to claim immediately.
func releaseAtStop(w *world) {
	id, done := w.insert("", 0), w.insert("", 0)
	one, two := w.node("one"), w.node("two")
	require.NoError(w.t, one.Start(w.ctx))
	list := []*Run{one.next(), one.next()}
	slices.SortFunc(list, func(a, _ *Run) int { return map[bool]int{true: -1, false: 1}[a.ID == id] })
	over, cancel := context.WithCancel(w.ctx)
	cancel()
	stopped := w.stop(over, one)
	for _, r := range list {
		await(w.t, r.Ctx.Done())
	}
	require.Equal(w.t, jobs.EventReleased, w.fails(list[0], list[0].Ctx.Err()).Kind)
	require.Equal(w.t, jobs.EventDone, w.done(list[1]).Kind, "an outcome that came in time is stored")
	stopped()
	require.Equal(w.t, 1, w.count(done))
	r := two.one()
	require.Equal(w.t, id, r.ID)
	if w.fixture.Table.Claim != "" && w.fixture.Table.Attempts != "" {
		require.EqualValues(w.t, 1, r.Attempt)
	}
	require.Error(w.t, one.Start(w.ctx), "a queue is started once")
	require.NoError(w.t, one.Stop(w.ctx))
}

// A queue that drains claims nothing more, asks long jobs to yield, and lets the others end.
func drain(w *world) {
	w.insert("", 0)
	one := w.node("one")
	require.NoError(w.t, one.Start(w.ctx))
	r := one.next()
	select {
	case <-r.Yield():
		require.FailNow(w.t, "asked to yield before the queue drains")
	default:
	}
	require.NoError(w.t, one.Drain(w.ctx))
	await(w.t, r.Yield())
	left := w.insert("", 0)
	one.take(0)
	stopped := w.stop(w.ctx, one)
	require.NoError(w.t, r.Ctx.Err())
	require.Equal(w.t, jobs.EventDone, w.done(r).Kind)
	stopped()
	require.Equal(w.t, left, w.node("two").one().ID)
}
