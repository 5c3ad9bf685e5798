package e2e_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit/await"
)

// A paused subscription loses nothing: waiting and new deliveries are held, and go out when it is enabled again, no
// more than fifty a second at first.
func TestPauseAndRelease(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, statuses(http.StatusServiceUnavailable, http.StatusOK))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{3600}})
		w.connectGitHub("acme")
		failed := w.fresh("acme", github(issueOpened))
		w.awaitDelivery(failed, sub.ID, "retry_wait")
		w.patchSubscription(sub.ID, object{"enabled": false})
		d := w.event(failed).delivery(w, sub.ID)
		require.Equal(w.t, "held", d.Status)
		require.Nil(w.t, d.NextAttemptAt)
		require.Equal(w.t, "failed", w.event(failed).Status, "held after a failed try")

		const more = 59
		for n := range more {
			uuid := w.fresh("acme", github(`{"action":"opened","n":`+strconv.Itoa(n)+`}`))
			require.Equal(w.t, "held", w.event(uuid).delivery(w, sub.ID).Status)
			require.Equal(w.t, "received", w.event(uuid).Status, "held before any try")
		}
		require.Equal(w.t, 1, sink.count())

		held := func() int {
			var n int
			require.NoError(w.t, w.database().Read().QueryRowContext(w.t.Context(),
				"SELECT COUNT(*) FROM deliveries WHERE status = 'held'").Scan(&n))
			return n
		}
		require.Equal(w.t, more+1, held())
		w.patchSubscription(sub.ID, object{"enabled": true})
		sink.wait(w.t, 1+50)
		require.Equal(w.t, more+1-50, held(), "the first second's share")
		w.ticking("the rest", func() bool { return sink.count() == 1+more+1 })
		await.Condition(w.t, "all forwarded", func() bool { return len(w.events("&status=forwarded")) == more+1 })
	})
}

// Deleting a subscription ends what was on its way to it, and the history of it stays.
func TestDeleteCancels(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusInternalServerError))
		sub := w.subscribe(sink.url)
		w.connectGitHub("acme")
		attempted := w.fresh("acme", github(issueOpened))
		w.awaitDelivery(attempted, sub.ID, "retry_wait")
		w.patchSubscription(sub.ID, object{"enabled": false})
		held := w.fresh("acme", github(`{"action":"closed"}`))
		w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusNoContent)
		w.call(w.dev(), http.MethodGet, "/webhook-subscriptions/"+sub.ID, nil).refused(w, http.StatusNotFound,
			apperr.CodeNotFound)
		w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).refused(w, http.StatusNotFound,
			apperr.CodeNotFound)
		for _, uuid := range []string{attempted, held} {
			w.awaitDelivery(uuid, sub.ID, "cancelled")
		}
		require.Equal(w.t, "failed", w.event(attempted).Status, "tried, then cancelled")
		require.Len(w.t, w.attempts(attempted), w.event(attempted).AttemptCount)
		after := w.fresh("acme", github(`{"action":"reopened"}`))
		require.Empty(w.t, w.event(after).Deliveries)
		w.call(w.dev(), http.MethodPost, "/webhook-events/"+attempted+"/replay", object{"force": true}).
			refused(w, http.StatusConflict, apperr.CodeNothingToReplay)
	})
}

// An attempt that is on the wire while its subscription is paused or deleted ends as the receiver responds, and its
// retry is held or cancelled.
func TestPauseAndDeleteDuringAttempt(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		remove := func(w *world, sub subscription) {
			w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusNoContent)
		}
		pause := func(w *world, sub subscription) { w.patchSubscription(sub.ID, object{"enabled": false}) }
		for _, c := range []struct {
			name   string
			change func(w *world, sub subscription)
			status int
			want   string
		}{
			{"deleted and taken", remove, http.StatusOK, "succeeded"},
			{"deleted and refused", remove, http.StatusInternalServerError, "cancelled"},
			{"paused and taken", pause, http.StatusOK, "succeeded"},
			{"paused and refused", pause, http.StatusInternalServerError, "held"},
		} {
			w.run(c.name, func(w *world) {
				sink := newHanging(w.t, c.status)
				sub := w.subscribe(sink.url, object{"timeout_ms": 30000})
				uuid := w.fresh("acme", github(issueOpened))
				sink.wait(w.t, 1)
				c.change(w, sub)
				require.Equal(w.t, "sending", w.event(uuid).delivery(w, sub.ID).Status)
				sink.open()
				w.ticking("the delivery "+c.want, func() bool { return w.event(uuid).delivery(w, sub.ID).Status == c.want })
				require.Len(w.t, w.attempts(uuid), 1)
				require.Equal(w.t, 1, sink.count())
			})
		}
	})
}

// Receivers that hang delay only their own deliveries, even when more waits for them than fits into memory: every event
// reaches the receiver that works while the others hang, and the others when they respond.
func TestHangingReceiversDelayNoOther(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const hanging, each, most = 4, 1100, 10 // most is what one subscription may have in progress
		var stuck []*receiver
		for range hanging {
			r := newHanging(w.t, http.StatusOK)
			w.subscribe(r.url, object{"timeout_ms": 30000})
			stuck = append(stuck, r)
		}
		fine := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(fine.url)
		w.connectGitHub("acme")
		var senders sync.WaitGroup
		for sender := range 10 {
			senders.Go(func() {
				for n := range each / 10 {
					w.deliver("acme", github(`{"action":"opened","n":`+strconv.Itoa(sender*each+n)+`}`))
				}
			})
		}
		senders.Wait()
		require.Len(w.t, fine.wait(w.t, each), each)
		for _, r := range stuck {
			r.wait(w.t, most)
			require.Less(w.t, r.count(), each, "it hangs")
			r.open()
		}
		w.ticking("all forwarded", func() bool {
			var n int
			require.NoError(w.t, w.database().Read().QueryRowContext(w.t.Context(),
				"SELECT COUNT(*) FROM webhook_events WHERE status = 'forwarded'").Scan(&n))
			return n == each
		})
		for _, r := range stuck {
			require.GreaterOrEqual(w.t, r.count(), each)
		}
		require.Equal(w.t, each, fine.count())
	})
}
