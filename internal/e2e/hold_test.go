package e2e_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit/await"
)

// A paused subscription loses nothing: what waits and what arrives is held, and goes out when it is enabled again, no
// more than fifty a second at first.
func TestPauseAndRelease(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, statuses(http.StatusServiceUnavailable, http.StatusOK))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{3600}})
		w.connectGitHub("acme")
		failed := w.fresh("acme", github(issueOpened))
		w.becomes(failed, sub.ID, "retry_wait")
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
		tried := w.fresh("acme", github(issueOpened))
		w.becomes(tried, sub.ID, "retry_wait")
		w.patchSubscription(sub.ID, object{"enabled": false})
		held := w.fresh("acme", github(`{"action":"closed"}`))
		w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusNoContent)
		w.call(w.dev(), http.MethodGet, "/webhook-subscriptions/"+sub.ID, nil).refused(w, http.StatusNotFound,
			apperr.CodeNotFound)
		w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).refused(w, http.StatusNotFound,
			apperr.CodeNotFound)
		for _, uuid := range []string{tried, held} {
			w.becomes(uuid, sub.ID, "cancelled")
		}
		require.Equal(w.t, "failed", w.event(tried).Status, "tried, then cancelled")
		require.Len(w.t, w.attempts(tried), w.event(tried).AttemptCount)
		after := w.fresh("acme", github(`{"action":"reopened"}`))
		require.Empty(w.t, w.event(after).Deliveries)
		w.call(w.dev(), http.MethodPost, "/webhook-events/"+tried+"/replay", object{"force": true}).
			refused(w, http.StatusConflict, apperr.CodeNothingToReplay)
	})
}

// A try that is on the wire while its subscription is paused or deleted ends as the receiver says, and what would be
// its retry is held or cancelled.
func TestPauseAndDeleteDuringATry(t *testing.T) {
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

// A receiver that hangs holds up its own deliveries and nobody else's.
func TestHangingReceiverDelaysNobody(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		stuck, fine := newHanging(w.t, http.StatusOK), newReceiver(w.t, status(http.StatusOK))
		w.subscribe(stuck.url, object{"timeout_ms": 30000})
		w.subscribe(fine.url)
		w.connectGitHub("acme")
		const many = 40 // four times what one subscription may have under way
		for n := range many {
			w.fresh("acme", github(`{"action":"opened","n":`+strconv.Itoa(n)+`}`))
		}
		fine.wait(w.t, many)
		require.Len(w.t, stuck.wait(w.t, 10), 10, "what one subscription may have under way")
		stuck.open()
		stuck.wait(w.t, many)
		await.Condition(w.t, "all forwarded", func() bool { return len(w.events("&status=forwarded")) == many })
		require.Equal(w.t, many, stuck.count())
		require.Equal(w.t, many, fine.count())
	})
}

// A subscription gets what its patterns and its scope say, from its creation on, each event once; a change of where or
// how applies from the next try.
func TestMatching(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("one")
		w.connectGitHub("two")
		w.fresh("one", github(`{"action":"opened","before":true}`))
		sinks := map[string]*receiver{}
		for name, scope := range map[string]object{
			"all":      {},
			"issues":   {"event_types": []string{"issues.*", "*", "issues.opened"}},
			"exact":    {"event_types": []string{"issues.closed"}},
			"bare":     {"event_types": []string{"issues"}},
			"middle":   {"event_types": []string{"*.opened"}},
			"provider": {"provider_config_key": "github"},
			"other":    {"provider_config_key": "generic-hmac"},
			"one":      {"provider_config_key": "github", "connection_id": "one"},
			"two":      {"connection_id": "two"},
		} {
			sinks[name] = newReceiver(w.t, status(http.StatusOK))
			w.subscribe(sinks[name].url, scope)
		}
		opened := w.fresh("one", github(issueOpened))
		closed := w.fresh("two", github(`{"action":"closed"}`))
		ping := w.fresh("one", githubAs(githubSecret, "ping", "00000000-0000-0000-0000-000000000001",
			`{"zen":"Design for failure."}`))
		for _, uuid := range []string{opened, closed, ping} {
			w.settles(uuid, "forwarded")
		}
		want := map[string][]string{
			"all": {opened, closed, ping}, "issues": {opened, closed, ping}, "exact": {closed}, "bare": {}, "middle": {opened},
			"provider": {opened, closed, ping}, "other": {}, "one": {opened, ping}, "two": {closed},
		}
		for name, uuids := range want {
			got := []string{}
			for _, r := range sinks[name].all() {
				got = append(got, r.header.Get("Webhook-Id"))
			}
			require.ElementsMatch(w.t, uuids, got, name)
		}
	})
}

// Where and how a delivery goes is decided at each try: a new URL, secret or header reaches what already waits.
func TestChangeAppliesFromTheNextTry(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		before, after := newReceiver(w.t, status(http.StatusBadGateway)), newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(before.url, object{"retry_schedule_seconds": []float64{60}})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		w.becomes(uuid, sub.ID, "retry_wait")
		w.patchSubscription(sub.ID, object{"forward_url": after.url, "signing_secret": standardSecret,
			"headers": object{"X-New": "yes"}, "payload_mode": "raw", "event_types": []string{"nothing.else"}})
		w.nextTry(uuid, sub.ID, after, 1)
		w.settles(uuid, "forwarded")
		got := after.all()[0]
		verify(w, standardSecret, got)
		require.Equal(w.t, "yes", got.header.Get("X-New"))
		require.Equal(w.t, []byte(issueOpened), got.body)
		require.Equal(w.t, 1, before.count())
	})
}

// An event that has passed five gateways is taken for one that runs in a circle.
func TestForwardLoop(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(sink.url)
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened).with("Sallyport-Hops", "5"))
		w.settles(uuid, "dead_letter")
		require.Equal(w.t, "forward_loop", w.event(uuid).delivery(w, sub.ID).LastError.Code)
		w.settles(w.fresh("acme", github(`{"action":"closed"}`).with("Sallyport-Hops", "4")), "forwarded")
		require.Equal(w.t, "5", sink.all()[0].header.Get("Sallyport-Hops"))
		require.Equal(w.t, 1, sink.count())
	})
}
