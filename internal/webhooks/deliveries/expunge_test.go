package deliveries

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/events"
)

// anyone is a principal in the world's environment.
func (w *world) anybody() access.Principal {
	p := access.System("test")
	p.Environment = w.env
	return p
}

// statuses counts an event's deliveries by state.
func (w *world) statuses(t *testing.T, event string) map[Status]int {
	t.Helper()
	byEvent, err := w.store.ByEvents(t.Context(), access.Whole(w.env), []string{event})
	require.NoError(t, err)
	out := map[Status]int{}
	for _, d := range byEvent[event] {
		out[d.Status]++
	}
	return out
}

// Expunging ends every waiting delivery, however many there are, and leaves those that have ended and those on the
// wire. If the attempt in progress leaves its delivery open, the outcome cancels it. It is done and recorded once, in
// the event's environment only.
func TestExpunge(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		ctx := t.Context()
		event, first := w.event(Delivery{Status: Held}, w.subscription())
		event.Payload = &events.Payload{Headers: `{"a":"b"}`, Body: []byte("x"), Encoding: events.Text}
		list := []Delivery{first}
		add := func(n int, d Delivery) (last Delivery) {
			for range n {
				_, last = w.event(d, w.subscription())
				last.EventUUID = event.UUID
				list = append(list, last)
			}
			return last
		}
		add(chunk, Delivery{Status: Pending, Due: testTime()})
		add(chunk, Delivery{Status: RetryWait, Due: testTime()})
		add(7, Delivery{Status: Held, Due: testTime()})
		add(2, Delivery{Status: Succeeded})
		failure := &Failure{Code: codeGone, Message: "m", At: testTime()}
		add(3, Delivery{Status: Dead, LastFailure: failure})
		leased := add(1, Delivery{Status: Sending, ClaimID: "claim", Due: testTime().Add(time.Hour)})
		w.insertAs(t, event, list)

		stranger := w.anybody()
		stranger.Environment = id.Environment(id.New(id.PrefixEnvironment))
		require.True(t, apperr.Is(w.Expunge(ctx, stranger, event.UUID), apperr.CodeNotFound))
		payloads, err := w.events.Payloads(ctx, w.env, []events.Event{event.Event})
		require.NoError(t, err)
		require.Len(t, payloads, 1)

		for range 2 {
			require.NoError(t, w.Expunge(ctx, w.anybody(), event.UUID))
			require.Equal(t, map[Status]int{Cancelled: 2*chunk + 8, Succeeded: 2, Dead: 3, Sending: 1},
				w.statuses(t, event.UUID))
			w.clock.Advance(time.Second)
		}
		var audited, payload int
		require.NoError(t, store.DB.Read().QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM audit_events
			WHERE action = 'webhook_event.expunge'),
			(SELECT COUNT(*) FROM webhook_event_payloads)`).Scan(&audited, &payload))
		require.Equal(t, 1, audited)
		require.Zero(t, payload)
		payloads, err = w.events.Payloads(ctx, w.env, []events.Event{event.Event})
		require.NoError(t, err)
		require.Empty(t, payloads, "also for who has read the event before")

		o := outcome{At: testTime(), Failure: &Failure{Code: codeUnexpectedStatus, Message: "m", At: testTime()}}
		require.NoError(t, w.recorder.storeResults(ctx, []*result{w.result(leased, o)}))
		require.Equal(t, map[Status]int{Cancelled: 2*chunk + 9, Succeeded: 2, Dead: 3}, w.statuses(t, event.UUID))
		e, err := w.events.Get(ctx, access.Whole(w.env), event.UUID)
		require.NoError(t, err)
		require.True(t, e.PayloadExpired)
		require.Equal(t, events.DeadLetter, e.Status)
		require.EqualValues(t, 1, e.AttemptCount)
	})
}

// result is a worker's result after an attempt of d, which has an hour's schedule.
func (w *world) result(d Delivery, o outcome) *result {
	r := &result{delivery: d, next: d.attempted(o, []time.Duration{time.Hour}, 0.5), attempted: true,
		attempt: Attempt{ID: id.NewUUID(), EventUUID: d.EventUUID, SubscriptionID: d.SubscriptionID, Generation: d.Generation,
			Number: d.GenerationAttempts + 1, StartedAt: o.At, RequestHeaders: "{}", ResponseHeaders: "{}",
			Outcome: AttemptSucceeded}}
	if o.Failure != nil {
		r.attempt.Outcome = AttemptFailed
	}
	return r
}

// However an expunging meets the outcomes of attempts, lost leases and replays of the same event, nothing of it waits
// to be sent when all is done.
func TestExpungeRaces(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		ctx := t.Context()
		for range 40 {
			event, failing := w.event(Delivery{Status: Sending, ClaimID: "claim", Due: testTime().Add(time.Hour)},
				w.subscription())
			_, lost := w.event(Delivery{Status: Sending, ClaimID: "gone", Due: testTime().Add(-time.Second)}, w.subscription())
			_, dead := w.event(Delivery{Status: Dead, LastFailure: &Failure{Code: codeGone, Message: "m", At: testTime()}},
				w.subscription())
			lost.EventUUID, dead.EventUUID = event.UUID, event.UUID
			w.insertAs(t, event, []Delivery{failing, lost, dead})
			o := outcome{At: testTime(), Failure: &Failure{Code: codeUnexpectedStatus, Message: "m", At: testTime()}}
			var all sync.WaitGroup
			errs := make([]error, 3)
			all.Go(func() { errs[0] = w.recorder.storeResults(ctx, []*result{w.result(failing, o)}) })
			all.Go(func() { _, _, errs[1] = w.store.recover(ctx, testTime(), "", func(Key) bool { return false }) })
			all.Go(func() { errs[2] = w.Expunge(ctx, w.anybody(), event.UUID) })
			all.Go(func() {
				_, err := w.Replay(ctx, w.anybody(), event.UUID, ReplayRequest{SubscriptionIDs: []string{dead.SubscriptionID}})
				if err != nil && !apperr.Is(err, apperr.CodePayloadExpired) {
					t.Error(err)
				}
			})
			all.Wait()
			require.NoError(t, errors.Join(errs...))
			// The next round recovers a lease whose row was locked.
			_, _, err := w.store.recover(ctx, testTime(), "", func(Key) bool { return false })
			require.NoError(t, err)
			for status := range w.statuses(t, event.UUID) {
				require.False(t, status.isOpen() || status == Sending, status)
			}
		}
	})
}

// A worker that has held a delivery in memory for longer than a moment reads it again before it sends, and does not
// send when its event was removed.
func TestExpungedIsNotSent(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w, sink := live(t, store, 1, 9), newGated(t)
		sub := w.to(t, sink.URL)
		stop := w.begin(t, sink)
		var keys []Key
		for range 3 {
			claim, until := w.claimer.newLease(w.clock.Now())
			require.True(t, w.dispatcher.reserve(w.env, sub, false))
			e, d := w.event(Delivery{Status: Sending, ClaimID: claim, Due: until}, sub)
			e.Payload = &events.Payload{Headers: "{}", Body: []byte("{}"), Encoding: events.JSON}
			w.insert(t, []events.NewEvent{e}, []Delivery{d})
			w.handOver(d, w.clock.Moment(), content{event: &e.Event, payload: e.Payload, since: w.clock.Now(),
				epoch: w.epochs.now()})
			keys = append(keys, d.Key)
		}
		await.Condition(t, "the first request", func() bool { return sink.arrived.Load() == 1 })
		for _, k := range keys[:2] {
			require.NoError(t, w.Expunge(t.Context(), w.anybody(), k.EventUUID))
		}
		w.clock.Advance(freshFor + time.Millisecond)
		sink.open()
		await.Condition(t, "an empty dispatcher", func() bool { return len(w.dispatcher.all()) == 0 })
		stop()
		require.Equal(t, []Status{Succeeded, Cancelled, Succeeded}, []Status{w.read(t, keys[0]).Status,
			w.read(t, keys[1]).Status, w.read(t, keys[2]).Status}, "on the wire, in memory, not expunged")
		require.EqualValues(t, 2, sink.arrived.Load())
	})
}
