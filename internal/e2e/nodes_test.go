package e2e_test

import (
	"net/http"
	"testing"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/role"
)

// A node obeys what clients change on another one, although it has it in its memory: connections and their secrets,
// subscriptions and their filters, created, changed, disabled, enabled and deleted.
func TestNodesObeyEachOther(t *testing.T) {
	t.Parallel()
	onPostgres(t, role.All, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		second := w.as(role.All)
		gets := func(what string, status int, m func() message) {
			w.t.Helper()
			w.ticking(what, func() bool { return second.post("acme", m()).status == status })
		}
		now := func() message { return github(issueOpened) }
		// delivered is what happens to an event that the second node receives, at a subscription.
		delivered := func(subscriptionID string) string {
			for _, d := range w.event(second.fresh("acme", now())).Deliveries {
				if d.SubscriptionID == subscriptionID {
					return d.Status
				}
			}
			return "none"
		}
		becomes := func(what, subscriptionID string, want ...string) {
			w.t.Helper()
			w.ticking(what, func() bool {
				got := delivered(subscriptionID)
				for _, status := range want {
					if got == status {
						return true
					}
				}
				return false
			})
		}

		gets("no connection", http.StatusNotFound, now)
		w.connectGitHub("acme")
		gets("the new connection", http.StatusOK, now)
		const item, next = "/connections/github/acme", "the next secret of GitHub"
		var old []struct{ ID string }
		w.call(w.dev(), http.MethodGet, item+"/webhook-secrets", nil).want(w, http.StatusOK).into(w, &old)
		w.call(w.dev(), http.MethodPost, item+"/webhook-secrets", object{"secret": next}).want(w, http.StatusCreated)
		gets("the new secret", http.StatusOK, func() message {
			return githubAs(next, "issues", id.NewUUID(), issueOpened)
		})
		w.call(w.dev(), http.MethodDelete, item+"/webhook-secrets/"+old[0].ID, nil).want(w, http.StatusNoContent)
		gets("the end of the old secret", http.StatusUnauthorized, now)
		now = func() message { return githubAs(next, "issues", id.NewUUID(), issueOpened) }
		gets("the secret that is left", http.StatusOK, now)

		sub := w.subscribe(sink.url)
		open := []string{"pending", "sending", "succeeded"}
		becomes("the new subscription", sub.ID, open...)
		w.patchSubscription(sub.ID, object{"filter": `event.body.action == "closed"`})
		becomes("the filter", sub.ID, "none")
		w.patchSubscription(sub.ID, object{"filter": `event.body.action == "opened"`})
		becomes("the other filter", sub.ID, open...)
		w.patchSubscription(sub.ID, object{"enabled": false})
		becomes("the pause", sub.ID, "held")
		w.patchSubscription(sub.ID, object{"enabled": true})
		becomes("the end of the pause", sub.ID, open...)
		w.call(w.dev(), http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusNoContent)
		becomes("the end of the subscription", sub.ID, "none")

		w.call(w.dev(), http.MethodPost, item, object{"operation": "disable"}).want(w, http.StatusOK)
		gets("the disabled connection", http.StatusServiceUnavailable, now)
		w.call(w.dev(), http.MethodPost, item, object{"operation": "enable"}).want(w, http.StatusOK)
		gets("the enabled connection", http.StatusOK, now)
		w.call(w.dev(), http.MethodDelete, item, nil).want(w, http.StatusNoContent)
		gets("the end of the connection", http.StatusNotFound, now)
		second.stop()
	})
}
