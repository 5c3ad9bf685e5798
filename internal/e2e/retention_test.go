package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/testkit/await"
)

const day = 24 * time.Hour

// minutes waits until the condition holds, and moves the clock on by minutes, after which retention looks for what is
// due.
func (w *world) minutes(what string, condition func() bool) {
	w.t.Helper()
	await.Condition(w.t, what, func() bool {
		if condition() {
			return true
		}
		w.clk.Advance(time.Minute)
		return false
	})
}

// gone waits until no event is left in the store.
func (w *world) gone() {
	w.t.Helper()
	w.minutes("the removal of what is due", func() bool { return w.countRows("SELECT COUNT(*) FROM webhook_events") == 0 })
}

// dies waits until the event's delivery to the subscription is dead, and returns the code of its failure.
func (w *world) dies(uuid, subscriptionID string) string {
	w.t.Helper()
	w.minutes("a dead delivery", func() bool { return w.event(uuid).delivery(w, subscriptionID).Status == "dead" })
	return w.event(uuid).delivery(w, subscriptionID).LastError.Code
}

// An event shows when it goes, loses its payload when that time has come, and goes with its history and its key: then
// the same delivery is a new event.
func TestRetention(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, statuses(http.StatusOK, http.StatusServiceUnavailable, http.StatusServiceUnavailable,
			http.StatusOK))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{3600}})
		w.connectGitHub("acme")
		m := github(issueOpened)
		uuid := w.fresh("acme", m)
		e := w.awaitEvent(uuid, "forwarded")
		require.Equal(w.t, e.ReceivedAt.Add(30*day), *e.PayloadExpiresAt)
		require.Equal(w.t, e.ReceivedAt.Add(90*day), e.ExpiresAt)
		w.expectDuplicate("acme", m, uuid)
		failed := w.fresh("acme", github(`{"action":"closed"}`))
		w.awaitDelivery(failed, sub.ID, "retry_wait")
		w.patchSubscription(sub.ID, object{"enabled": false})
		require.Equal(w.t, "held", w.event(failed).delivery(w, sub.ID).Status)

		w.clk.Advance(30 * day)
		e = w.event(uuid)
		require.True(w.t, e.PayloadExpired)
		require.Equal(w.t, "null", string(e.Body))
		require.Empty(w.t, e.Headers)
		w.call(w.dev(), http.MethodPost, "/webhook-events/"+uuid+"/replay", object{"force": true}).
			refused(w, http.StatusGone, apperr.CodePayloadExpired)
		require.Equal(w.t, "held_expired", w.dies(failed, sub.ID))
		require.Equal(w.t, "dead_letter", w.event(failed).Status)
		w.clk.Advance(day) // PostgreSQL's partition ends with its day
		w.minutes("payloads deleted", func() bool { return w.countRows("SELECT COUNT(*) FROM webhook_event_payloads") == 0 })
		w.expectDuplicate("acme", m, uuid)
		w.expunge(uuid).want(w, http.StatusNoContent)

		w.clk.Advance(59 * day)
		w.minutes("the events gone", func() bool { return len(w.events("")) == 1 })
		require.NotNil(w.t, w.events("")[0].DuplicateOf, "the later repeat goes by its own time")
		w.call(w.dev(), http.MethodGet, "/webhook-events/"+uuid, nil).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		require.Equal(w.t, []int{0, 0, 0}, []int{w.countRows("SELECT COUNT(*) FROM deliveries"),
			w.countRows("SELECT COUNT(*) FROM delivery_attempts"), w.countRows("SELECT COUNT(*) FROM webhook_event_keys")})
		w.patchSubscription(sub.ID, object{"enabled": true})
		again := w.fresh("acme", m)
		require.NotEqual(w.t, uuid, again)
		w.clk.Advance(90 * day)
		w.gone()
	})
}

// A delivery that waits for its next attempt when the payload expires gets none, and says why.
func TestPayloadExpiresBetweenAttempts(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusServiceUnavailable))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{604800, 604800}})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		w.awaitDelivery(uuid, sub.ID, "retry_wait")
		w.clk.Advance(2 * day)
		require.Equal(w.t, "payload_expired", w.dies(uuid, sub.ID))
		require.Equal(w.t, 1, sink.count())
	}, func(c *config.Config) { c.WebhookPayloadRetentionDays, c.WebhookEventRetentionDays = 2, 10 })
}

// Each environment has times of its own, which apply immediately to its stored events. Another environment's do not.
func TestRetentionOfAnEnvironment(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		production := w.environment("production")
		w.connectGitHub("acme")
		w.connect(w.user(production), object{"provider": "github", "connection_id": "elsewhere",
			"webhook_secret": githubSecret})
		own := w.fresh("acme", github(issueOpened))
		other := w.fresh("elsewhere", github(issueOpened))
		w.clk.Advance(3 * day)
		path := "/team/environments/" + w.env
		w.call(w.user(""), http.MethodPatch, path, object{"payload_retention_days": 5, "event_retention_days": 4}).violations(
			w)
		var env struct {
			Payload *int `json:"payload_retention_days"`
			Event   *int `json:"event_retention_days"`
		}
		w.call(w.user(""), http.MethodPatch, path, object{"payload_retention_days": 2, "event_retention_days": 4}).want(w,
			http.StatusOK).into(w, &env)
		require.Equal(w.t, []int{2, 4}, []int{*env.Payload, *env.Event})
		require.True(w.t, w.event(own).PayloadExpired)
		require.Equal(w.t, w.event(own).ReceivedAt.Add(4*day), w.event(own).ExpiresAt)
		w.minutes("the payload deleted", func() bool {
			return w.countRows("SELECT COUNT(*) FROM webhook_event_payloads WHERE event_uuid = $1", own) == 0
		})
		w.call(w.user(""), http.MethodPatch, path, object{"payload_retention_days": nil, "event_retention_days": nil}).want(w,
			http.StatusOK)
		require.True(w.t, w.event(own).PayloadExpired, "what was removed does not come back")
		require.Nil(w.t, w.event(own).PayloadExpiresAt)
		require.Equal(w.t, 2, w.countRows("SELECT COUNT(*) FROM audit_events WHERE action = 'environment.update'"))
		var e event
		w.call(w.user(production), http.MethodGet, "/webhook-events/"+other, nil).want(w, http.StatusOK).into(w, &e)
		require.False(w.t, e.PayloadExpired)
		require.JSONEq(w.t, issueOpened, string(e.Body))
	})
}

// A server that was away goes on where the time has got to.
func TestRetentionAfterARestart(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		for range 20 {
			w.fresh("acme", github(issueOpened+" "))
		}
		w.stop()
		w.clk.Advance(90 * day)
		w.start()
		w.gone()
		w.minutes("the keys deleted", func() bool { return w.countRows("SELECT COUNT(*) FROM webhook_event_keys") == 0 })
	})
}
