package e2e_test

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// flaky is a receiver that fails while it is down.
type flaky struct {
	*receiver
	down atomic.Bool
	// delivered counts the requests that got a 2xx, by event, and succeeded all of them.
	counting  sync.Mutex
	delivered map[string]int
	succeeded atomic.Int64
}

// newFlaky starts a receiver that is down.
func newFlaky(t *testing.T) *flaky {
	t.Helper()
	f := &flaky{delivered: map[string]int{}}
	f.down.Store(true)
	f.receiver = newReceiver(t, func(w http.ResponseWriter, n int) {
		if f.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		f.mu.Lock()
		event := f.got[n-1].header.Get("Webhook-Id")
		f.mu.Unlock()
		f.counting.Lock()
		f.delivered[event]++
		f.counting.Unlock()
		f.succeeded.Add(1)
	})
	return f
}

func (w *world) subscription(subscriptionID string) subscription {
	w.t.Helper()
	var out subscription
	w.call(w.dev(), http.MethodGet, "/webhook-subscriptions/"+subscriptionID, nil).want(w, http.StatusOK).into(w, &out)
	return out
}

// states counts the deliveries of a subscription by state.
func (w *world) states(subscriptionID string) map[string]int {
	w.t.Helper()
	rows, err := w.database().Read().QueryContext(w.t.Context(),
		"SELECT status, COUNT(*) FROM deliveries WHERE subscription_id = $1 GROUP BY status", subscriptionID)
	require.NoError(w.t, err)
	defer func() { require.NoError(w.t, rows.Close()) }()
	out := map[string]int{}
	for rows.Next() {
		var state string
		var n int
		require.NoError(w.t, rows.Scan(&state, &n))
		out[state] = n
	}
	require.NoError(w.t, rows.Err())
	return out
}

// awaitFailing waits until the breaker of the subscription is open and everything that waits is held.
func (w *world) awaitFailing(subscriptionID string) {
	w.t.Helper()
	w.ticking("an open breaker", func() bool { return w.subscription(subscriptionID).Health.State == "failing" })
	w.ticking("everything held", func() bool {
		n := w.states(subscriptionID)
		return n["pending"]+n["retry_wait"]+n["sending"] == 0
	})
}

// deliverMany sends events from several senders.
func (w *world) deliverMany(connection string, senders, each int) {
	w.t.Helper()
	var group sync.WaitGroup
	for sender := range senders {
		group.Go(func() {
			for n := range each {
				w.deliver(connection, github(`{"action":"opened","n":`+strconv.Itoa(sender*each+n)+`}`))
			}
		})
	}
	group.Wait()
}

// A dead receiver with thousands of deliveries waiting gets few attempts, and then one in thirty seconds. Other
// receivers notice nothing. When it is back, every delivery arrives exactly once, and none stays held.
func TestDeadReceiverIsProbed(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const senders = 10
		part := 250
		if testkit.Race { // it looks for unordered accesses, not for many
			part = 25
		}
		sink, fine := newFlaky(w.t), newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(sink.url)
		w.subscribe(fine.url)
		require.Equal(w.t, "healthy", sub.Health.State)
		w.connectGitHub("acme")
		w.deliverMany("acme", senders, part)
		w.awaitFailing(sub.ID)
		require.Less(w.t, sink.count(), senders*part/5, "few attempts")
		fine.wait(w.t, senders*part)
		require.Equal(w.t, map[string]int{"held": senders * part}, w.states(sub.ID), "nothing is lost")
		health := w.subscription(sub.ID).Health
		require.NotNil(w.t, health.FailingSince)
		require.NotNil(w.t, health.NextProbeAt)
		later := w.fresh("acme", github(`{"action":"closed"}`))
		require.Equal(w.t, "held", w.event(later).delivery(w, sub.ID).Status, "new deliveries are held")

		began, before := w.clk.Now(), sink.count()
		w.ticking("three probes", func() bool { return sink.count() >= before+3 })
		require.GreaterOrEqual(w.t, w.clk.Now().Sub(began), time.Minute)
		require.Equal(w.t, before+3, sink.count(), "one probe at a time")
		require.Equal(w.t, "failing", w.subscription(sub.ID).Health.State)

		sink.down.Store(false)
		w.ticking("everything delivered", func() bool { return sink.succeeded.Load() == int64(senders*part)+1 })
		await.Condition(w.t, "everything recorded", func() bool { return w.states(sub.ID)["succeeded"] == senders*part+1 })
		require.Equal(w.t, map[string]int{"succeeded": senders*part + 1}, w.states(sub.ID))
		sink.counting.Lock()
		defer sink.counting.Unlock()
		require.Len(w.t, sink.delivered, senders*part+1)
		for event, n := range sink.delivered {
			require.Equal(w.t, 1, n, event)
		}
		require.Equal(w.t, "healthy", w.subscription(sub.ID).Health.State)
	})
}

// While the breaker is open, the receiver's owner can do everything as before: pause and enable, which probes without
// delay; give another URL, which is probed without delay; replay, which is held with the rest; delete.
func TestChangesWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		open := func(w *world, more ...object) (*flaky, subscription) {
			sink := newFlaky(w.t)
			sub := w.subscribe(sink.url, more...)
			w.deliverMany("acme", 1, 12)
			w.awaitFailing(sub.ID)
			return sink, sub
		}
		remove := func(w *world, sub subscription) { // so that it gets none of the events that follow
			w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusNoContent)
		}
		w.run("pause and enable", func(w *world) {
			sink, sub := open(w)
			w.patchSubscription(sub.ID, object{"enabled": false})
			w.clk.Advance(time.Hour)
			before := sink.count()
			for range 5 {
				w.clk.Advance(time.Minute)
				w.catchUp()
			}
			require.Equal(w.t, before, sink.count(), "a paused receiver is not probed")
			sink.down.Store(false)
			w.patchSubscription(sub.ID, object{"enabled": true})
			w.ticking("all delivered", func() bool { return w.states(sub.ID)["succeeded"] == 12 })
			require.Equal(w.t, "healthy", w.subscription(sub.ID).Health.State)
			remove(w, sub)
		})
		w.run("another URL", func(w *world) {
			_, sub := open(w, object{"retry_schedule_seconds": []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}})
			fine := newReceiver(w.t, status(http.StatusOK))
			changed := w.patchSubscription(sub.ID, object{"forward_url": fine.url})
			require.Equal(w.t, "failing", changed.Health.State)
			if at := w.subscription(sub.ID).Health.NextProbeAt; at != nil { // else a probe has succeeded
				require.False(w.t, at.After(w.clk.Now()), "it does not wait for the next probe")
			}
			w.ticking("all delivered", func() bool { return w.states(sub.ID)["succeeded"] == 12 })
			require.Equal(w.t, 12, fine.count())
			remove(w, sub)
		})
		w.run("replay", func(w *world) {
			sink, sub := open(w, object{"retry_schedule_seconds": []float64{}})
			dead := w.states(sub.ID)["dead"]
			require.GreaterOrEqual(w.t, dead, 10)
			var events []event
			w.call(w.dev(), http.MethodGet, "/webhook-events?limit=1&status=dead_letter&subscription_id="+sub.ID, nil).
				want(w, http.StatusOK).into(w, &events)
			uuid := events[0].EventUUID
			w.call(w.dev(), http.MethodPost, "/webhook-events/"+uuid+"/replay", object{"subscription_ids": []string{sub.ID}}).
				want(w, http.StatusAccepted)
			require.Equal(w.t, "held", w.event(uuid).delivery(w, sub.ID).Status)
			sink.down.Store(false)
			w.ticking("the replay delivered", func() bool {
				return w.event(uuid).delivery(w, sub.ID).Status == "succeeded"
			})
			require.Equal(w.t, dead-1, w.states(sub.ID)["dead"])
			remove(w, sub)
		})
		w.run("delete", func(w *world) {
			_, sub := open(w)
			remove(w, sub)
			w.ticking("all cancelled", func() bool { return w.states(sub.ID)["cancelled"] == 12 })
			var n int
			require.NoError(w.t, w.database().Read().QueryRowContext(w.t.Context(),
				"SELECT COUNT(*) FROM delivery_breakers WHERE subscription_id = $1", sub.ID).Scan(&n))
			require.Zero(w.t, n)
		})
	})
}

// A receiver that fails for five days, to every probe, loses its subscription: it is disabled with a reason, which an
// event and the audit trail report. Enabling it begins again.
func TestFiveDaysOfFailures(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		// An attempt that takes no time is one that was refused before it was sent, and says nothing about the receiver.
		sink := newReceiver(w.t, func(rw http.ResponseWriter, _ int) {
			w.clk.Advance(time.Millisecond)
			rw.WriteHeader(http.StatusServiceUnavailable)
		})
		news := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(news.url, object{"event_types": []string{"sallyport.subscription.disabled"}})
		sub := w.subscribe(sink.url)
		w.connectGitHub("acme")
		w.deliverMany("acme", 1, 12)
		w.awaitFailing(sub.ID)
		for range 5 {
			w.clk.Advance(24 * time.Hour)
			before := sink.count()
			w.ticking("a failure on each day", func() bool { return sink.count() > before })
		}
		w.ticking("the subscription disabled", func() bool { return !w.subscription(sub.ID).Enabled })
		require.Equal(w.t, "Every attempt has failed for five days", *w.subscription(sub.ID).DisabledReason)
		w.ticking("the event", func() bool { return news.count() == 1 })
		w.ticking("all held", func() bool { return w.states(sub.ID)["held"] == 12 })
		w.trail("environment_id="+w.env+"&action=webhook_subscription.disable&target_id="+sub.ID, 1)

		w.patchSubscription(sub.ID, object{"enabled": true})
		before := sink.count()
		w.ticking("probes", func() bool { return sink.count() >= before+3 })
		require.True(w.t, w.subscription(sub.ID).Enabled)
	})
}
