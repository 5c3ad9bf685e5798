package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// publication is the response to a publication.
type publication struct {
	EventUUID string `json:"event_uuid"`
	Status    string `json:"status"`
	Duplicate bool   `json:"duplicate"`
	Suspect   string `json:"suspect"`
}

func (w *world) publish(c credentials, body any) (publication, response) {
	w.t.Helper()
	var out publication
	a := w.call(c, http.MethodPost, "/webhook-events", body)
	a.into(w, &out)
	return out, a
}

// A published event goes the way of a provider's: stored before the response, matched by type, scope and filter,
// forwarded signed, replayable, and with the name of its publisher.
func TestPublish(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		sink := newReceiver(w.t, status(http.StatusOK))
		takes := w.subscribe(sink.url, object{"event_types": []string{"invoice.*"},
			"filter": "event.body.amount > 10 && event.provider == \"sallyport\""})
		every := w.subscribe(sink.url, object{"enabled": false}).ID
		own := w.subscribe(sink.url, object{"enabled": false, "provider_config_key": "sallyport"}).ID
		github := w.subscribe(sink.url, object{"enabled": false, "provider_config_key": "github"}).ID
		acme := w.subscribe(sink.url, object{"enabled": false, "connection_id": "acme"}).ID

		const data = `{"amount":12345678901234567890,"text":"<é>","list":[ 1, 2 ]}`
		out, a := w.publish(w.dev(), raw(`{"event_type":"invoice.paid","data":`+data+`}`))
		a.want(w, http.StatusCreated)
		require.Equal(w.t, prefix+"/webhook-events/"+out.EventUUID, a.header.Get("Location"))
		require.Equal(w.t, publication{EventUUID: out.EventUUID, Status: "received"}, out)
		require.ElementsMatch(w.t, []string{takes.ID, every, own}, w.took(out.EventUUID))
		got := sink.wait(w.t, 1)[0]
		verify(w, takes.SigningSecret, got)
		require.Equal(w.t, `{"type":"invoice.paid","timestamp":"`+start().Format(millisecond)+`","id":"`+out.EventUUID+
			`","provider":"sallyport",`+
			`"provider_config_key":"sallyport","connection_id":"","headers":{},"data":{"amount":12345678901234567890,`+
			`"text":"<é>",`+
			`"list":[1,2]}}`, string(got.body))
		require.Equal(w.t, "invoice.paid", got.header.Get("Sallyport-Event-Type"))
		require.NotContains(w.t, got.header, "Sallyport-Connection-Id")

		var e struct {
			event
			ConnectionID   *string `json:"connection_id"`
			ConnectionUUID *string `json:"connection_uuid"`
			Verification   struct {
				Result, Scheme string
				KeyID          string `json:"key_id"`
			} `json:"verification"`
		}
		read := func(uuid string) {
			w.call(w.dev(), http.MethodGet, "/webhook-events/"+uuid, nil).want(w, http.StatusOK).into(w, &e)
		}
		w.awaitEvent(out.EventUUID, "forwarded")
		read(out.EventUUID)
		require.Nil(w.t, e.ConnectionID)
		require.Nil(w.t, e.ConnectionUUID)
		require.Equal(w.t, "sallyport", e.Provider)
		require.Equal(w.t, out.EventUUID, e.IdempotencyKey)
		require.Equal(w.t, "event_uuid", e.IdempotencySource)
		require.Equal(w.t, "verified", e.Verification.Result)
		require.Equal(w.t, "api_key", e.Verification.Scheme)
		require.True(w.t, strings.HasPrefix(e.Verification.KeyID, "key_"), e.Verification.KeyID)
		w.call(w.dev(), http.MethodPost, "/webhook-events/"+out.EventUUID+"/replay",
			object{"force": true, "subscription_ids": []string{takes.ID}}).want(w, http.StatusAccepted)
		require.Equal(w.t, out.EventUUID, sink.wait(w.t, 2)[1].header.Get("Webhook-Id"))

		about, a := w.publish(w.user(w.env), object{"event_type": "invoice.paid", "data": nil, "connection_id": "acme"})
		a.want(w, http.StatusCreated)
		require.ElementsMatch(w.t, []string{every, github, acme}, w.took(about.EventUUID),
			"the filter of the first fails on null")
		read(about.EventUUID)
		require.Equal(w.t, "acme", *e.ConnectionID)
		require.Equal(w.t, conn.UUID, *e.ConnectionUUID)
		require.Equal(w.t, "github", e.ProviderConfigKey)
		require.Equal(w.t, "sallyport", e.Provider, "nobody takes it for GitHub's")
		require.Equal(w.t, "user", e.Verification.Scheme)
		require.JSONEq(w.t, `null`, string(e.Body))
	})
}

// Of events with one idempotency key the first counts, for any number at the same time. The key belongs to one
// connection, or the environment's where there is none, and never takes the place of a provider's id.
func TestPublishOnce(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connectGitHub("acme")
		sink := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(sink.url, object{"event_types": []string{"a.b"}})
		first, a := w.publish(w.dev(), object{"event_type": "a.b", "data": 1, "idempotency_key": "k"})
		a.want(w, http.StatusCreated)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				again, a := w.publish(w.dev(), object{"event_type": "a.b", "data": i, "idempotency_key": "k"})
				require.Equal(w.t, http.StatusOK, a.status)
				require.Empty(w.t, a.header.Get("Location"))
				want := publication{EventUUID: first.EventUUID, Status: "received", Duplicate: true}
				if i != 1 {
					want.Suspect = "same_id_new_body"
				}
				require.Equal(w.t, want, again)
			})
		}
		all.Wait()
		about, a := w.publish(w.dev(), object{"event_type": "a.b", "data": 1, "idempotency_key": "k",
			"connection_id": "acme"})
		a.want(w, http.StatusCreated)
		require.NotEqual(w.t, first.EventUUID, about.EventUUID)
		delivery := w.deliver(conn.pathToken(), githubAs(githubSecret, "issues", "k", issueOpened))
		require.False(w.t, delivery.Duplicate, "a provider's id is another kind of key")
		other := w.environment("production")
		if other == w.env {
			other = w.environment("development")
		}
		_, a = w.publish(w.user(other), object{"event_type": "a.b", "data": 1, "idempotency_key": "k"})
		a.want(w, http.StatusCreated)
		require.Len(w.t, sink.wait(w.t, 2), 2)
		require.Len(w.t, w.events("&duplicate=true"), 8)
	})
}

// A wrong publication is refused with every validation error at its place, and stores nothing; so is one
// without the right to it.
func TestPublishViolations(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "acme"})
		deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
		for body, want := range map[string][]string{
			`{}`: {"body.event_type required", "body.data required"},
			`{"event_type":"","data":1,"idempotency_key":""}`: {"body.event_type min_length",
				"body.idempotency_key min_length"},
			`{"event_type":"a..b","data":1,"connection_id":"nobody"}`: {"body.event_type pattern",
				"body.connection_id exists"},
			`{"event_type":"a b","data":1}`:                              {"body.event_type pattern"},
			`{"event_type":"a.*","data":1}`:                              {"body.event_type pattern"},
			`{"event_type":"sallyport.delivery.dead_lettered","data":1}`: {"body.event_type reserved"},
			`{"event_type":"sallyport","data":1,"extra":1}`: {"body.extra unknown_field",
				"body.event_type reserved"},
			`{"event_type":"` + strings.Repeat("a", 256) + `","data":1}`: {"body.event_type max_length"},
			`{"event_type":"a","data":1,"idempotency_key":"` + strings.Repeat("é", 256) +
				`"}`: {"body.idempotency_key max_length"}, `{"event_type":"a","data":1,"idempotency_key":"a\u0000"}`: {
				"body.idempotency_key pattern"},
			`{"event_type":"a","data":` + deep + `}`:             {"body.data depth"},
			`{"event_type":"a","data":{"a":1,"a":2}}`:            {"body.data.a duplicate"},
			`{"event_type":"a","data":1,"connection_id":"acme"}`: {"body.connection_id ambiguous"},
			`{"event_type":"a","data":1,"connection_id":"acme","provider_config_key":"slack"}`: {
				"body.provider_config_key exists"},
			`{"event_type":"a","data":1,"provider_config_key":"github"}`: {"body.provider_config_key coherent"},
			`{"event_type":"a","data":1,"connection_id":null}`:           {"body.connection_id not_null"},
		} {
			require.ElementsMatch(w.t, want, w.call(w.dev(), http.MethodPost, "/webhook-events", raw(body)).violations(w),
				"%.100s", body)
		}
		large := object{"event_type": "a", "data": strings.Repeat("x", 1<<20)}
		w.call(w.dev(), http.MethodPost, "/webhook-events", large).refused(w, http.StatusRequestEntityTooLarge,
			apperr.CodePayloadTooLarge)
		_, a := w.publish(w.dev(), object{"event_type": "a", "data": 1, "connection_id": "acme",
			"provider_config_key": "generic-hmac"})
		a.want(w, http.StatusCreated)
		require.Len(w.t, w.events(""), 1)

		var key struct {
			Key string `json:"key"`
		}
		for routes, want := range map[string]int{"events": http.StatusForbidden, "webhooks": http.StatusForbidden,
			"connections": http.StatusForbidden, "events:write": http.StatusCreated} {
			w.call(w.user(""), http.MethodPost, "/api-keys", object{"name": routes, "environment_id": w.env,
				"grants": []object{{"effect": "allow", "routes": []string{routes}}}}).want(w, http.StatusCreated).into(w, &key)
			w.call(byKey(key.Key), http.MethodPost, "/webhook-events", object{"event_type": "a", "data": 1}).want(w, want)
			if want == http.StatusCreated {
				w.call(byKey(key.Key), http.MethodGet, "/webhook-events", nil).refused(w, http.StatusForbidden,
					apperr.CodeGrantDenied)
			}
		}
	})
}

// A publication is acknowledged only once it is stored, and survives a restart.
func TestPublishedEventsAreDurable(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		var uuids []string
		for i := range 5 {
			out, a := w.publish(w.dev(), object{"event_type": "a.b", "data": i, "idempotency_key": fmt.Sprint(i)})
			a.want(w, http.StatusCreated)
			uuids = append(uuids, out.EventUUID)
		}
		w.stop()
		w.start()
		for i, uuid := range uuids {
			require.Equal(w.t, json.RawMessage(fmt.Sprint(i)), w.event(uuid).Body)
			again, a := w.publish(w.dev(), object{"event_type": "a.b", "data": i, "idempotency_key": fmt.Sprint(i)})
			a.want(w, http.StatusOK)
			require.Equal(w.t, uuid, again.EventUUID)
		}
	})
}
