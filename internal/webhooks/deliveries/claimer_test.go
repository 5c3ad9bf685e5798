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

// idle is a world whose dispatcher starts nothing and has room for that many deliveries.
func idle(t *testing.T, store testkit.Store, capacity int) *world {
	t.Helper()
	w := newWorld(t, store)
	w.dispatcher.limits = limits{0, 10, 10}
	w.dispatcher.capacity = capacity
	return w
}

// wait stores n deliveries of a subscription that are due, one millisecond after the other, and returns them.
func (w *world) wait(t *testing.T, env id.Environment, subscription string, n int) []Key {
	t.Helper()
	var found []events.NewEvent
	var list []Delivery
	var keys []Key
	before := w.env
	w.env = env
	for i := range n {
		e, d := w.event(Delivery{Status: Pending, Due: testTime().Add(time.Duration(i-n) * time.Millisecond)}, subscription)
		found, list, keys = append(found, e), append(list, d), append(keys, d.Key)
	}
	w.insert(t, found, list)
	w.env = before
	w.claimer.note(env, testTime(), subscription)
	return keys
}

// places counts the deliveries of a subscription in memory, and checks that the table agrees.
func (w *world) places(t *testing.T, subscription string) int {
	t.Helper()
	n := 0
	for _, d := range w.dispatcher.all() {
		if d.SubscriptionID == subscription {
			require.Equal(t, d.ClaimID, w.read(t, d.Key).ClaimID)
			n++
		}
	}
	leased, err := w.store.query(t.Context(), w.db.Read(), "d.subscription_id = $1 AND d.status = 'sending'", subscription)
	require.NoError(t, err)
	require.Len(t, leased, n, "every lease is in memory")
	return n
}

// A claim takes of each subscription what is due longest and has room, in turns between environments, and leaves the
// rest in the table, which is found again when there is room.
func TestClaimsByTurns(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 1000)
		other := id.Environment(id.New(id.PrefixEnvironment))
		long, short, theirs := w.subscription(), w.subscription(), w.subscription()
		keys := w.wait(t, w.env, long, 100)
		w.wait(t, w.env, short, 3)
		w.wait(t, other, theirs, 5)
		w.claimer.claimDue(t.Context())
		require.Equal(t, windowFactor*10, w.places(t, long))
		require.Equal(t, 3, w.places(t, short))
		require.Equal(t, 5, w.places(t, theirs))
		for i, k := range keys {
			require.Equal(t, i < windowFactor*10, w.read(t, k).Status == Sending, "the first ones")
		}
		require.True(t, w.backlog.isBehind(long))
		require.False(t, w.backlog.isBehind(short))

		held := w.dispatcher.queues[long].waiting
		for _, j := range held[:20] {
			w.endUnsent(t, j)
		}
		w.claimer.claimDue(t.Context())
		require.Equal(t, windowFactor*10+20, w.places(t, long), "as many more as its receiver took")
		require.Equal(t, Sending, w.read(t, keys[79]).Status)
		require.Equal(t, Pending, w.read(t, keys[80]).Status)
	})
}

// Deliveries in the table are claimed when the attempts in memory have ended, and not only when their outcomes are
// stored, which wait for each other.
func TestClaimsBeforeOutcomesAreStored(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 1000)
		sub := w.subscription()
		w.wait(t, w.env, sub, windowFactor*10+5)
		w.claimer.claimDue(t.Context())
		require.Equal(t, windowFactor*10, w.places(t, sub))
		for len(w.dispatcher.queues[sub].waiting) > 0 {
			require.False(t, w.backlog.hasReady())
			w.dispatcher.mu.Lock()
			j := w.dispatcher.start(w.dispatcher.queues[sub], false)
			w.dispatcher.mu.Unlock()
			w.dispatcher.next(j)
		}
		require.True(t, w.backlog.hasReady())
		w.claimer.claimDue(t.Context())
		require.Len(t, w.dispatcher.queues[sub].waiting, 5)
	})
}

// endUnsent ends a waiting job as if it had been sent.
func (w *world) endUnsent(t *testing.T, j *job) {
	t.Helper()
	w.dispatcher.mu.Lock()
	q := j.queue
	require.Same(t, j, w.dispatcher.start(q, j.replay()))
	w.dispatcher.mu.Unlock()
	w.dispatcher.next(j)
	r := w.result(j.delivery, outcome{At: w.clock.Now()})
	require.NoError(t, w.recorder.storeResults(t.Context(), []*result{r}))
	w.dispatcher.done(j.delivery)
	w.claimer.finished(r.next)
}

// Deliveries that will not be sent soon return to the table when others of their environment are due and find no room.
// They lose nothing but their place, and take it again when they get on.
func TestWaitingDeliveriesGiveWay(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 40)
		hangs, works := w.subscription(), w.subscription()
		keys := w.wait(t, w.env, hangs, 30)
		w.claimer.claimDue(t.Context())
		require.Equal(t, 15, w.places(t, hangs), "half of the environment's share, which leaves the other half")
		w.clock.Advance(2 * stallAfter)
		w.wait(t, w.env, works, 25)
		w.claimer.claimDue(t.Context())
		require.Equal(t, 1, w.places(t, hangs))
		require.Equal(t, 15, w.places(t, works))
		for i, k := range keys {
			d := w.read(t, k)
			require.Equal(t, i == 0, d.Status == Sending, "the first stays")
			if i > 0 {
				require.Equal(t, testTime().Add(time.Duration(i-30)*time.Millisecond), d.Due)
				require.Zero(t, d.LeasesLost)
				require.Empty(t, d.ClaimID)
			}
		}
		w.claimer.claimDue(t.Context())
		require.Equal(t, 1, w.places(t, hangs), "what gave way does not come back")
		w.endUnsent(t, w.dispatcher.queues[hangs].waiting[0])
		w.claimer.claimDue(t.Context())
		require.Greater(t, w.places(t, hangs), 1, "it gets on")
	})
}

// A process finds what waits in the table without having been there when it was stored, as after a start.
func TestFollowerShowsWhatWaits(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 1000)
		sub, disabled := w.subscription(), w.subscription()
		w.subs.byID[disabled].Enabled = false
		due := w.one(t, Delivery{Status: Pending, Due: testTime()}, sub)
		w.one(t, Delivery{Status: RetryWait, Due: testTime().Add(time.Minute)}, sub)
		w.one(t, Delivery{Status: Pending, Due: testTime()}, disabled)
		w.claimer.claimDue(t.Context())
		require.Zero(t, w.places(t, sub))
		w.follower.followSubscriptions(t.Context())
		w.claimer.claimDue(t.Context())
		require.True(t, w.dispatcher.holds(due.Key))
		require.Equal(t, 1, w.places(t, sub))
		require.Zero(t, w.places(t, disabled))
		w.follower.followSubscriptions(t.Context())
		require.Equal(t, pollInterval, w.claimer.claimDue(t.Context()))
		w.clock.Advance(time.Minute - time.Millisecond)
		require.Equal(t, time.Millisecond, w.claimer.claimDue(t.Context()), "the retry starts on time")
		w.clock.Advance(time.Millisecond)
		w.claimer.claimDue(t.Context())
		require.Equal(t, 1, w.places(t, sub), "the first does not get on, so the second waits")
	})
}

// settingSubscriptions sets a clock whenever it is asked.
type settingSubscriptions struct {
	Subscriptions
	clock *clock.Manual
	by    time.Duration
}

func (s *settingSubscriptions) Target(ctx context.Context, environment id.Environment,
	subscriptionID string) (*subscriptions.Target, error) {
	s.clock.Set(s.by)
	return s.Subscriptions.Target(ctx, environment, subscriptionID)
}

// A clock that is set while the follower looks makes it neither look without a pause nor rest for hours: held
// deliveries are released and receivers probed as before.
func TestFollowerWhoseClockIsSet(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		testkit.Each(t, func(t *testing.T, store testkit.Store) {
			w := idle(t, store, 1000)
			w.one(t, Delivery{Status: Pending, Due: testTime()}, w.subscription())
			w.follower.subs = &settingSubscriptions{w.subs, w.clock, by}
			require.Equal(t, pollInterval, w.follower.followSubscriptions(t.Context()))
		})
	}
}
