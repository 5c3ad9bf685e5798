package e2e_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Promise: what changes on one node applies on every node, at the latest after five seconds: a subscription that is
// created, paused, filtered or deleted, and a connection whose secret or path is replaced, or that is disabled or
// deleted.
func TestChangesReachEveryNode(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		here, there := w, w
		if w.databaseURL != "" {
			there = w.node()
		}
		sink := newReceiver(w.t, status(http.StatusOK))
		conn := here.connectGitHub("acme")
		obeys := func(what string, condition func() bool) {
			w.t.Helper()
			at := w.clk.Now()
			there.ticking(what, condition)
			require.LessOrEqual(w.t, w.clk.Now().Sub(at), 5*time.Second, what)
		}
		// receivers returns how an event that is posted there is forwarded, by subscription.
		receivers := func(segment string) map[string]string {
			out := map[string]string{}
			for _, d := range here.event(there.deliver(segment, github(issueOpened)).EventUUID).Deliveries {
				out[d.SubscriptionID] = d.Status
			}
			return out
		}
		require.Empty(w.t, receivers("acme"), "the node has everything in memory")

		first := here.subscribe(sink.url)
		second := here.subscribe(sink.url)
		obeys("a created subscription", func() bool { return len(receivers("acme")) == 2 })
		here.patchSubscription(first.ID, object{"filter": `event.body.action == "closed"`})
		obeys("a filter", func() bool {
			got := receivers("acme")
			return got[first.ID] == "" && got[second.ID] != ""
		})
		here.patchSubscription(first.ID, object{"filter": nil, "enabled": false})
		obeys("a paused subscription", func() bool { return receivers("acme")[first.ID] == "held" })
		here.call(here.dev(), http.MethodDelete, "/webhook-subscriptions/"+first.ID, nil).want(here, http.StatusNoContent)
		obeys("a deleted subscription", func() bool {
			got := receivers("acme")
			return got[first.ID] == "" && got[second.ID] != ""
		})

		const path = "/connections/github/acme"
		post := func(segment, secret string) int {
			m := github(issueOpened)
			m = m.with("X-Hub-Signature-256", "sha256="+hexHMAC(secret, issueOpened))
			return there.post(segment, m).status
		}
		const other = "another secret shared with GitHub"
		here.call(here.dev(), http.MethodPatch, path, object{"webhook_secret": other}).want(here, http.StatusOK)
		obeys("a replaced secret", func() bool {
			return post("acme", githubSecret) == http.StatusUnauthorized && post("acme", other) == http.StatusOK
		})
		var rotated connection
		here.call(here.dev(), http.MethodPost, path, object{"operation": "rotate_webhook_path"}).want(here,
			http.StatusOK).into(here, &rotated)
		obeys("a replaced path", func() bool {
			return post(conn.pathToken(), other) == http.StatusNotFound && post(rotated.pathToken(), other) == http.StatusOK
		})
		here.call(here.dev(), http.MethodPatch, path, object{"webhook": object{"alias": "moved"}}).want(here, http.StatusOK)
		obeys("a moved alias", func() bool {
			return post("acme", other) == http.StatusNotFound && post("moved", other) == http.StatusOK
		})
		for _, operation := range []string{"disable", "enable"} {
			here.call(here.dev(), http.MethodPost, path, object{"operation": operation}).want(here, http.StatusOK)
			want := []int{http.StatusOK, http.StatusOK}
			if operation == "disable" {
				want = []int{http.StatusServiceUnavailable, http.StatusServiceUnavailable}
			}
			obeys("a connection after "+operation, func() bool {
				return slices.Equal(want, []int{post("moved", other), post(rotated.pathToken(), other)})
			})
		}
		here.call(here.dev(), http.MethodDelete, path, nil).want(here, http.StatusNoContent)
		obeys("a deleted connection", func() bool {
			return post("moved", other) == http.StatusNotFound && post(rotated.pathToken(), other) == http.StatusNotFound
		})
	})
}
