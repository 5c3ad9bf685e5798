package e2e_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A subscription gets what its patterns and its scope say, from its creation on, each event once; a change of its
// target or its form applies from the next attempt.
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
			w.awaitEvent(uuid, "forwarded")
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

// Target and form of a delivery are decided at each attempt: a new URL, secret or header applies to waiting deliveries.
func TestChangeAppliesFromNextAttempt(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		before, after := newReceiver(w.t, status(http.StatusBadGateway)), newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(before.url, object{"retry_schedule_seconds": []float64{60}})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		w.awaitDelivery(uuid, sub.ID, "retry_wait")
		w.patchSubscription(sub.ID, object{"forward_url": after.url, "signing_secret": standardSecret,
			"headers": object{"X-New": "yes"}, "payload_mode": "raw", "event_types": []string{"nothing.else"}})
		w.nextAttempt(uuid, sub.ID, after, 1)
		w.awaitEvent(uuid, "forwarded")
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
		w.awaitEvent(uuid, "dead_letter")
		require.Equal(w.t, "forward_loop", w.event(uuid).delivery(w, sub.ID).LastError.Code)
		w.awaitEvent(w.fresh("acme", github(`{"action":"closed"}`).with("Sallyport-Hops", "4")), "forwarded")
		require.Equal(w.t, "5", sink.all()[0].header.Get("Sallyport-Hops"))
		require.Equal(w.t, 1, sink.count())
	})
}
