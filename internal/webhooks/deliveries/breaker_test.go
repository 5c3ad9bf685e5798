package deliveries

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/subscriptions"
)

// A breaker opens from ten attempts on, if at least seven in ten have failed.
func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		counts attemptCounts
		opens  bool
	}{
		{attemptCounts{}, false}, {attemptCounts{9, 9}, false}, {attemptCounts{10, 10}, true}, {attemptCounts{10, 7}, true},
		{attemptCounts{10, 6}, false}, {attemptCounts{1000, 699}, false}, {attemptCounts{1000, 700}, true},
		{attemptCounts{10, 0}, false},
	} {
		require.Equal(t, c.opens, c.counts.opens(), "%+v", c.counts)
	}
}

// Recent attempts are exactly those of the last five minutes, to the accuracy of a slot, however time passes.
func TestRecentAttemptsAreOfTheLastMinutes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		type attempt struct {
			at     time.Time
			failed bool
		}
		var r recentAttempts
		var all []attempt
		now := testTime()
		for range rapid.IntRange(1, 60).Draw(rt, "attempts") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(rt, "wait")))
			a := attempt{now, rapid.Bool().Draw(rt, "failed")}
			all = append(all, a)
			r.add(a.at, a.failed)
			var want attemptCounts
			for _, a := range all {
				if slotOf(now)-slotOf(a.at) < int64(breakerWindow/recentSlot) {
					want.all++
					if a.failed {
						want.failed++
					}
				}
			}
			require.Equal(rt, want, r.sum(now))
		}
		require.Zero(rt, r.sum(now.Add(breakerWindow)))
	})
}

// The stored counts decide over whole minutes within five minutes, and never over one in which counting began again.
func TestMinutesThatDecideAboutABreaker(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		v, err := time.Parse(time.DateTime, "2026-01-01 "+text)
		require.NoError(t, err)
		return v
	}
	require.Equal(t, at("10:03:00"), countedFrom(at("10:07:20"), time.Time{}))
	require.Equal(t, at("10:03:00"), countedFrom(at("10:07:59"), at("10:01:10")))
	require.Equal(t, at("10:06:00"), countedFrom(at("10:07:20"), at("10:05:01")))
	require.Equal(t, at("10:06:00"), countedFrom(at("10:07:20"), at("10:05:00")))
	require.Equal(t, at("10:08:00"), countedFrom(at("10:07:20"), at("10:07:10")), "no stored minute decides")
}

// ended makes one process know attempts of a subscription that have ended, as the recorder does.
func (s *Service) ended(env id.Environment, sub string, attempts, failed int) {
	batch := make([]*result, attempts)
	for i := range batch {
		a := Attempt{StartedAt: s.clock.Now(), Outcome: AttemptSucceeded}
		a.Timings.Total = time.Millisecond
		if i < failed {
			a.Outcome = AttemptFailed
		}
		d := Delivery{Key: Key{SubscriptionID: sub}, Environment: env, Generation: 1}
		batch[i] = &result{delivery: d, next: d, attempt: a, attempted: true, sent: true}
		s.recorder.counted.add(batch[i])
	}
	s.breakers.observe(batch)
}

// The attempts of all nodes count together: a receiver that one node alone cannot reach is not taken for dead, and one
// of which no node alone has seen enough is.
func TestNodesJudgeTogether(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		other := newService(store.DB, w.subs, w.clock, nil, 1, 1, 1)
		cut, dead, refused := w.subscription(), w.subscription(), w.subscription()
		w.ended(w.env, cut, 50, 50)
		other.ended(w.env, cut, 50, 0)
		w.ended(w.env, dead, 6, 6)
		other.ended(w.env, dead, 4, 3)
		for range 20 { // refused before anything was sent
			d := Delivery{Key: Key{SubscriptionID: refused}, Environment: w.env, Generation: 1}
			r := &result{delivery: d, next: d, attempted: true, attempt: Attempt{StartedAt: w.clock.Now(),
				Outcome: AttemptFailed}}
			w.recorder.counted.add(r)
			w.breakers.observe([]*result{r})
		}
		other.recorder.storeCounts(t.Context())
		w.breakers.run(t.Context())
		require.False(t, w.breakers.isOpen(cut))
		require.False(t, w.breakers.isOpen(refused))
		require.True(t, w.breakers.isOpen(dead))
		require.False(t, other.breakers.isOpen(dead), "it has not looked yet")
		require.NoError(t, other.breakers.refresh(t.Context()))
		require.True(t, other.breakers.isOpen(dead))

		// A process that starts knows it, too, and new deliveries are held.
		third := newService(store.DB, w.subs, w.clock, nil, 1, 1, 1)
		require.NoError(t, third.breakers.refresh(t.Context()))
		matched := []subscriptions.Matched{{ID: cut, Enabled: true}, {ID: dead, Enabled: true}}
		require.Equal(t, []subscriptions.Matched{{ID: cut, Enabled: true}, {ID: dead}}, third.breakers.holding(matched))
		require.True(t, matched[1].Enabled, "others may use the list")
	})
}

// A receiver that is back by the time of the judgement keeps its deliveries: of many failures the last attempts say
// more than the others. A single success says little.
func TestReceiverThatIsBackIsNotHeld(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		back, odd := w.subscription(), w.subscription()
		w.ended(w.env, back, 9, 9)
		w.ended(w.env, back, 3, 0)
		w.ended(w.env, odd, 10, 10)
		w.ended(w.env, odd, 1, 0)
		w.breakers.run(t.Context())
		require.False(t, w.breakers.isOpen(back))
		require.True(t, w.breakers.isOpen(odd))

		w.ended(w.env, back, 1, 1)
		w.breakers.run(t.Context())
		require.True(t, w.breakers.isOpen(back), "it fails again")
	})
}

// A subscription of which every attempt has failed for five days is disabled, whether there were many or few, and not
// if it was enabled or got another URL since, or one attempt succeeded.
func TestFiveDaysOfFailuresDisable(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		many, few, renewed, once, short := w.subscription(), w.subscription(), w.subscription(), w.subscription(),
			w.subscription()
		rare, gap := w.subscription(), w.subscription()
		w.ended(w.env, rare, 1, 1)
		w.ended(w.env, gap, 20, 20)
		round := func() {
			w.ended(w.env, many, 20, 20)
			for _, sub := range []string{few, renewed, once} {
				w.ended(w.env, sub, 1, 1)
			}
			w.breakers.run(t.Context())
		}
		round()
		require.True(t, w.breakers.isOpen(many))
		for day := range 4 {
			w.clock.Advance(24 * time.Hour)
			if day != 1 {
				w.ended(w.env, gap, 1, 1)
			}
			round()
		}
		w.ended(w.env, once, 1, 0)
		w.ended(w.env, short, 5, 5)
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			return w.store.Control().Renewed(t.Context(), tx, w.env, renewed, w.clock.Now())
		}))
		require.NoError(t, w.breakers.refresh(t.Context()))
		w.clock.Advance(24 * time.Hour)
		round()
		for _, sub := range []string{short, rare, gap} {
			w.ended(w.env, sub, 1, 1)
		}
		w.breakers.run(t.Context())
		for sub, enabled := range map[string]bool{many: false, few: false, renewed: true, once: true, short: true, rare: true,
			gap: true} {
			require.Equal(t, enabled, w.subs.byID[sub].Enabled, sub)
		}
	})
}

// A success that was recorded after the breaker opened, of an attempt in progress, is a success: the five days begin
// again.
func TestLateSuccessBeginsTheFiveDaysAgain(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.subscription()
		w.ended(w.env, sub, 20, 20)
		w.breakers.run(t.Context())
		require.True(t, w.breakers.isOpen(sub))
		w.clock.Advance(2 * time.Minute)
		w.ended(w.env, sub, 1, 0)
		w.clock.Advance(failingFor)
		w.ended(w.env, sub, 1, 1)
		w.breakers.run(t.Context())
		require.True(t, w.subs.byID[sub].Enabled)
		require.True(t, w.breakers.isOpen(sub), "only a probe closes it")
		for range failingDays {
			require.True(t, w.subs.byID[sub].Enabled)
			w.clock.Advance(24 * time.Hour)
			w.ended(w.env, sub, 1, 1)
			w.breakers.run(t.Context())
		}
		require.False(t, w.subs.byID[sub].Enabled)
	})
}

// A breaker that opened while its subscription was being deleted does not stay.
func TestBreakersOfDeletedSubscriptionsGo(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		gone, stays := w.subscription(), w.subscription()
		for _, sub := range []string{gone, stays} {
			w.ended(w.env, sub, 10, 10)
		}
		w.breakers.run(t.Context())
		deleted := *w.subs.byID[gone]
		deleted.Deleted = true
		w.subs.byID[gone] = &deleted
		w.clock.Advance(forgetInterval)
		w.breakers.run(t.Context())
		list, err := w.store.breakers.of(t.Context(), []string{gone, stays})
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, stays, list[0].subscriptionID)
		require.False(t, w.breakers.isOpen(gone))
		require.InDelta(t, 1, testkit.Metric(t, w.metrics.collectors(), "sallyport_delivery_breakers_open"), 0)
		require.InDelta(t, 2, testkit.Metric(t, w.metrics.collectors(), "sallyport_delivery_breaker_transitions_total",
			"to", "open"), 0)
	})
}

// When the machine's clock is set, the times of breakers and held deliveries move along: a receiver has failed for as
// long as before, attempts from now on count, and held deliveries are due when they were.
func TestTimesOfBreakersMoveAlong(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, 30 * 24 * time.Hour} {
		testkit.Each(t, func(t *testing.T, store testkit.Store) {
			w := newWorld(t, store)
			sub := w.subscription()
			held := w.one(t, Delivery{Status: Held, Due: testTime()}, sub)
			require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
				return w.store.Control().Renewed(t.Context(), tx, w.env, sub, w.clock.Now())
			}))
			require.NoError(t, w.breakers.refresh(t.Context()))
			w.ended(w.env, sub, 20, 20)
			w.breakers.run(t.Context())
			before := w.breakers.get(sub)
			require.NotNil(t, before.opened)
			w.clock.Set(by)
			require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error { return w.shiftTimes(t.Context(), tx, by) }))
			require.NoError(t, w.breakers.refresh(t.Context()))
			after := w.breakers.get(sub)
			require.Equal(t, by, after.since.Sub(before.since))
			require.Equal(t, by, after.failing.Sub(before.failing))
			require.Equal(t, by, w.read(t, held.Key).Due.Sub(testTime()))
			w.ended(w.env, sub, 1, 1)
			w.breakers.run(t.Context())
			require.True(t, w.subs.byID[sub].Enabled)
		})
	}
}
