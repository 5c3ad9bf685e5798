package deliveries

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// Deliveries to a receiver that fails are held in a small part of the time for a minute, and then in a larger one. That
// keeps neither the probe nor a subscription that is disabled waiting, and claims pass over them from the beginning.
func TestHoldsSlowlyWhileReceiverFails(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		const each = 10 * time.Millisecond // of a transaction
		w.follower.subs = &lookedAt{w.subs, w.clock, each, map[string]int{}}
		dead, disabled := w.subscription(), w.subscription()
		w.many(t, 3000, Delivery{Status: Pending, Due: testTime()}, dead)
		w.many(t, 3, Delivery{Status: Pending, Due: testTime()}, disabled)
		w.subs.byID[disabled].Enabled = false
		w.ended(w.env, dead, 20, 20)
		w.breakers.run(t.Context())
		require.True(t, w.breakers.isOpen(dead))

		held := func() int { return w.inState(t, w.env, Held) - 3 }
		follow := func(d time.Duration) {
			for until := w.clock.Now().Add(d); w.clock.Now().Before(until); {
				wait := w.follower.run(t.Context())
				w.clock.Advance(max(min(wait, until.Sub(w.clock.Now())), time.Millisecond))
			}
		}
		follow(time.Second)
		require.GreaterOrEqual(t, held(), slowRows)
		require.LessOrEqual(t, held(), 3*slowRows, "a hundredth of the time")
		require.Equal(t, 3, w.inState(t, w.env, Held)-held(), "those of the disabled subscription are held at once")
		w.claimer.note(w.env, testTime(), dead)
		w.claimer.claimDue(t.Context())
		require.Zero(t, w.inState(t, w.env, Sending))

		follow(30 * time.Second)
		require.Equal(t, 1, w.inState(t, w.env, Sending), "the probe does not wait until all are held")
		require.LessOrEqual(t, held(), 34*slowRows)
		require.Positive(t, w.inState(t, w.env, Pending))

		follow(40 * time.Second)
		require.Zero(t, w.inState(t, w.env, Pending), "after a minute it takes a tenth of the time")
	})
}

// A receiver that responds again gets the deliveries that were not held yet without a release.
func TestPendingDeliveriesNeedNoRelease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.follower.subs = &lookedAt{w.subs, w.clock, 10 * time.Millisecond, map[string]int{}}
		sub := w.subscription()
		w.many(t, 200, Delivery{Status: Pending, Due: testTime()}, sub)
		w.ended(w.env, sub, 20, 20)
		w.breakers.run(t.Context())
		w.follower.run(t.Context())
		require.Equal(t, slowRows, w.inState(t, w.env, Held))

		w.breakers.recovered[sub] = struct{}{} // a probe has succeeded
		w.breakers.run(t.Context())
		require.False(t, w.breakers.isOpen(sub))
		w.clock.Advance(time.Second)
		w.follower.run(t.Context())
		require.Equal(t, 200, w.inState(t, w.env, Pending), "nothing more is held, and what was is released")
		w.claimer.claimDue(t.Context())
		require.Positive(t, w.inState(t, w.env, Sending), "the claimer knows of them")
	})
}

// A process that stood still while it looked at deliveries or held them goes on soon, however long it stood.
func TestHoldsGoOnAfterAStandstill(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		stands := &lookedAt{w.subs, w.clock, 24 * time.Hour, map[string]int{}}
		sub := w.subscription()
		w.many(t, 3*slowRows, Delivery{Status: Pending, Due: testTime().Add(240 * time.Hour)}, sub)
		w.ended(w.env, sub, 20, 20)
		w.breakers.run(t.Context())
		w.follower.run(t.Context())
		require.Equal(t, slowRows, w.inState(t, w.env, Held))
		w.follower.subs = stands
		w.follower.holdSlowly(t.Context())
		w.follower.subs = w.subs
		held := w.inState(t, w.env, Held)
		w.clock.Advance(longestTurnPause)
		w.follower.run(t.Context())
		require.Greater(t, w.inState(t, w.env, Held), held)

		late := w.subscription()
		w.many(t, 1, Delivery{Status: Pending, Due: testTime()}, late)
		w.subs.byID[late].Enabled = false
		w.store.follow.changed(late)
		w.follower.subs = stands
		w.clock.Advance(longestLookPause)
		for _, c := range []struct {
			what string
			run  func()
		}{
			{"a look at all, and a change", func() { w.clock.Advance(pollInterval) }},
			{"a look at what has changed", func() { w.store.follow.changed(late) }},
		} {
			c.run()
			before := stands.times[late]
			require.LessOrEqual(t, w.follower.run(t.Context()), longestLookPause, c.what)
			require.Greater(t, stands.times[late], before, c.what)
			require.LessOrEqual(t, w.follower.changes.length, longestTurnPause, c.what)
			w.clock.Advance(longestLookPause)
		}
	})
}
