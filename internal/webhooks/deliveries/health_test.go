package deliveries

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/subscriptions"
)

// records makes one process know an attempt that began now, as the recorder does after it has stored the outcome.
func (s *Service) records(env id.Environment, sub string, o AttemptOutcome, took time.Duration) {
	d := Delivery{Key: Key{SubscriptionID: sub}, Environment: env, Generation: 1}
	s.recorder.counted.add(&result{delivery: d, next: d, attempted: true,
		attempt: Attempt{StartedAt: s.clock.Now(), Outcome: o, Timings: egress.Timings{Total: took}}})
}

// health returns the health of a subscription after all counts are stored.
func (w *world) health(t require.TestingT, nodes []*Service, sub string) subscriptions.Health {
	for _, node := range nodes {
		node.recorder.storeCounts(w.hard)
	}
	health, err := nodes[0].store.Control().Health(w.hard, w.env, []string{sub}, w.clock.Now())
	require.NoError(t, err)
	return health[sub]
}

// On one node, health is what the attempts themselves say, however time passes:
// failures since the last success, and the part that succeeded and the percentile of the last hour.
func TestHealthIsThatOfTheAttempts(t *testing.T) {
	t.Parallel()
	type attempt struct {
		at   time.Time
		ok   bool
		took time.Duration
	}
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		rapid.Check(t, func(rt *rapid.T) {
			w := newWorld(t, store)
			sub, other := w.subscription(), w.subscription()
			var all []attempt
			for range rapid.IntRange(1, 20).Draw(rt, "attempts") {
				w.clock.Advance(rapid.SampledFrom([]time.Duration{0, time.Second, 20 * time.Second, time.Minute,
					40 * time.Minute, 5 * time.Hour}).Draw(rt, "wait"))
				a := attempt{w.clock.Now(), rapid.Bool().Draw(rt, "succeeds"),
					time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(30*time.Second)).Draw(rt, "took"))}
				outcome := AttemptFailed
				if a.ok {
					outcome = AttemptSucceeded
				}
				all = append(all, a)
				w.records(w.env, sub, outcome, a.took)
				w.records(w.env, sub, AttemptFailed, 0) // refused before anything was sent
				w.records(w.env, sub, AttemptSuperseded, a.took)
				w.records(w.env, other, AttemptFailed, time.Hour)
			}
			since := w.clock.Now().Add(-time.Hour).Truncate(time.Minute)
			var inRow, succeeded int64
			var took []time.Duration
			for _, a := range all {
				inRow++
				if a.ok {
					inRow = 0
				}
				if a.at.Before(since) {
					continue
				}
				took = append(took, a.took)
				if a.ok {
					succeeded++
				}
			}
			got := w.health(rt, []*Service{w.Service}, sub)
			require.Equal(rt, inRow, got.ConsecutiveFailures)
			require.InDelta(rt, float64(succeeded)/float64(len(took)), *got.SuccessRate, 1e-9)
			slices.Sort(took)
			require.InEpsilon(rt, took[(len(took)*95+99)/100-1].Microseconds(), got.P95.Microseconds(), 0.11)
		})
	})
}

// Nodes add up what they have recorded, also after a restart. No node takes failures for a row that another's success
// has ended; only within the minute of that success some are missing, and never too many.
func TestHealthOfSeveralNodes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		other := newService(store.DB, w.subs, w.clock, nil, 1, 1, 1)
		nodes := []*Service{w.Service, other}
		sub := w.subscription()
		failures := func(s *Service, n int) {
			for range n {
				s.records(w.env, sub, AttemptFailed, time.Second)
			}
		}
		require.Equal(t, subscriptions.Health{}, w.health(t, nodes, sub), "no attempts")
		failures(w.Service, 2)
		failures(other, 3)
		require.EqualValues(t, 5, w.health(t, nodes, sub).ConsecutiveFailures)
		other.records(w.env, sub, AttemptSucceeded, time.Second)
		require.LessOrEqual(t, w.health(t, nodes, sub).ConsecutiveFailures, int64(2), "of the same minute")
		w.clock.Advance(time.Minute)
		other.records(w.env, sub, AttemptSucceeded, time.Second)
		require.Zero(t, w.health(t, nodes, sub).ConsecutiveFailures)
		failures(other, 1)
		require.Zero(t, w.health(t, nodes, sub).ConsecutiveFailures, "another node's, of the minute of its success")
		require.EqualValues(t, 1, w.health(t, []*Service{other, w.Service}, sub).ConsecutiveFailures)
		w.clock.Advance(time.Minute)
		failures(w.Service, 2)
		failures(other, 4)
		require.EqualValues(t, 6, w.health(t, nodes, sub).ConsecutiveFailures)
		started := newService(store.DB, w.subs, w.clock, nil, 1, 1, 1)
		require.EqualValues(t, 6, w.health(t, []*Service{started}, sub).ConsecutiveFailures)

		// Counts that are older than a day are by the hour, and those that are older than five days do not matter.
		w.clock.Advance(30 * time.Hour)
		for more := true; more; {
			var err error
			more, err = w.store.JoinStats(t.Context(), StatOwner{sub, w.env}, StatMinutesUntil(w.clock.Now()))
			require.NoError(t, err)
		}
		failures(started, 1)
		require.EqualValues(t, 1, w.health(t, []*Service{started}, sub).ConsecutiveFailures, "that hour has a success")
		started.records(w.env, sub, AttemptSucceeded, time.Second)
		w.clock.Advance(time.Hour)
		failures(started, 1)
		w.clock.Advance(failingFor)
		require.Zero(t, w.health(t, nodes, sub).ConsecutiveFailures)
		require.Nil(t, w.health(t, nodes, sub).SuccessRate)

		elsewhere, err := w.store.Control().Health(t.Context(), id.Environment(id.New(id.PrefixEnvironment)),
			[]string{sub}, testTime())
		require.NoError(t, err)
		require.Zero(t, elsewhere[sub], "another environment")
	})
}

// A list of any length shows the health of each subscription.
func TestHealthOfManySubscriptions(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		subs := make([]string, 600)
		for i := range subs {
			subs[i] = id.New(id.PrefixSubscription)
			for range i % 3 {
				w.records(w.env, subs[i], AttemptFailed, time.Second)
			}
		}
		w.recorder.storeCounts(t.Context())
		health, err := w.store.Control().Health(t.Context(), w.env, subs, w.clock.Now())
		require.NoError(t, err)
		for i, sub := range subs {
			require.EqualValues(t, i%3, health[sub].ConsecutiveFailures)
		}
	})
}

// A process forgets failures in a row that are older than health looks back.
func TestFailuresInARowAreForgotten(t *testing.T) {
	t.Parallel()
	var f failureRuns
	a := Attempt{StartedAt: testTime(), Outcome: AttemptFailed, Timings: egress.Timings{Total: 1}}
	f.add(&a, "gone")
	a.StartedAt = testTime().Add(failingFor + time.Hour)
	f.add(&a, "other")
	require.Zero(t, f.inMinute("gone", clock.Millis(testTime().Truncate(time.Minute))))
	require.Len(t, f.bySub, 1)
}
