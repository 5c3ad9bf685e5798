package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// asanaEvents is a delivery of Asana with changes to a task and a story.
func asanaEvents(secret, gid string) message {
	body := `{"events":[{"action":"changed","resource":{"gid":"` + gid + `","resource_type":"task"}},
		{"action":"added","resource":{"gid":"2","resource_type":"story"}},{"action":"changed","resource":{"gid":"3",` +
		`"resource_type":"task"}}]}`
	return message{http.Header{"Content-Type": {"application/json"}, "X-Hook-Signature": {hexHMAC(secret, body)}},
		[]byte(body)}
}

// Asana hands its secret over in a handshake, which is echoed once it is stored; from then on its deliveries verify.
// One delivery of many changes is one event of all their types: it goes once to each subscription that takes any of
// them, and is found under each. Its heartbeat is stored and goes to no subscription.
func TestBatch(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const secret = "b537207f20cbfa02357cf448134da559"
		c := w.connect(w.dev(), object{"provider": "asana", "connection_id": "tasks"})
		shake := func() response {
			return w.post(c.pathToken(), message{http.Header{"X-Hook-Secret": {secret}}, nil})
		}
		shake().refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		w.call(w.dev(), http.MethodPost, "/connections/asana/tasks/webhook-enrolment", nil).want(w, http.StatusCreated)
		a := shake()
		a.want(w, http.StatusOK)
		require.Equal(w.t, secret, a.header.Get("X-Hook-Secret"))
		shake().refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)

		both, stories, others := newReceiver(w.t, status(http.StatusOK)), newReceiver(w.t, status(http.StatusOK)),
			newReceiver(w.t, status(http.StatusOK))
		w.subscribe(both.url, object{"event_types": []string{"task.*", "story.added"}})
		sub := w.subscribe(stories.url, object{"event_types": []string{"story.*"}})
		w.subscribe(others.url, object{"event_types": []string{"project.*"}})
		first := w.deliver(c.pathToken(), asanaEvents(secret, "1")).EventUUID
		heartbeat := message{http.Header{"X-Hook-Signature": {hexHMAC(secret, `{"events":[]}`)}}, []byte(`{"events":[]}`)}
		w.deliver(c.pathToken(), heartbeat)
		second := w.deliver(c.pathToken(), asanaEvents(secret, "9")).EventUUID

		got := stories.wait(w.t, 2)
		verify(w, sub.SigningSecret, got[0])
		require.Contains(w.t, string(got[0].body), `"type":"story.added","types":["task.changed","story.added"],`)
		require.Equal(w.t, "story.added", got[0].header.Get("Sallyport-Event-Type"))
		require.Contains(w.t, string(both.wait(w.t, 2)[0].body), `"type":"task.changed","types":["task.changed",`)
		for _, uuid := range []string{first, second} {
			e := w.awaitEvent(uuid, "forwarded")
			require.Equal(w.t, []string{"task.changed", "story.added"}, e.EventTypes)
			require.Len(w.t, e.Deliveries, 2)
		}
		require.Equal(w.t, 2, both.count())
		require.Zero(w.t, others.count())
		for _, query := range []string{"story.added", "task.changed", "story.*", "*.changed"} {
			require.Len(w.t, w.events("&event_type="+url.QueryEscape(query)), 2, query)
		}
		require.Empty(w.t, w.events("&event_type=project.*"))
		controls := w.events("&control=true")
		require.Len(w.t, controls, 1)
		require.Equal(w.t, "received", controls[0].Status)

		var explained []struct {
			Matches bool    `json:"matches"`
			Pattern *string `json:"pattern"`
		}
		w.call(w.dev(), http.MethodGet, "/webhook-events/"+first+"/explain", nil).want(w, http.StatusOK).into(w, &explained)
		require.Len(w.t, explained, 3)
		require.False(w.t, explained[0].Matches)
		require.Equal(w.t, "story.*", *explained[1].Pattern)
		require.Equal(w.t, "task.*", *explained[2].Pattern)
	})
}

// A large batch reaches each subscription under the first type that its own patterns match, although they share the
// body, and each request verifies. So does a later attempt after the patterns have changed.
func TestTypesOfALargeBatch(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const secret = "a secret shared with Asana"
		c := w.connect(w.dev(), object{"provider": "asana", "connection_id": "tasks", "webhook_secret": secret})
		pad := strings.Repeat("x", 48<<10)
		body := `{"events":[{"action":"added","resource":{"gid":"1","resource_type":"task"}},{"action":"added","resource":` +
			`{"gid":"2","resource_type":"story"}},{"action":"removed","resource":{"gid":"3","resource_type":"tag"},"pad":"` +
			pad + `"}]}`
		const types = `"types":["task.added","story.added","tag.removed"],`
		receivers, subs := map[string]*receiver{}, map[string]subscription{}
		var checks []func()
		for pattern, eventType := range map[string]string{"task.*": "task.added", "story.added": "story.added",
			"*.removed": "tag.removed", "*": "task.added"} {
			sink := newReceiver(w.t, status(http.StatusOK))
			sub := w.subscribe(sink.url, object{"event_types": []string{pattern}})
			receivers[pattern], subs[pattern] = sink, sub
			checks = append(checks, func() {
				got := sink.wait(w.t, 1)[0]
				verify(w, sub.SigningSecret, got)
				require.True(w.t, strings.HasPrefix(string(got.body), `{"type":"`+eventType+`",`+types), "%.120s", got.body)
				require.True(w.t, strings.HasSuffix(string(got.body), `,"data":`+body+"}"))
				require.Equal(w.t, int64(len(got.body)), got.length)
				require.Equal(w.t, eventType, got.header.Get("Sallyport-Event-Type"))
			})
		}
		uuid := w.deliver(c.pathToken(), message{http.Header{"Content-Type": {"application/json"},
			"X-Hook-Signature": {hexHMAC(secret, body)}}, []byte(body)}).EventUUID
		w.awaitEvent(uuid, "forwarded")
		for _, check := range checks {
			check()
		}

		sub, sink := subs["story.added"], receivers["story.added"]
		for n, change := range []struct{ pattern, want string }{{"tag.*", "tag.removed"}, {"project.*", "task.added"}} {
			w.patchSubscription(sub.ID, object{"event_types": []string{change.pattern}})
			w.replay(uuid, object{"force": true, "subscription_ids": []string{sub.ID}}).want(w, http.StatusAccepted)
			require.Equal(w.t, change.want, sink.wait(w.t, n+2)[n+1].header.Get("Sallyport-Event-Type"))
			w.awaitEvent(uuid, "forwarded")
		}
	})
}

// A batch reaches the subscriber to any of its types, also the last of many. One that has more than can be matched is
// refused with a reason, so that the provider and the operator see it: it is never stored for some of its subscribers.
func TestTypesOfACrowdedBatch(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		const secret = "a secret shared with Asana"
		c := w.connect(w.dev(), object{"provider": "asana", "connection_id": "tasks", "webhook_secret": secret})
		last := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(last.url, object{"event_types": []string{"task.last"}})
		batch := func(types int) message {
			var items strings.Builder
			for i := range types - 1 {
				fmt.Fprintf(&items, `{"action":"a%d","resource":{"resource_type":"task"}},`, i)
			}
			body := `{"events":[` + items.String() + `{"action":"last","resource":{"resource_type":"task"}}]}`
			return message{http.Header{"Content-Type": {"application/json"}, "X-Hook-Signature": {hexHMAC(secret, body)}},
				[]byte(body)}
		}
		uuid := w.deliver(c.pathToken(), batch(1000)).EventUUID
		require.Equal(w.t, "task.last", last.wait(w.t, 1)[0].header.Get("Sallyport-Event-Type"))
		require.Len(w.t, w.event(uuid).EventTypes, 1000)
		require.Len(w.t, w.events("&event_type=task.last"), 1)

		w.post(c.pathToken(), batch(1001)).refused(w, http.StatusRequestEntityTooLarge, apperr.CodePayloadTooLarge)
		refused := w.rejections(w.dev(), "connection_id=tasks", 1)[0]
		require.Equal(w.t, "batch_too_large", refused.Reason)
		require.Contains(w.t, refused.Message, "1000 types")
		require.Len(w.t, w.events(""), 1)
	})
}

// Providers get the responses that they expect, while the event is stored as any other: Microsoft Graph's validation is
// echoed as text, and its notifications are acknowledged with 202.
func TestResponsesThatProvidersExpect(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		c := w.connect(w.dev(), object{"provider": "microsoft-graph", "connection_id": "mail",
			"webhook_secret": "the client state of 32 characters"})
		const token = "Validation: Testing client application <script>"
		a := w.post(c.pathToken()+"?validationToken="+url.QueryEscape(token),
			message{http.Header{"Content-Type": {"text/plain"}}, nil})
		a.want(w, http.StatusOK)
		require.Equal(w.t, token, string(a.body))
		require.Equal(w.t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
		require.Equal(w.t, "nosniff", a.header.Get("X-Content-Type-Options"))
		require.Empty(w.t, w.events(""))

		note := func(state string) message {
			return message{http.Header{"Content-Type": {"application/json"}}, []byte(`{"value":[{"clientState":"` + state +
				`","changeType":"created"}]}`)}
		}
		a = w.post(c.pathToken(), note("the client state of 32 characters"))
		a.want(w, http.StatusAccepted)
		require.Empty(w.t, a.body)
		a = w.post(c.pathToken(), note("the client state of 32 characters"))
		a.want(w, http.StatusAccepted)
		w.post(c.pathToken(), note("another")).refused(w, http.StatusUnauthorized, apperr.CodeSignatureInvalid)
		list := w.events("&duplicate=false")
		require.Len(w.t, list, 2, "two changes may be told in the same words")
		require.NotContains(w.t, string(w.event(list[0].EventUUID).Body), "client state", "a token in the body is a secret")
	})
}

// A sender without proof has to be accepted explicitly, can be reached only by the path's random bits, and its events
// say that they were not verified.
func TestUnverified(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		create := func(webhook object) response {
			return w.call(w.dev(), http.MethodPost, "/connections", object{"provider": "none", "connection_id": "open",
				"webhook": webhook})
		}
		violations := func(a response) (list []string) {
			a.refused(w, http.StatusUnprocessableEntity, apperr.CodeValidation)
			for _, d := range a.envelope(w).Error.Details {
				list = append(list, d.Location+" "+d.Rule)
			}
			return list
		}
		require.Equal(w.t, []string{"body.webhook.scheme required"}, violations(create(object{})))
		require.Equal(w.t, []string{"body.webhook.alias coherent"},
			violations(create(object{"scheme": "none", "alias": "open"})))
		var c connection
		create(object{"scheme": "none", "params": object{"event_type_pointer": "/kind"}}).want(w, http.StatusCreated).into(w,
			&c)
		require.Nil(w.t, c.WebhookAlias)
		m := message{http.Header{"Content-Type": {"application/json"}}, []byte(`{"kind":"door.opened"}`)}
		w.post("open", m).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		e := w.event(w.deliver(c.pathToken(), m).EventUUID)
		require.Equal(w.t, "door.opened", e.EventType)
		require.Equal(w.t, "unverified", e.Verification.Result)
		for _, change := range []object{{"scheme": nil}, {"alias": "open"}} {
			violations(w.call(w.dev(), http.MethodPatch, "/connections/none/open", object{"webhook": change}))
		}
	})
}

// A sender of CloudEvents may ask by OPTIONS whether it may deliver; for a provider that never asks so the method is
// refused.
func TestHandshakeByOptions(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		c := w.connect(w.dev(), object{"provider": "cloudevents", "connection_id": "bus",
			"webhook_secret": "a token of thirty-two characters"})
		ask := func(segment string, h http.Header) response {
			r, err := http.NewRequestWithContext(w.t.Context(), http.MethodOptions, w.base+prefix+"/webhook/"+segment, nil)
			require.NoError(w.t, err)
			r.Header = h
			return w.send(r)
		}
		a := ask(c.pathToken(), http.Header{"Webhook-Request-Origin": {"events.example.com"}})
		a.want(w, http.StatusOK)
		require.Equal(w.t, "events.example.com", a.header.Get("WebHook-Allowed-Origin"))
		ask(c.pathToken(), http.Header{}).refused(w, http.StatusBadRequest, apperr.CodeHTTP)
		require.Equal(w.t, "handshake_unknown", w.rejections(w.dev(), "connection_id=bus", 1)[0].Reason)
		a = ask(w.connectGitHub("acme").pathToken(), http.Header{"Webhook-Request-Origin": {"events.example.com"}})
		a.refused(w, http.StatusMethodNotAllowed, apperr.CodeHTTP)
		require.Equal(w.t, "POST", a.header.Get("Allow"))

		m := message{http.Header{"Authorization": {"Bearer a token of thirty-two characters"},
			"Ce-Type": {"com.example.made"}, "Ce-Id": {"1"}, "Ce-Source": {"/bus"}, "Ce-Specversion": {"1.0"},
			"Content-Type": {"application/json"}}, []byte(`{}`)}
		w.post(c.pathToken(), m).want(w, http.StatusAccepted)
		w.post(c.pathToken(), m).want(w, http.StatusAccepted)
		originals := w.events("&duplicate=false")
		require.Len(w.t, originals, 1)
		require.Equal(w.t, "com.example.made", originals[0].EventType)
		require.Equal(w.t, "/bus 1", originals[0].IdempotencyKey)
		require.Equal(w.t, "[redacted]", w.event(originals[0].EventUUID).Headers["authorization"])
	})
}
