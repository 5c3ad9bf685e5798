package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

func (w *world) expunge(uuid string) response {
	w.t.Helper()
	return w.call(w.dev(), http.MethodDelete, "/webhook-events/"+uuid+"/payload", nil)
}

// count returns the number of a query's one row.
func (w *world) countRows(query string, args ...any) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.database().Read().QueryRowContext(w.t.Context(), query, args...).Scan(&n))
	return n
}

// Expunging removes the body and the headers of an event permanently, once and on record. The event, its history and
// its key stay, and an attempt to send it again reports that nothing is left.
func TestExpunge(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusInternalServerError))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{3600}})
		w.connectGitHub("acme")
		m := github(issueOpened)
		uuid := w.fresh("acme", m)
		w.awaitDelivery(uuid, sub.ID, "retry_wait")
		before := w.event(uuid)
		require.False(w.t, before.PayloadExpired)
		require.NotEmpty(w.t, before.Headers)

		w.call(w.user(w.environment("production")), http.MethodDelete, "/webhook-events/"+uuid+"/payload", nil).
			refused(w, http.StatusNotFound, apperr.CodeNotFound)
		require.JSONEq(w.t, issueOpened, string(w.event(uuid).Body))
		for range 2 {
			a := w.expunge(uuid).want(w, http.StatusNoContent)
			require.Empty(w.t, a.body)
			w.clk.Advance(time.Second)
		}
		w.expunge(id.NewUUID()).refused(w, http.StatusNotFound, apperr.CodeNotFound)

		after := w.event(uuid)
		require.True(w.t, after.PayloadExpired)
		require.Equal(w.t, "null", string(after.Body))
		require.Nil(w.t, after.BodyEncoding)
		require.Equal(w.t, map[string]string{}, after.Headers)
		require.Equal(w.t, before.BodySize, after.BodySize)
		require.Equal(w.t, "cancelled", after.delivery(w, sub.ID).Status)
		require.Equal(w.t, "failed", after.Status, "tried, then cancelled")
		require.Len(w.t, w.attempts(uuid), 1)
		listed := w.events("&include=body,headers,deliveries")
		require.Len(w.t, listed, 1)
		require.True(w.t, listed[0].PayloadExpired)
		require.Equal(w.t, "null", string(listed[0].Body))
		require.Empty(w.t, listed[0].Headers)
		require.Zero(w.t, w.countRows("SELECT COUNT(*) FROM webhook_event_payloads"))
		require.Equal(w.t, 1, w.countRows("SELECT COUNT(*) FROM audit_events WHERE action = 'webhook_event.expunge' AND "+
			"target_id = $1", uuid))

		w.call(w.dev(), http.MethodGet, "/webhook-events/"+uuid+"/explain", nil).want(w, http.StatusOK)
		for _, force := range []bool{false, true} {
			w.call(w.dev(), http.MethodPost, "/webhook-events/"+uuid+"/replay", object{"force": force}).
				refused(w, http.StatusGone, apperr.CodePayloadExpired)
		}
		w.call(w.dev(), http.MethodPost, "/webhook-subscriptions/"+sub.ID+"/test", object{"event_uuid": uuid}).
			refused(w, http.StatusGone, apperr.CodePayloadExpired)

		w.expectDuplicate("acme", m, uuid) // the key is still taken
		duplicate := w.events("&duplicate=true")[0]
		require.False(w.t, duplicate.PayloadExpired, "a repeat never had one")
		w.expunge(duplicate.EventUUID).want(w, http.StatusNoContent)
		require.Equal(w.t, 1, w.countRows("SELECT COUNT(*) FROM audit_events WHERE action = 'webhook_event.expunge'"))
		w.clk.Advance(2 * time.Hour)
		w.awaitEvent(w.fresh("acme", github(`{"action":"closed"}`)), "failed")
		require.Equal(w.t, 2, sink.count(), "nothing of the first was sent again")
	})
}

// A dead event whose payload was removed is not brought back by its provider's redelivery.
func TestExpungedIsNotRedelivered(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusInternalServerError))
		sub := w.subscribe(sink.url, object{"retry_schedule_seconds": []float64{}})
		w.connectGitHub("acme")
		m := github(issueOpened)
		uuid := w.fresh("acme", m)
		w.awaitEvent(uuid, "dead_letter")
		w.expunge(uuid).want(w, http.StatusNoContent)
		w.expectDuplicate("acme", m, uuid)
		d := w.event(uuid).delivery(w, sub.ID)
		require.Equal(w.t, "dead", d.Status)
		require.Equal(w.t, 1, d.Generation)
		require.Equal(w.t, 1, sink.count())
	})
}

// A user who may only read may not remove.
func TestViewerMayNotExpunge(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		uuid := w.fresh("acme", github(issueOpened))
		reader := byKey(w.newKey(w.env, allow("events")).Key)
		w.call(reader, http.MethodDelete, "/webhook-events/"+uuid+"/payload", nil).refused(w, http.StatusForbidden,
			apperr.CodeGrantDenied)
		require.False(w.t, w.event(uuid).PayloadExpired)
	})
}
