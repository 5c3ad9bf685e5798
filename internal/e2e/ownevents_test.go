package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownEvents returns the bodies that the receiver has received, by type, with the clock advancing until there are n.
func (w *world) ownEvents(sink *receiver, n int) map[string][]object {
	w.t.Helper()
	w.ticking("events of the gateway's own", func() bool { return sink.count() >= n })
	out := map[string][]object{}
	for _, r := range sink.all() {
		var e struct {
			Type     string `json:"type"`
			Provider string `json:"provider"`
			Data     object `json:"data"`
		}
		require.NoError(w.t, json.Unmarshal(r.body, &e))
		require.Equal(w.t, "sallyport", e.Provider)
		require.Equal(w.t, e.Type, r.header.Get("Sallyport-Event-Type"))
		out[e.Type] = append(out[e.Type], e.Data)
	}
	return out
}

// A subscription that names them gets events of deliveries that die and recover and of subscriptions that the gateway
// disables, signed like any other. A subscription to all events does not, and deliveries of these events emit none.
func TestOwnEvents(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		w.connectGitHub("other")
		sink := newReceiver(w.t, status(http.StatusOK))
		alerts := w.subscribe(sink.url, object{"event_types": []string{"sallyport.*"}})
		elsewhere := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(elsewhere.url, object{"event_types": []string{"sallyport.*"}, "connection_id": "other"})
		w.subscribe(elsewhere.url, object{"event_types": []string{"sallyport.*"},
			"filter": `event.body.?event_type.orValue("") == "push"`})
		down := newReceiver(w.t, status(http.StatusInternalServerError))
		w.subscribe(down.url, object{"event_types": []string{"sallyport.*"}, "retry_schedule_seconds": []float64{}})
		all := newReceiver(w.t, statuses(http.StatusServiceUnavailable, http.StatusOK))
		target := w.subscribe(all.url, object{"retry_schedule_seconds": []float64{}, "connection_id": "acme"})

		uuid := w.fresh(conn.pathToken(), github(issueOpened))
		w.awaitEvent(uuid, "dead_letter")
		dead := w.ownEvents(sink, 1)["sallyport.delivery.dead_lettered"]
		require.Len(w.t, dead, 1)
		require.Equal(w.t, uuid, dead[0]["event_uuid"])
		require.Equal(w.t, target.ID, dead[0]["subscription_id"])
		require.Equal(w.t, "issues.opened", dead[0]["event_type"])
		require.Equal(w.t, "acme", dead[0]["connection_id"])
		failure, ok := dead[0]["last_error"].(object)
		require.True(w.t, ok)
		require.Equal(w.t, "unexpected_status", failure["code"])
		verify(w, alerts.SigningSecret, sink.all()[0])
		own := w.event(sink.all()[0].header.Get("Webhook-Id"))
		require.Equal(w.t, "sallyport.delivery.dead_lettered", own.EventType)
		require.Equal(w.t, "github", own.ProviderConfigKey)
		require.Equal(w.t, "acme", own.ConnectionID)
		matches, failed, _ := w.explained(own.EventUUID, target.ID)
		require.False(w.t, matches, "everything is what providers send")
		require.Equal(w.t, "event_types", failed)
		matches, _, _ = w.explained(own.EventUUID, alerts.ID)
		require.True(w.t, matches)

		w.call(w.dev(), http.MethodPost, "/webhook-events/"+uuid+"/replay", nil).want(w, http.StatusAccepted)
		w.awaitEvent(uuid, "forwarded")
		back := w.ownEvents(sink, 2)["sallyport.delivery.recovered"]
		require.Len(w.t, back, 1)
		require.InDelta(w.t, 2, back[0]["generation"], 0)

		gone := newReceiver(w.t, status(http.StatusGone))
		leaving := w.subscribe(gone.url, object{"event_types": []string{"issues.*"}, "description": "leaving"})
		second := w.fresh(conn.pathToken(), github(issueOpened))
		ownEvents := w.ownEvents(sink, 4)
		require.Len(w.t, ownEvents["sallyport.delivery.dead_lettered"], 2)
		require.Equal(w.t, []object{{"subscription_id": leaving.ID, "description": "leaving",
			"reason":      "The receiver responded with 410 Gone",
			"disabled_at": ownEvents["sallyport.subscription.disabled"][0]["disabled_at"]}},
			ownEvents["sallyport.subscription.disabled"])

		// Each has been emitted once, and none for deliveries that died on their way to the receiver that is down.
		w.ticking("the receiver that is down was asked", func() bool { return down.count() >= 4 })
		w.awaitEvent(second, "dead_letter")
		require.Equal(w.t, 4, sink.count())
		require.Zero(w.t, elsewhere.count())
		require.Equal(w.t, 3, all.count(), "two events, and one of them twice")
		types := []string{}
		for _, e := range w.events("&provider=sallyport") {
			types = append(types, e.EventType)
		}
		require.Equal(w.t, []string{"sallyport.delivery.dead_lettered", "sallyport.delivery.dead_lettered",
			"sallyport.delivery.recovered", "sallyport.subscription.disabled"}, slices.Sorted(slices.Values(types)))
	})
}

// A subscription that names them gets an event for every change of a connection, once, and for no refused change.
func TestOwnEventsOfConnections(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(sink.url, object{"event_types": []string{"sallyport.connection.*"}})
		conn := w.connectGitHub("acme")
		const item = "/connections/github/acme"
		w.call(w.dev(), http.MethodPost, "/connections", object{"provider": "github", "connection_id": "acme"}).want(w,
			http.StatusConflict)
		w.call(w.dev(), http.MethodPatch, item, object{"tags": object{"a": "b"}}).want(w, http.StatusOK)
		w.call(w.dev(), http.MethodPatch, item, object{"tags": object{"a": "b"}}).want(w, http.StatusOK)
		w.call(w.dev(), http.MethodPost, item, object{"operation": "disable"}).want(w, http.StatusOK)
		w.call(w.dev(), http.MethodPost, item, object{"operation": "enable"}).want(w, http.StatusOK)
		w.call(w.dev(), http.MethodDelete, item, nil).want(w, http.StatusNoContent)
		about := func(status string) []object {
			return []object{{"connection_uuid": conn.UUID, "connection_id": "acme", "provider": "github",
				"provider_config_key": "github", "status": status, "status_reason": nil, "auth_mode": "none", "health": nil,
				"tags": object{"a": "b"}, "account": nil, "scopes": nil}}
		}
		created, disabled := about("active"), about("disabled")
		created[0]["tags"] = object{}
		disabled[0]["status_reason"] = "Disabled by request"
		require.Equal(w.t, map[string][]object{
			"sallyport.connection.created": created, "sallyport.connection.updated": about("active"),
			"sallyport.connection.disabled": disabled, "sallyport.connection.enabled": about("active"),
			"sallyport.connection.deleted": about("active"),
		}, w.ownEvents(sink, 5))
		require.Len(w.t, w.events(""), 5)
	})
}

// Events about a connection have its end user and what a GET shows at that time, also of one that is gone; none has
// metadata. The storing of credentials says what their test has found and whether it is a reconnection, and no other
// event comes with it. A person who declines emits an event, with the reason that the connection shows.
func TestOwnEventsOfCredentials(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(sink.url, object{"event_types": []string{"sallyport.connection.*"}})
		w.call(w.user(w.env), http.MethodPost, "/provider-configs", object{"provider": "github",
			"provider_config_key": "work",
			"oauth":               object{"client_id": "gateway", "client_secret": "a secret"}}).want(w, http.StatusCreated)
		same := func(path string, data object) {
			var shown struct {
				Tags    object  `json:"tags"`
				Account any     `json:"account"`
				Scopes  object  `json:"scopes"`
				Health  *object `json:"health"`
				Reason  any     `json:"status_reason"`
			}
			w.call(w.dev(), http.MethodGet, path, nil).want(w, http.StatusOK).into(w, &shown)
			require.Equal(w.t, []any{shown.Tags, shown.Account, shown.Reason},
				[]any{data["tags"], data["account"], data["status_reason"]})
			if shown.Scopes == nil {
				require.Nil(w.t, data["scopes"])
			} else {
				require.Equal(w.t, object{"requested": shown.Scopes["requested"], "granted": shown.Scopes["granted"]},
					data["scopes"])
			}
			if shown.Health == nil {
				require.Nil(w.t, data["health"])
			} else {
				require.Equal(w.t, (*shown.Health)["status"], data["health"])
			}
			require.NotContains(w.t, data, "metadata")
		}

		const api = "/connections/http/api"
		w.call(w.dev(), http.MethodPost, "/connections", object{"provider": "http", "connection_id": "api",
			"tags": object{"end_user_id": "user-4711"}, "metadata": object{"note": "private"},
			"credentials":       object{"token": "secret"},
			"connection_config": object{"base_url": "https://api.example.com"}}).want(w, http.StatusCreated)
		own := w.ownEvents(sink, 2)
		connected := own["sallyport.connection.connected"]
		require.Equal(w.t, []any{"unknown", false, object{"end_user_id": "user-4711"}},
			[]any{connected[0]["health"], connected[0]["reconnected"], connected[0]["tags"]})
		require.Equal(w.t, object{"requested": []any{}, "granted": []any{}}, connected[0]["scopes"])
		same(api, connected[0])
		same(api, own["sallyport.connection.created"][0])
		w.call(w.dev(), http.MethodPatch, api, object{"credentials": object{"token": "another"}}).want(w, http.StatusOK)
		own = w.ownEvents(sink, 3)
		require.Empty(w.t, own["sallyport.connection.updated"])
		require.Equal(w.t, true, own["sallyport.connection.connected"][1]["reconnected"])
		w.call(w.dev(), http.MethodDelete, api, nil).want(w, http.StatusNoContent)
		deleted := w.ownEvents(sink, 4)["sallyport.connection.deleted"][0]
		require.Equal(w.t, []any{connected[0]["tags"], connected[0]["scopes"], "unknown"},
			[]any{deleted["tags"], deleted["scopes"], deleted["health"]})

		var made struct {
			ConnectURL string `json:"connect_url"`
		}
		w.call(w.dev(), http.MethodPost, "/connections", object{"provider": "work", "connection_id": "c",
			"auth_mode": "oauth2", "tags": object{"end_user_id": "user-1"}, "connect": object{}}).want(w,
			http.StatusCreated).into(w, &made)
		b := w.browser()
		b.post(made.ConnectURL)
		to, err := url.Parse(b.post(made.ConnectURL, "mode", "oauth2").to)
		require.NoError(w.t, err)
		b.post(publicURL + "/oauth/callback/" + w.env + "/work?" + url.Values{"state": {to.Query().Get("state")},
			"error": {"access_denied"}, "error_description": {"Words of the provider"}}.Encode())
		failed := w.ownEvents(sink, 6)["sallyport.connection.connect_failed"]
		require.Len(w.t, failed, 1)
		require.Equal(w.t, []any{"pending", "access_denied", object{"end_user_id": "user-1"}},
			[]any{failed[0]["status"], failed[0]["reason"], failed[0]["tags"]})
		same("/connections/work/c", failed[0])
	})
}

// Without a subscription to the gateway's own events there are none.
func TestNoOwnEventsUnasked(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		w.subscribe(newReceiver(w.t, status(http.StatusGone)).url)
		w.awaitEvent(w.fresh(conn.pathToken(), github(issueOpened)), "dead_letter")
		w.call(w.dev(), http.MethodPatch, "/connections/github/acme", object{"tags": object{"a": "b"}}).want(w, http.StatusOK)
		require.Len(w.t, w.events(""), 1)
	})
}
