package jobstest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/jobs"
)

// Two nodes that claim at the same time do each job once.
func claimsAreExclusive(w *world) {
	const count = 60
	ids := make([]string, count)
	for i := range ids {
		ids[i] = w.insert("", 0)
	}
	var mu sync.Mutex
	calls := map[string]int{}
	counting := func(c *jobs.Config) {
		c.Concurrency = 4
		c.Handle = func(_ context.Context, j *jobs.Job) (jobs.Outcome, error) {
			mu.Lock()
			defer mu.Unlock()
			calls[j.ID]++
			return jobs.Done(effect(j.ID)), nil
		}
	}
	var all sync.WaitGroup
	for _, n := range []*node{w.node("one", counting), w.node("two", counting), w.node("three", counting)} {
		all.Go(func() {
			for range 20 { // a round that finds everything locked by others ends early
				if err := n.RunDue(w.ctx); err != nil {
					panic(err)
				}
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		require.Equal(w.t, 1, calls[id], "calls of the handler")
		require.Equal(w.t, 1, w.count(id))
	}
}

func earliestDueFirst(w *world) {
	late, early, soon := w.insert("", -time.Second), w.insert("", -time.Hour), w.insert("", time.Millisecond)
	n := w.node("one", func(c *jobs.Config) { c.Concurrency = 1 })
	for _, id := range []string{early, late} {
		r := n.one()
		require.Equal(w.t, id, r.ID)
		w.done(r)
	}
	n.take(0)
	w.clock.Advance(time.Millisecond)
	require.Equal(w.t, soon, n.one().ID)
}

func concurrencyIsBounded(w *world) {
	for range 5 {
		w.insert("", 0)
	}
	n := w.node("one", func(c *jobs.Config) { c.Concurrency = 3 })
	list := n.take(3)
	n.take(0)
	w.done(list[0])
	n.take(1)
	n.take(0)
}

// One key with many jobs leaves the others their turn.
func keysTakeTurns(w *world) {
	for range 50 {
		w.insert("b", -time.Hour)
	}
	few := map[string]bool{w.insert("a", 0): true, w.insert("c", 0): true, w.insert("d", 0): true}
	w.insert("e", time.Hour)
	n := w.node("one", func(c *jobs.Config) { c.Concurrency = 2 })
	seen := 0
	for rounds := range 4 {
		list := n.take(2)
		require.NotEqual(w.t, list[0].Key, list[1].Key, "each key in turn")
		for _, r := range list {
			if few[r.ID] {
				seen++
			}
			w.done(r)
		}
		if seen == len(few) {
			require.LessOrEqual(w.t, rounds, 2)
			break
		}
	}
	require.Equal(w.t, len(few), seen)
	for _, r := range n.take(2) {
		require.Equal(w.t, "b", r.Key, "a key that waits alone has all places")
	}

	// A queue with one place serves the keys in turn, too.
	w.clear()
	for range 3 {
		w.insert("a", -time.Hour)
		w.insert("b", 0)
	}
	n = w.node("two", func(c *jobs.Config) { c.Concurrency = 1 })
	var order []string
	for range 6 {
		r := n.one()
		order = append(order, r.Key)
		w.done(r)
	}
	require.Equal(w.t, []string{"a", "b", "a", "b", "a", "b"}, order)
}

// One key has no more than its share of the places, however long its jobs take.
func keysHaveShares(w *world) {
	for range 10 {
		w.insert("a", -time.Hour)
	}
	n := w.node("one", func(c *jobs.Config) { c.Concurrency, c.PerKey = 3, 2 })
	list := n.take(2)
	n.take(0)
	for range 2 { // also when the key whose share is full is the next in turn
		w.insert("b", 0)
		r := n.one()
		require.Equal(w.t, "b", r.Key)
		w.done(r)
	}
	w.done(list[0])
	require.Equal(w.t, "a", n.one().Key)
	n.take(0)
}

// A job that has had its turn is asked to yield when others wait for its place, and not before.
func turnsEnd(w *world) {
	w.insert("", 0)
	n := w.node("one", func(c *jobs.Config) { c.Concurrency, c.Turn = 1, lease/4 })
	r := n.one()
	asked := func() bool {
		n.take(0)
		select {
		case <-r.Yield():
			return true
		default:
			return false
		}
	}
	w.clock.Advance(lease / 2)
	require.False(w.t, asked(), "no other job waits")
	require.Equal(w.t, jobs.EventAgain, r.End(w.t, jobs.Again(w.clock.Now(), nil), nil).Kind)
	r = n.one()
	w.insert("", -time.Second)
	require.False(w.t, asked(), "it has not had its turn")
	w.clock.Advance(lease / 4)
	require.True(w.t, asked())
	first := r.ID
	r.End(w.t, jobs.Again(w.clock.Now(), nil), nil)
	require.NotEqual(w.t, first, n.one().ID)
}

// A started queue takes due jobs immediately where it is woken, and else when it polls or when their time has come.
func wakeAndPoll(w *world) {
	first := w.insert("", 0)
	n := w.node("one")
	require.NoError(w.t, n.Start(w.ctx))
	next := func(jobID string) {
		r := n.next()
		require.Equal(w.t, jobID, r.ID)
		require.Equal(w.t, jobs.EventDone, w.done(r).Kind)
	}
	next(first)
	woken := w.insert("", 0)
	n.Wake()
	next(woken)
	polled := w.insert("", 0)
	w.until(loops, poll, func() bool { return n.Waiting() > 0 })
	next(polled)
	soon := w.insert("", poll/10)
	n.Wake()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	require.NoError(w.t, w.clock.AwaitTimers(ctx, 1, poll/10), "it waits for the job's time, not for the next poll")
	// The timer may have been that of an earlier look, or of the leases, so the clock may have to move twice.
	w.until(loops, poll/10, func() bool { return n.Waiting() > 0 })
	next(soon)
}
