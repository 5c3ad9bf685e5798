package deliveries

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// heldJobs counts the jobs in memory, and those that wait for the renewal of their lease.
func (w *world) heldJobs() (held, lapsed int) {
	w.dispatcher.mu.Lock()
	defer w.dispatcher.mu.Unlock()
	return len(w.dispatcher.held), len(w.dispatcher.lapsed)
}

// metric returns the value of one of the service's metrics.
func (w *world) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	return testkit.Metric(t, w.metrics.collectors(), name, labels...)
}

// takeOver lets another process recover and claim the delivery as if its lease had ended, and record a success.
func (w *world) takeOver(t *testing.T, keys ...Key) {
	t.Helper()
	other := newService(w.db, w.subs, w.clock, nil, 1, 1, 1)
	_, _, err := other.store.recover(t.Context(), testTime().Add(24*time.Hour), "", func(k Key) bool {
		return !slices.Contains(keys, k)
	})
	require.NoError(t, err)
	for _, d := range other.claim(t, testTime().Add(24*time.Hour), len(keys), keys[0].SubscriptionID) {
		a := Attempt{EventUUID: d.EventUUID, SubscriptionID: d.SubscriptionID, Generation: 1, Number: 1,
			StartedAt: testTime(), Outcome: AttemptSucceeded, RequestHeaders: "{}", ResponseHeaders: "{}"}
		require.NoError(t, other.recorder.storeResults(t.Context(), []*result{{delivery: d,
			next: d.attempted(outcome{At: testTime()}, nil, 0), attempt: a, attempted: true}}))
	}
	for _, k := range keys {
		require.Equal(t, Succeeded, w.read(t, k).Status)
	}
}

// A delivery that waits in memory for longer than its lease keeps it: no other process takes it over, and it is sent
// once.
func TestWaitingDeliveriesKeepTheirLeases(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w, sink := live(t, store, 1, 9), newGated(t)
		sub := w.to(t, sink.URL)
		keys := []Key{w.due(t, sub), w.due(t, sub)}
		stop := w.begin(t, sink)
		await.Condition(t, "the first request, and the other delivery in memory", func() bool {
			return sink.arrived.Load() == 1 && len(w.dispatcher.all()) == len(keys)
		})
		began := w.clock.Now()
		for passed := time.Duration(0); passed < 3*testLease; passed = w.clock.Now().Sub(began) {
			await.Condition(t, "renewed leases", func() bool {
				w.clock.Advance(testLease / 16)
				return !slices.ContainsFunc(keys, func(k Key) bool {
					return w.read(t, k).Due.Sub(w.clock.Now()) <= testLease/2
				})
			})
			_, _, err := w.store.recover(t.Context(), w.clock.Now(), "", func(Key) bool { return false })
			require.NoError(t, err)
		}
		sink.open()
		await.Condition(t, "an empty dispatcher", func() bool { return len(w.dispatcher.all()) == 0 })
		stop()
		for _, k := range keys {
			d := w.read(t, k)
			require.Equal(t, Succeeded, d.Status)
			require.Zero(t, d.LeasesLost)
			require.EqualValues(t, 1, d.AttemptCount)
		}
		require.EqualValues(t, 2, sink.arrived.Load())
	})
}

// No attempt starts that could last longer than its lease: it waits for the renewal, and is sent after it.
func TestAttemptWaitsForTheRenewalOfItsLease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		longest := testLease - await.Limit - maxLeaseMargin // the timeout of the subscriptions is await.Limit
		for name, tt := range map[string]struct {
			age   time.Duration
			waits bool
		}{"lasts": {longest, false}, "could end": {longest + time.Millisecond, true}, "ended": {2 * testLease, true}} {
			w, sink := live(t, store, 9, 9), newGated(t)
			sink.open()
			k := w.due(t, w.to(t, sink.URL))
			w.dispatcher.pause()
			w.claimInto(t, k.SubscriptionID)
			w.clock.Advance(tt.age)
			go w.recorder.run()
			w.dispatcher.resume()
			if tt.waits {
				await.Condition(t, "the delivery waits, "+name, func() bool { _, lapsed := w.heldJobs(); return lapsed == 1 })
				require.Zero(t, sink.arrived.Load(), name)
				require.InDelta(t, 1, w.metric(t, "sallyport_delivery_attempts_postponed_total"), 0)
				w.leases.keep(t.Context())
			}
			await.Condition(t, "the delivery is sent, "+name, func() bool { held, _ := w.heldJobs(); return held == 0 })
			require.EqualValues(t, 1, sink.arrived.Load(), name)
			d := w.read(t, k)
			require.Equal(t, Succeeded, d.Status, name)
			require.Zero(t, d.LeasesLost, name)
			w.recorder.flush(t.Context())
		}
	})
}

// The lease is looked at again right before the first byte: a process that stood still while an attempt connected, for
// longer than the lease, sends nothing, and the delivery waits for the renewal. Whether it is renewed or belongs to
// another process by then, the receiver gets one request at most after that.
func TestLeaseThatEndsWhileAnAttemptConnects(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		for name, isLost := range map[string]bool{"renewed": false, "taken over": true} {
			w := newWorld(t, store)
			var arrived atomic.Int64
			sink := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
			still := sync.OnceFunc(func() { w.clock.Advance(2 * testLease) })
			sink.TLS = &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config,
				error) {
				still()
				return nil, nil //nolint:nilnil // the configuration stays as it is
			}}
			sink.StartTLS()
			await.Close(t, sink)
			roots := x509.NewCertPool()
			roots.AddCert(sink.Certificate())
			client := egress.New(egress.Policy{AllowLoopback: true}, egress.Options{TLS: &tls.Config{RootCAs: roots,
				MinVersion: tls.VersionTLS13}})
			t.Cleanup(client.Close)
			w.Service = newService(store.DB, w.subs, w.clock, client, 16, 9, 9)
			k := w.due(t, w.to(t, sink.URL))
			go w.recorder.run()
			w.claimInto(t, k.SubscriptionID)
			await.Condition(t, "the delivery waits, "+name, func() bool { _, lapsed := w.heldJobs(); return lapsed == 1 })
			require.Zero(t, arrived.Load(), name)
			want := int64(1)
			if isLost {
				w.takeOver(t, k) // and sends it itself
				want = 0
			}
			w.leases.keep(t.Context())
			await.Condition(t, "nothing is in memory, "+name, func() bool { held, _ := w.heldJobs(); return held == 0 })
			require.Equal(t, want, arrived.Load(), name)
			require.Equal(t, Succeeded, w.read(t, k).Status, name)
			w.recorder.flush(t.Context())
		}
	})
}

// claimInto claims what is due of the subscription into memory.
func (w *world) claimInto(t *testing.T, subscription string) {
	t.Helper()
	from := w.clock.Moment()
	list := w.claim(t, w.clock.Now(), chunk, subscription)
	require.NotEmpty(t, list)
	for _, d := range list {
		w.dispatcher.mu.Lock()
		w.dispatcher.take(w.dispatcher.queue(d.Environment, d.SubscriptionID), 1)
		w.dispatcher.mu.Unlock()
		w.dispatcher.enqueue(&job{delivery: d, due: testTime(), leased: from})
	}
}

// A process that stood still finds out that another one has its leases before it sends: what waited is dropped, and
// what was being sent is interrupted and on record as superseded.
func TestLostLeasesAreDropped(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w, sink := live(t, store, 1, 9), newGated(t)
		sub := w.to(t, sink.URL)
		keys := []Key{w.due(t, sub), w.due(t, sub), w.due(t, sub)}
		stop := w.begin(t, sink)
		await.Condition(t, "the first request, and the others in memory", func() bool {
			return sink.arrived.Load() == 1 && len(w.dispatcher.all()) == len(keys)
		})
		w.takeOver(t, keys...)
		w.clock.Advance(testLease / 4)
		await.Condition(t, "an empty dispatcher", func() bool { return len(w.dispatcher.all()) == 0 })
		sink.open()
		stop()
		require.EqualValues(t, 1, sink.arrived.Load(), "nothing is sent after another process recorded the success")
		require.InDelta(t, 2, w.metric(t, "sallyport_delivery_leases_lost_total", "delivery", "waiting"), 0)
		require.InDelta(t, 1, w.metric(t, "sallyport_delivery_leases_lost_total", "delivery", "sending"), 0)
		superseded := 0
		for _, k := range keys {
			require.Equal(t, Succeeded, w.read(t, k).Status)
			require.EqualValues(t, 1, w.read(t, k).AttemptCount)
			var n int
			require.NoError(t, w.db.Read().QueryRowContext(context.WithoutCancel(t.Context()), `SELECT COUNT(*)
				FROM delivery_attempts WHERE event_uuid = $1 AND outcome = 'superseded' AND error_code = 'lease_lost'`,
				k.EventUUID).Scan(&n))
			superseded += n
		}
		require.Equal(t, 1, superseded)
		require.Zero(t, w.dispatcher.places)
	})
}

// A lease that was lost is found out before the attempt also if nothing but the end of the lease leads to it: the
// process stood still, and its keeper has not had its turn.
func TestLeaseThatRanOutInMemory(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w, sink := live(t, store, 9, 9), newGated(t)
		sink.open()
		k := w.due(t, w.to(t, sink.URL))
		w.dispatcher.pause()
		w.claimInto(t, k.SubscriptionID)
		w.clock.Advance(testLease)
		w.takeOver(t, k)
		w.dispatcher.resume()
		await.Condition(t, "the delivery waits", func() bool { _, lapsed := w.heldJobs(); return lapsed == 1 })
		w.leases.keep(t.Context())
		held, lapsed := w.heldJobs()
		require.Zero(t, held+lapsed)
		require.NoError(t, w.dispatcher.wait(t.Context()))
		require.Zero(t, sink.arrived.Load())
	})
}

// A wall clock that is set makes no difference: no lease seems to be longer, and what may have ended is renewed first.
func TestLeasesAndSetClocks(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		for _, set := range []time.Duration{-time.Hour, time.Hour} {
			w, sink := live(t, store, 9, 9), newGated(t)
			sink.open()
			k := w.due(t, w.to(t, sink.URL))
			w.dispatcher.pause()
			w.claimInto(t, k.SubscriptionID)
			w.clock.Advance(testLease)
			w.clock.Set(set)
			w.dispatcher.resume()
			await.Condition(t, "the delivery waits", func() bool { _, lapsed := w.heldJobs(); return lapsed == 1 })
			go w.recorder.run()
			w.leases.keep(t.Context())
			await.Condition(t, "the delivery is sent", func() bool { held, _ := w.heldJobs(); return held == 0 })
			require.EqualValues(t, 1, sink.arrived.Load())
			require.Equal(t, Succeeded, w.read(t, k).Status)
			w.recorder.flush(t.Context())
		}
	})
}

// Setting a node's clock makes no retry due, and delays none: due times go by the database's clock, and the time
// between two comparisons is counted.
func TestDueTimesAndSetClocks(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		if store.DB.Engine() == db.SQLite {
			t.Skip("SQLite has no clock of its own")
		}
		for _, set := range []time.Duration{-time.Hour, time.Hour} {
			w := newWorld(t, store)
			shown := db.NewClock(store.DB, w.clock, nil)
			require.NoError(t, shown.Sync(t.Context()))
			s := newService(store.DB, w.subs, shown, nil, 1, 1, 1)
			s.claimer.isUncertain = shown.IsUncertain
			sub := w.subscription()
			e, d := w.event(Delivery{Status: RetryWait, Due: shown.Now().Add(10 * time.Minute)}, sub)
			w.insertAs(t, e, []Delivery{d})
			s.backlog.note(w.env, sub, d.Due)
			before := shown.Now()
			w.clock.Set(set)
			require.Equal(t, before, shown.Now(), "the time that passes is counted")
			require.True(t, shown.IsUncertain())
			require.Error(t, shown.Check())
			require.NoError(t, shown.Sync(t.Context()))
			require.False(t, shown.IsUncertain())
			s.claimer.claimDue(t.Context())
			require.Equal(t, RetryWait, w.read(t, d.Key).Status, "not due yet")
			w.clock.Advance(10 * time.Minute)
			s.claimer.claimDue(t.Context())
			require.Equal(t, Sending, w.read(t, d.Key).Status, "due")
		}
	})
}

// After a time in which the database was away, or the process stood still, leases that ended meanwhile are left to
// their holders for a while: those could not renew them either, and store first what they have sent.
func TestRecoveryAfterAnOutage(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		lost := w.leased(t)
		w.clock.Advance(2 * testLease)
		status := func() Status {
			w.leases.keep(t.Context())
			return w.read(t, lost.Key).Status
		}
		require.Equal(t, Sending, status(), "the process has just started")
		w.clock.Advance(testLease)
		require.Equal(t, Sending, status(), "the process stood still")
		w.clock.Advance(testLease/4 - time.Millisecond)
		require.Equal(t, Sending, status(), "its holder may still come")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		w.leases.keep(gone)
		w.clock.Advance(testLease / 4)
		require.Equal(t, Sending, status(), "the database was away")
		w.clock.Advance(testLease / 4)
		require.Equal(t, Pending, status())
	})
}

// Dispatch stops while the database hangs, long before that becomes an error, and goes on by itself.
func TestDispatchStopsWhileOutcomesWait(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w, sink := live(t, store, 1, 9), newGated(t)
		k := w.due(t, w.to(t, sink.URL))
		stop := w.begin(t, sink)
		await.Condition(t, "the request", func() bool { return sink.arrived.Load() == 1 })
		isPaused := func() bool {
			w.dispatcher.mu.Lock()
			defer w.dispatcher.mu.Unlock()
			return w.dispatcher.paused
		}
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(t.Context(), "UPDATE deliveries SET updated_ms = updated_ms WHERE event_uuid = $1",
				k.EventUUID); err != nil {
				return err
			}
			sink.open()
			await.Condition(t, "a stop", isPaused)
			return nil
		}))
		await.Condition(t, "an empty dispatcher", func() bool { return len(w.dispatcher.all()) == 0 })
		require.False(t, isPaused())
		stop()
		require.Equal(t, Succeeded, w.read(t, k).Status)
	})
}

// On SQLite, the time that a retry waits is what passes, no matter how the machine's clock is set: due times move
// along.
func TestDueTimesFollowTheMachinesClock(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		if store.DB.Engine() != db.SQLite {
			t.Skip("PostgreSQL has a clock of its own")
		}
		for _, set := range []time.Duration{-time.Hour, time.Hour} {
			w := newWorld(t, store)
			shown := db.NewClock(store.DB, w.clock, nil)
			require.NoError(t, shown.Sync(t.Context()))
			s := newService(store.DB, w.subs, shown, nil, 1, 1, 1)
			s.claimer.isUncertain = shown.IsUncertain
			sub := w.subscription()
			e, d := w.event(Delivery{Status: RetryWait, Due: shown.Now().Add(10 * time.Minute)}, sub)
			w.insertAs(t, e, []Delivery{d})
			claim := func() Status {
				s.backlog.note(w.env, sub, shown.Now())
				s.claimer.claimDue(t.Context())
				return w.read(t, d.Key).Status
			}
			before := shown.Now()
			w.clock.Set(set)
			require.Equal(t, before, shown.Now(), "the time that passes is counted")
			require.True(t, shown.IsUncertain())
			require.Equal(t, RetryWait, claim(), "nothing is claimed before due times have moved")
			require.NoError(t, shown.Follow(t.Context(), s.shiftTimes))
			require.False(t, shown.IsUncertain())
			require.Equal(t, w.clock.Now(), shown.Now(), "the clock is followed")
			require.NoError(t, shown.Check())
			require.Equal(t, d.Due.Add(set).UnixMilli(), w.read(t, d.Key).Due.UnixMilli())
			w.clock.Advance(10*time.Minute - time.Millisecond)
			require.Equal(t, RetryWait, claim(), "not due yet")
			w.clock.Advance(time.Millisecond)
			require.Equal(t, Sending, claim(), "due")

			failed := errors.New("failed")
			w.clock.Set(set)
			require.ErrorIs(t, shown.Follow(t.Context(), func(context.Context, *sql.Tx, time.Duration) error { return failed }),
				failed)
			require.False(t, shown.IsUncertain(), "a failure stops no deliveries")
		}
	})
}
