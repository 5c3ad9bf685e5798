package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// A turn that ends without room gets another one if places were freed while it lasted: no later outcome may follow.
func TestPlacesFreedDuringATurn(t *testing.T) {
	t.Parallel()
	b := newBacklog()
	b.note("env-1", "a1", testTime())
	x := b.next(testTime(), nil)
	b.unblock("a1")
	b.block(x)
	require.Same(t, x, b.next(testTime(), nil))
	b.block(x)
	require.Nil(t, b.next(testTime(), nil))
	b.unblock("a1")
	require.Same(t, x, b.next(testTime(), nil))
}

// A commit that fails frees its places without an outcome. Deliveries that wait in the table for them are claimed.
func TestPlacesOfAFailedCommitAreClaimedFor(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 100)
		w.dispatcher.perSubscription = 1
		sub := w.subscription()
		w.wait(t, w.env, sub, 1)
		batch := w.NewBatch(w.clock.Now())
		for range windowFactor {
			e, _ := w.event(Delivery{Status: Pending}, sub)
			batch.Add(&e.Event, &events.Payload{}, []subscriptions.Matched{{ID: sub, Enabled: true}})
		}
		failed := errors.New("failed")
		require.ErrorIs(t, batch.Commit(t.Context(), func(*sql.Tx) error {
			w.claimer.claimDue(t.Context())
			require.Equal(t, backlogBlocked, w.backlog.subs[sub].state)
			<-w.claimer.wake
			return failed
		}), failed)
		require.Len(t, w.claimer.wake, 1)
		w.claimer.claimDue(t.Context())
		require.Equal(t, 1, w.places(t, sub))
	})
}

// The follower gives a subscription another turn whose deliveries are due, no matter why it has none.
func TestFollowerUnblocks(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 100)
		sub := w.subscription()
		w.wait(t, w.env, sub, 1)
		w.backlog.block(w.backlog.next(w.clock.Now(), nil))
		w.claimer.claimDue(t.Context())
		require.Zero(t, w.places(t, sub))
		w.follower.followSubscriptions(t.Context())
		w.claimer.claimDue(t.Context())
		require.Equal(t, 1, w.places(t, sub))
	})
}

// A delivery that is held while it is being claimed does not end the claim for other subscriptions.
func TestClaimNextToAChange(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		changes, waits := w.subscription(), w.subscription()
		first := w.one(t, Delivery{Status: Pending, Due: testTime()}, changes)
		second := w.one(t, Delivery{Status: Pending, Due: testTime()}, changes)
		others := w.one(t, Delivery{Status: Pending, Due: testTime()}, waits)
		got := make(chan []claimed, 1)
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			held := []move{{from: first, to: first.held()}}
			require.NoError(t, w.store.apply(t.Context(), tx, held, clock.Millis(testTime())))
			go func() {
				name, until := w.claimer.newLease(testTime())
				list, err := w.store.claim(w.hard, name, testTime(), until, []ask{{changes, 5}, {waits, 5}})
				if err != nil {
					t.Error(err)
				}
				got <- list
			}()
			if store.DB.Engine() == db.SQLite {
				await.Condition(t, "a claim that waits for the writer", func() bool {
					return store.DB.Waiting() > 0
				})
			}
			return nil
		}))
		var keys []Key
		for _, c := range await.Value(t, "the claim", got) {
			require.Equal(t, Sending, w.read(t, c.Key).Status)
			keys = append(keys, c.Key)
		}
		require.Equal(t, []Key{second.Key, others.Key}, keys)
		require.Equal(t, Held, w.read(t, first.Key).Status)
	})
}

// givesWay is a world in which a subscription that hangs uses its environment's share while deliveries of another are
// due, and a context whose transactions fail with the error if they return deliveries to the table.
func givesWay(t *testing.T, store testkit.Store, failure error) (w *world, hangs, works string, ctx context.Context) {
	t.Helper()
	w = idle(t, store, 40)
	hangs, works = w.subscription(), w.subscription()
	w.wait(t, w.env, hangs, 30)
	w.claimer.claimDue(t.Context())
	require.Equal(t, 15, w.places(t, hangs))
	w.clock.Advance(2 * stallAfter)
	w.wait(t, w.env, works, 25)
	return w, hangs, works, db.WithCheck(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		var leased int
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM deliveries WHERE subscription_id = $1 AND status = 'sending'",
			hangs).Scan(&leased); err != nil || leased == 15 {
			return err
		}
		return failure
	})
}

// waitingFor returns the deliveries that wait in memory, in their order.
func (w *world) waitingFor(subscription string) (list []Key) {
	w.dispatcher.mu.Lock()
	defer w.dispatcher.mu.Unlock()
	for _, j := range w.dispatcher.queues[subscription].waiting {
		list = append(list, j.delivery.Key)
	}
	return list
}

// Deliveries that cannot return to the table stay in memory, in their order, and their leases are not lost.
func TestGiveWayWhileTheDatabaseIsDown(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w, hangs, works, ctx := givesWay(t, store, context.DeadlineExceeded)
		before := w.waitingFor(hangs)
		require.Equal(t, pollInterval, w.claimer.claimDue(ctx))
		require.Equal(t, 15, w.places(t, hangs))
		require.Equal(t, before, w.waitingFor(hangs))
		w.claimer.claimDue(t.Context())
		require.Equal(t, 1, w.places(t, hangs))
		require.Equal(t, before[:1], w.waitingFor(hangs))
		require.Equal(t, 15, w.places(t, works))
	})
}

// Deliveries of which it is not known whether they have returned to the table are not sent, and return when the
// database is back, if they have not before.
func TestGiveWayInAnUncertainCommit(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w, hangs, works, ctx := givesWay(t, store, db.ErrCommitUnknown)
		before := w.waitingFor(hangs)
		w.claimer.claimDue(ctx)
		require.Equal(t, 15, w.places(t, hangs), "they keep their places and leases")
		require.Equal(t, before[:1], w.waitingFor(hangs), "but are not sent")
		var stored []Delivery
		for _, k := range before[5:] {
			stored = append(stored, w.read(t, k))
		}
		n, err := w.store.changeEach(t.Context(), stored, w.clock.Now(), func(d Delivery) Delivery {
			return d.returned(testTime())
		})
		require.NoError(t, err)
		require.Equal(t, len(stored), n)
		w.claimer.claimDue(t.Context())
		require.Equal(t, 1, w.places(t, hangs))
		require.Equal(t, 15, w.places(t, works))
		for _, k := range before[1:] {
			require.Equal(t, Pending, w.read(t, k).Status)
			require.Zero(t, w.read(t, k).LeasesLost)
		}
	})
}

// A change of many deliveries reports how many it has made when the database goes down in between.
func TestChangeEachReportsWhatItHasChanged(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		list := []Delivery{w.leased(t), w.leased(t), w.leased(t)}
		list[1].ClaimID = "lost"
		ctx := db.WithCheck(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			var status Status
			err := tx.QueryRowContext(ctx, "SELECT status FROM deliveries WHERE event_uuid = $1",
				list[2].EventUUID).Scan(&status)
			if err == nil && status == Pending {
				return context.DeadlineExceeded
			}
			return err
		})
		n, err := w.store.changeEach(ctx, list, testTime(), func(d Delivery) Delivery { return d.returned(testTime()) })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2, n)
		for i, want := range []Status{Pending, Sending, Sending} {
			require.Equal(t, want, w.read(t, list[i].Key).Status)
		}
	})
}

// A row that cannot be read delays the deliveries of its own subscription only, and is read again after a pause.
func TestUnreadableDeliveryDelaysNoOther(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 1000)
		bad, good, theirs := w.subscription(), w.subscription(), w.subscription()
		other := id.Environment(id.New(id.PrefixEnvironment))
		keys := w.wait(t, w.env, bad, 3)
		w.wait(t, w.env, good, 3)
		w.wait(t, other, theirs, 3)
		write := func(failure *string) {
			_, err := store.DB.Write().ExecContext(t.Context(), "UPDATE deliveries SET last_error = $1 WHERE event_uuid = $2",
				failure, keys[0].EventUUID)
			require.NoError(t, err)
		}
		write(new("{"))
		w.claimer.claimDue(t.Context())
		require.Equal(t, 3, w.places(t, good))
		require.Equal(t, 3, w.places(t, theirs))
		require.NotContains(t, w.dispatcher.queues, bad, "its places are free")
		write(nil)
		w.claimer.note(w.env, testTime(), bad)
		w.clock.Advance(refusedPause - time.Millisecond)
		require.Equal(t, time.Millisecond, w.claimer.claimDue(t.Context()))
		require.Zero(t, w.places(t, bad))
		w.clock.Advance(time.Millisecond)
		w.claimer.claimDue(t.Context())
		require.Equal(t, 3, w.places(t, bad))
	})
}

// The follower is woken when the deliveries of an uncertain commit are released, and not before: it would not find
// them.
func TestReleaseOfAnUncertainCommitWakesTheFollower(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		d := w.leased(t)
		w.claimer.doubts.Add(d.ClaimID, db.ErrCommitUnknown)
		checked := false
		w.claimer.claimDue(db.WithCheck(t.Context(), func(context.Context, *sql.Tx) error {
			checked = true
			require.Empty(t, w.store.follow.wake)
			return nil
		}))
		require.True(t, checked)
		require.Len(t, w.store.follow.wake, 1)
		require.Equal(t, Pending, w.read(t, d.Key).Status)
	})
}
