package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// pair stores an event with two leased deliveries, each to a subscription of its own, and returns them.
func (w *world) pair(t *testing.T) (one, other Delivery) {
	t.Helper()
	claim, until := w.claimer.newLease(testTime())
	e, one := w.event(Delivery{Status: Sending, ClaimID: claim, Due: until}, w.subscription())
	other = one
	other.ID, other.SubscriptionID = id.NewUUID(), w.subscription()
	e.Sending = 2
	w.insert(t, []events.NewEvent{e}, []Delivery{one, other})
	return one, other
}

// succeeded returns the result of a leased delivery's attempt that a receiver accepted.
func succeeded(d Delivery) *result {
	r := deadResult(d)
	r.next = d.attempted(outcome{At: testTime()}, nil, 0)
	r.attempt.Outcome, r.attempt.ErrorCode, r.attempt.ErrorMessage = AttemptSucceeded, nil, nil
	return r
}

// A failed delivery that is replayed while its subscription is disabled is held, and its event stays failed, because it
// is held after a failed attempt. One that has succeeded since its failure is held without that, keeps the failure on
// record, and does not make it the event's last error again.
func TestReplayIntoADisabledSubscription(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		p := access.System("test")
		p.Environment = w.env
		status := func(k Key) events.Status {
			e, err := w.events.Get(t.Context(), access.Whole(w.env), k.EventUUID)
			require.NoError(t, err)
			return e.Status
		}
		replay := func(k Key, force bool) Delivery {
			_, err := w.Replay(t.Context(), p, k.EventUUID,
				ReplayRequest{Force: force, SubscriptionIDs: []string{k.SubscriptionID}})
			require.NoError(t, err)
			return w.read(t, k)
		}
		d, other := w.pair(t)
		require.NoError(t, w.recorder.storeResults(t.Context(), []*result{deadResult(d), succeeded(other)}))
		require.Equal(t, events.DeadLetter, status(d.Key))
		w.subs.byID[d.SubscriptionID].Enabled = false
		require.Equal(t, Held, replay(d.Key, false).Status)
		require.Equal(t, events.Failed, status(d.Key), "held after a failed try of the generation before")

		w.subs.byID[d.SubscriptionID].Enabled = true
		w.follower.followSubscriptions(t.Context())
		claimed := w.claim(t, testTime(), 2, d.SubscriptionID)
		require.Len(t, claimed, 1)
		require.NoError(t, w.recorder.storeResults(t.Context(), []*result{succeeded(claimed[0])}))
		require.Equal(t, events.Forwarded, status(d.Key))
		failure := w.read(t, d.Key).LastFailure
		require.NotNil(t, failure)
		require.False(t, failure.Overcome)

		before, err := w.events.Get(t.Context(), access.Whole(w.env), d.EventUUID)
		require.NoError(t, err)
		w.subs.byID[d.SubscriptionID].Enabled = false
		held := replay(d.Key, true)
		require.Equal(t, Held, held.Status)
		require.Equal(t, failure.Code, held.LastFailure.Code)
		require.True(t, held.LastFailure.Overcome)
		require.Equal(t, events.Forwarded, status(d.Key), "the other delivery's success is what counts")
		after, err := w.events.Get(t.Context(), access.Whole(w.env), d.EventUUID)
		require.NoError(t, err)
		require.Equal(t, before.LastError, after.LastError)
	})
}

// of stores an event with so many deliveries in a state, each to a subscription of its own.
func (w *world) of(t *testing.T, n int, d Delivery) string {
	t.Helper()
	if d.Status == Dead {
		d.LastFailure = &Failure{Code: codeGone, Message: "m", At: testTime(), Died: true}
	}
	e, one := w.event(d, w.subscription())
	list := []Delivery{one}
	for range n - 1 {
		one.ID, one.SubscriptionID = id.NewUUID(), w.subscription()
		list = append(list, one)
	}
	w.insertAs(t, e, list)
	return e.UUID
}

// generations counts an event's deliveries by generation.
func (w *world) generations(t *testing.T, event string) map[int64]int {
	t.Helper()
	list, err := w.store.query(t.Context(), w.db.Read(), "d.event_uuid = $1", event)
	require.NoError(t, err)
	out := map[int64]int{}
	for _, d := range list {
		out[d.Generation]++
	}
	return out
}

// watched returns a context in which each transaction is watched before it commits: how many deliveries of the event it
// begins a generation of. The transaction fails if then returns an error.
func (w *world) watched(ctx context.Context, event string, generation int64,
	then func(n int) error) (watched context.Context, parts *[]int) {
	parts = new([]int)
	return db.WithCheck(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var all int
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM deliveries WHERE event_uuid = $1 AND generation = $2", event,
			generation).Scan(&all); err != nil {
			return err
		}
		for _, n := range *parts {
			all -= n
		}
		if err := then(len(*parts)); err != nil {
			return err
		}
		*parts = append(*parts, all)
		return nil
	}), parts
}

// No transaction of a replay changes more than a few hundred rows, however many deliveries the event has, and all of
// them are replayed. The trail has their number.
func TestReplayOfManyInParts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		const size = 3*chunk + 50
		event := w.of(t, size, Delivery{Status: Dead})
		for generation := int64(2); generation < 5; generation++ {
			client, leave := context.WithCancel(t.Context())
			defer leave()
			ctx, parts := w.watched(client, event, generation, func(n int) error {
				if generation == 4 && n == 1 {
					leave() // after the first part
				}
				return nil
			})
			_, _ = w.Replay(ctx, w.anybody(), event, ReplayRequest{Force: generation > 2})
			require.Greater(t, len(*parts), 3)
			for _, n := range *parts {
				require.LessOrEqual(t, n, chunk)
			}
			require.Equal(t, map[int64]int{generation: size}, w.generations(t, event))
			require.Equal(t, map[Status]int{Pending: size}, w.statuses(t, event))
		}
		var details string
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT details FROM audit_events WHERE action =
			'webhook_event.replay' AND environment_id = $1 ORDER BY id DESC LIMIT 1`, string(w.env)).Scan(&details))
		require.Contains(t, details, strconv.Itoa(size))
	})
}

// A replay that stops in between, as when its process dies, has replayed the first parts as a whole and nothing else,
// and the next one replays the others.
func TestReplayThatStopsInBetween(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		const size = 3*chunk + 50
		event := w.of(t, size, Delivery{Status: Dead})
		broken := errors.New("broken")
		ctx, _ := w.watched(t.Context(), event, 2, func(int) error { return broken })
		_, err := w.Replay(ctx, w.anybody(), event, ReplayRequest{})
		require.ErrorIs(t, err, broken)
		require.Equal(t, map[int64]int{1: size}, w.generations(t, event), "nothing has changed")

		ctx, parts := w.watched(t.Context(), event, 2, func(n int) error {
			if n == 2 {
				return broken
			}
			return nil
		})
		_, err = w.Replay(ctx, w.anybody(), event, ReplayRequest{})
		require.ErrorIs(t, err, broken)
		done := (*parts)[0] + (*parts)[1]
		require.Equal(t, map[int64]int{1: size - done, 2: done}, w.generations(t, event))
		list, err := w.Replay(t.Context(), w.anybody(), event, ReplayRequest{})
		require.NoError(t, err)
		require.Len(t, list, size)
		require.Equal(t, map[int64]int{2: size}, w.generations(t, event), "none is replayed twice")
		_, err = w.Replay(t.Context(), w.anybody(), event, ReplayRequest{})
		require.True(t, apperr.Is(err, apperr.CodeNothingToReplay), "%v", err)
	})
}

// A replay changes nothing while one of the selected deliveries is being sent, wherever it is among them. One whose
// attempt begins after the first part is left as it is.
func TestReplayOfManyWhileOneIsSent(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		const size = 2*chunk + 50
		event := w.of(t, size, Delivery{Status: Dead})
		last := func(ctx context.Context, q db.Querier, status, claim string) error {
			_, err := q.ExecContext(ctx, `UPDATE deliveries SET status = $2, claim_id = $3 WHERE event_uuid = $1
				AND subscription_id = (SELECT MAX(subscription_id) FROM deliveries WHERE event_uuid = $1)`, event, status, claim)
			return err
		}
		require.NoError(t, last(t.Context(), w.db.Write(), "sending", "c"))
		_, err := w.Replay(t.Context(), w.anybody(), event, ReplayRequest{})
		require.True(t, apperr.Is(err, apperr.CodeDeliveryInFlight), "%v", err)
		require.Equal(t, map[int64]int{1: size}, w.generations(t, event))

		require.NoError(t, last(t.Context(), w.db.Write(), "dead", ""))
		ctx := db.WithCheck(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return last(ctx, tx, "sending", "c") })
		_, err = w.Replay(ctx, w.anybody(), event, ReplayRequest{})
		require.NoError(t, err)
		require.Equal(t, map[int64]int{1: 1, 2: size - 1}, w.generations(t, event))
	})
}

// A resent webhook restarts many dead deliveries in parts, once in five minutes.
func TestRedeliveryOfManyInParts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		const size = 2*chunk + 50
		event := w.of(t, size, Delivery{Status: Dead})
		ctx, parts := w.watched(t.Context(), event, 2, func(int) error { return nil })
		n, err := w.Redeliver(ctx, w.env, event)
		require.NoError(t, err)
		require.Equal(t, size, n)
		for _, n := range *parts {
			require.LessOrEqual(t, n, chunk)
		}
		_, err = w.db.Write().ExecContext(t.Context(), "UPDATE deliveries SET status = 'dead' WHERE event_uuid = $1", event)
		require.NoError(t, err)
		n, err = w.Redeliver(t.Context(), w.env, event)
		require.NoError(t, err)
		require.Zero(t, n, "too early")
		require.Equal(t, map[int64]int{2: size}, w.generations(t, event))
	})
}
