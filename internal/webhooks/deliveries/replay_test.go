package deliveries

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// pair stores an event with two leased deliveries, each to a subscription of its own, and returns them.
func (w *world) pair(t *testing.T) (one, other Delivery) {
	t.Helper()
	claim, until := w.newLease(testTime())
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
		name, until := w.newLease(testTime())
		claimed, err := w.store.claim(t.Context(), name, testTime(), until, 2, nil)
		require.NoError(t, err)
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
