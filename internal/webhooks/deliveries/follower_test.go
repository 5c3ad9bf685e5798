package deliveries

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// many stores so many events with a delivery each to the subscription.
func (w *world) many(t *testing.T, n int, d Delivery, sub string) {
	t.Helper()
	for n > 0 {
		var found []events.NewEvent
		var list []Delivery
		for range min(n, 100) {
			e, d := w.event(d, sub)
			found, list = append(found, e), append(list, d)
		}
		w.insert(t, found, list)
		n -= len(list)
	}
}

// inState returns how many deliveries of the environment are in a state.
func (w *world) inState(t *testing.T, env id.Environment, s Status) (n int) {
	t.Helper()
	require.NoError(t, w.db.Read().QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM deliveries WHERE environment_id = $1 AND status = $2", string(env), string(s)).Scan(&n))
	return n
}

// lookedAt counts how often the follower looks at each subscription, each of which takes so long.
type lookedAt struct {
	Subscriptions
	clock *clock.Manual
	each  time.Duration
	times map[string]int
}

func (l *lookedAt) Target(ctx context.Context, env id.Environment, sub string) (*subscriptions.Target, error) {
	l.times[sub]++
	l.clock.Advance(l.each)
	return l.Subscriptions.Target(ctx, env, sub)
}

// A change of one subscription makes the follower look at that one, no matter how often one changes.
func TestChangeIsFollowedAlone(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		looked := &lookedAt{w.subs, w.clock, 0, map[string]int{}}
		w.follower.subs = looked
		changed, other := w.subscription(), w.subscription()
		w.many(t, 3, Delivery{Status: Pending, Due: testTime()}, changed)
		w.many(t, 3, Delivery{Status: Pending, Due: testTime()}, other)
		w.follower.run(t.Context())
		w.subs.byID[changed].Enabled = false
		for range 100 {
			w.store.Control().Changed(changed)
			w.follower.run(t.Context())
		}
		require.Equal(t, 3, w.inState(t, w.env, Held))
		require.Equal(t, 1, looked.times[other])
		w.clock.Advance(pollInterval)
		w.follower.run(t.Context())
		require.Equal(t, 2, looked.times[other])
	})
}

// The follower looks at most for a tenth of the time, no matter how often it is woken, by name or without.
func TestFollowerLooksForATenthOfTheTime(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		looked := &lookedAt{w.subs, w.clock, 10 * time.Millisecond, map[string]int{}}
		w.follower.subs = looked
		subs := make([]string, 20)
		for i := range subs {
			subs[i] = w.subscription()
			w.many(t, 1, Delivery{Status: Pending, Due: testTime().Add(time.Hour)}, subs[i])
		}
		total := func() (n int) {
			for _, times := range looked.times {
				n += times
			}
			return n
		}
		for _, signal := range []func(){
			func() { w.store.follow.anyChanged() }, func() { w.store.Control().Changed(subs[0]) },
		} {
			w.follower.run(t.Context())
			began, before := w.clock.Now(), total()
			for w.clock.Now().Sub(began) < time.Minute {
				signal()
				w.follower.run(t.Context())
				w.clock.Advance(time.Millisecond)
			}
			share := time.Duration(total()-before) * looked.each
			require.LessOrEqual(t, share, 13*time.Second) // a tenth for each kind, and a look at the beginning
			require.Greater(t, share, 5*time.Second)
		}
	})
}

// One environment with thousands of deliveries to release keeps no other waiting: a round changes a part of them, and
// those of others in turn.
func TestEnvironmentsFollowInTurns(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		busy := w.env
		w.follower.release.allowed("", testTime())
		for range 3 {
			sub := w.subscription()
			w.many(t, 1000, Delivery{Status: Held, Due: testTime()}, sub)
			w.follower.release.since[sub] = testTime().Add(-time.Hour)
		}
		w.env = id.Environment(id.New(id.PrefixEnvironment))
		other := w.subscription()
		w.many(t, 3, Delivery{Status: Pending, Due: testTime()}, other)
		w.subs.byID[other].Enabled = false
		w.follower.run(t.Context())
		require.Equal(t, 3, w.inState(t, w.env, Held), "the other environment's are held in the first round")
		require.LessOrEqual(t, w.inState(t, busy, Pending), followRows+chunk)
		require.Positive(t, w.inState(t, busy, Held), "the round leaves some")
		w.follower.changes = pause{}
		w.follower.run(t.Context())
		require.Zero(t, w.inState(t, busy, Held), "and the next goes on, before another look")
	})
}

// The ramp of a release counts the time that has passed, so that rounds that take long do not slow it down.
func TestReleaseCatchesUp(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.subscription()
		w.many(t, 1500, Delivery{Status: Held, Due: testTime()}, sub)
		w.follower.followSubscriptions(t.Context())
		require.Equal(t, releaseStart, w.inState(t, w.env, Pending))
		w.clock.Advance(3 * time.Second)
		w.follower.followSubscriptions(t.Context())
		require.Equal(t, 4*releaseStart, w.inState(t, w.env, Pending))

		// Another process has its part of the same ramp, which begins again where it has not released before.
		other := newService(store.DB, w.subs, w.clock, nil, 1, 1, 1)
		other.follower.followSubscriptions(t.Context())
		require.Equal(t, 4*releaseStart, w.inState(t, w.env, Pending))
		w.clock.Advance(time.Second)
		other.follower.followSubscriptions(t.Context())
		w.follower.followSubscriptions(t.Context())
		require.Equal(t, 5*releaseStart, w.inState(t, w.env, Pending))
		w.clock.Advance(time.Second)
		w.follower.followSubscriptions(t.Context())
		require.Equal(t, 6*releaseStart, w.inState(t, w.env, Pending), "a second since the other's")
	})
}
