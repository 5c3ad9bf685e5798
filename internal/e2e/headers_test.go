package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
)

// adorned is a delivery of GitHub with headers of all kinds: its own, those of proxies, credentials, and names that the
// gateway sets.
func adorned() message {
	m := github(issueOpened)
	for name, value := range map[string]string{"Accept": "*/*", "X-GitHub-Hook-ID": "292430182",
		"Authorization": "Basic eDp5", "Cookie": "a=b", "X-Api-Key": "k", "X-Forwarded-For": "192.0.2.7",
		"Forwarded": "for=192.0.2.7", "Via": "1.1 edge",
		"Cf-Connecting-Ip": "192.0.2.7", "Webhook-Id": "forged", "Webhook-Signature": "v1,forged", "Sallyport-Replay": "true",
		"Connection": "keep-alive, X-Hop", "X-Hop": "1", "X_Forwarded_User": "root", "X-Hub-Signature": "sha1=00"} {
		m = m.with(name, value)
	}
	m.header["X-List"] = []string{"b", "a", "c, d"}
	return m
}

// fromProvider are the headers of adorned that receivers get.
func fromProvider(m message) map[string]string {
	return map[string]string{"accept": "*/*", "content-type": "application/json", "user-agent": "GitHub-Hookshot/044aadd",
		"x-github-delivery": m.header.Get("X-GitHub-Delivery"), "x-github-event": "issues", "x-github-hook-id": "292430182",
		"x-list": "b, a, c, d"}
}

// A receiver of raw gets the provider's headers and its signature byte for byte, with the first attempt, with a retry
// by another process, with replays and with tests. An envelope has the headers without the signature. Neither gets what
// is about connections, proxies or the gateway, or a credential. Nothing that the API shows contains the signature.
func TestHeadersReachReceivers(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		raw := newReceiver(w.t, statuses(http.StatusServiceUnavailable, http.StatusOK))
		wrapped := newReceiver(w.t, status(http.StatusOK))
		sub := w.subscribe(raw.url, object{"payload_mode": "raw", "retry_schedule_seconds": []float64{3600}})
		w.subscribe(wrapped.url)
		conn := w.connectGitHub("acme")
		m := adorned()
		uuid := w.fresh("acme", m)
		w.awaitDelivery(uuid, sub.ID, "retry_wait")

		var envelope struct {
			ConnectionID string            `json:"connection_id"`
			Headers      map[string]string `json:"headers"`
		}
		inEnvelope := wrapped.wait(w.t, 1)[0]
		require.NoError(w.t, json.Unmarshal(inEnvelope.body, &envelope))
		require.Equal(w.t, fromProvider(m), envelope.Headers)
		require.Contains(w.t, string(inEnvelope.body), `"connection_id":"acme","headers":{"accept":`)
		require.Empty(w.t, inEnvelope.header.Get("X-GitHub-Event"))

		w.stop()
		w.start()
		w.nextAttempt(uuid, sub.ID, raw, 2)
		w.awaitEvent(uuid, "forwarded")
		w.replay(uuid, object{"force": true, "subscription_ids": []string{sub.ID}}).want(w, http.StatusAccepted)
		raw.wait(w.t, 3)
		w.awaitEvent(uuid, "forwarded")
		later := newReceiver(w.t, status(http.StatusOK))
		other := w.subscribe(later.url, object{"payload_mode": "raw"})
		job := w.replays(object{"filter": object{"all": true}, "to_subscription_id": other.ID})
		require.Equal(w.t, 1, job.Counts.Succeeded)
		made := w.trial(sub, object{"event_uuid": uuid, "headers": object{"X-GitHub-Event": "mine"}})
		require.True(w.t, made.Delivered)
		dry := w.trial(sub, object{"event_uuid": uuid, "dry_run": true})

		all := append(raw.wait(w.t, 4), later.wait(w.t, 1)...)
		require.Equal(w.t, []string{"mine"}, all[3].header.Values("X-GitHub-Event"), "a test's own header replaces it")
		all[3].header.Set("X-GitHub-Event", "issues")
		for _, got := range all {
			verify(w, sub.secretFor(got, other), got)
			require.Equal(w.t, issueOpened, string(got.body))
			want := http.Header{"X-Hub-Signature-256": m.header.Values("X-Hub-Signature-256"),
				"Content-Length": got.header.Values("Content-Length")}
			for name, value := range fromProvider(m) {
				want.Set(name, value)
			}
			for name := range got.header {
				if strings.HasPrefix(name, "Sallyport-") || strings.HasPrefix(name, "Webhook-") {
					got.header.Del(name)
				}
			}
			got.header.Del("Accept-Encoding")
			require.Equal(w.t, want, got.header)
		}

		e := w.event(uuid)
		shown := []map[string]string{e.Headers, made.Request.Headers, dry.Request.Headers}
		for _, a := range w.attempts(uuid) {
			if a.SubscriptionID != sub.ID {
				continue
			}
			shown = append(shown, a.Request.Headers)
			require.Equal(w.t, "292430182", a.Request.Headers["x-github-hook-id"])
			require.NotContains(w.t, a.Request.Headers, "x-forwarded-for")
		}
		require.Len(w.t, shown, 6)
		for _, headers := range shown {
			require.Equal(w.t, secretbox.Redacted, headers["x-hub-signature-256"])
		}
		require.Equal(w.t, "mine", made.Request.Headers["x-github-event"])
		require.Equal(w.t, "issues", dry.Request.Headers["x-github-event"])
		w.showsNoSignature(conn, strings.TrimPrefix(m.header.Get("X-Hub-Signature-256"), "sha256="))
	})
}

// secretFor returns the signing secret of the subscription that got the request.
func (s subscription) secretFor(got received, other subscription) string {
	if got.header.Get("Sallyport-Subscription-Id") == other.ID {
		return other.SigningSecret
	}
	return s.SigningSecret
}

// showsNoSignature looks for a provider's signature in what the API shows of its events, and in the log.
func (w *world) showsNoSignature(conn connection, signature string) {
	w.t.Helper()
	shown := []string{w.logs.String()}
	for _, path := range []string{"/webhook-events?include=body,headers,deliveries", "/connections/github/" +
		conn.ConnectionID, "/webhook-replays"} {
		shown = append(shown, string(w.call(w.dev(), http.MethodGet, path, nil).want(w, http.StatusOK).body))
	}
	for _, e := range w.events("") {
		for _, part := range []string{"", "/attempts", "/explain"} {
			shown = append(shown, string(w.call(w.dev(), http.MethodGet, "/webhook-events/"+e.EventUUID+part, nil).
				want(w, http.StatusOK).body))
		}
	}
	for _, text := range shown {
		require.NotContains(w.t, text, signature)
	}
}

// The query of the URL that the provider calls reaches receivers and filters, without credentials, and the sender's own
// webhook-id, in whose place receivers get the gateway's. A sender cannot set either by a header of that name.
func TestQueryReachesReceivers(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		conn := w.connect(w.dev(), object{"provider": "none", "connection_id": "open", "webhook": object{"scheme": "none"}})
		raw, wrapped := newReceiver(w.t, status(http.StatusOK)), newReceiver(w.t, status(http.StatusOK))
		w.subscribe(raw.url, object{"payload_mode": "raw", "event_types": []string{"*"},
			"filter": `event.headers["sallyport-query"].contains("tenant=42")`})
		w.subscribe(wrapped.url, object{"event_types": []string{"*"}})
		forged := message{http.Header{"Content-Type": {"application/json"}, "Sallyport-Query": {"tenant=7"},
			"Sallyport_query": {"tenant=7"}, "Sallyport-Sender-Webhook-Id": {"forged"}, "Webhook-Id": {"msg_1"}}, []byte(`{}`)}
		const query = `tenant=42&api_key=s3cr3t&token=s3cr3t&sig=s3cr3t&flag&q=a%20b%22c"é`
		uuid := w.deliver(conn.pathToken()+"?"+query, forged).EventUUID
		const want = `tenant=42&api_key=[redacted]&token=[redacted]&sig=[redacted]&flag&q=a%20b%22c"%C3%A9`
		got := raw.wait(w.t, 1)[0]
		require.Equal(w.t, []string{want}, got.header.Values("Sallyport-Query"))
		require.Equal(w.t, []string{"msg_1"}, got.header.Values("Sallyport-Sender-Webhook-Id"))
		require.Equal(w.t, []string{uuid}, got.header.Values("Webhook-Id"))
		require.Empty(w.t, got.header.Values("Sallyport_query"))
		var envelope struct {
			Headers map[string]string `json:"headers"`
		}
		require.NoError(w.t, json.Unmarshal(wrapped.wait(w.t, 1)[0].body, &envelope))
		require.Equal(w.t, want, envelope.Headers["sallyport-query"])
		require.Equal(w.t, "msg_1", envelope.Headers["sallyport-sender-webhook-id"])
		require.Equal(w.t, want, w.event(uuid).Headers["sallyport-query"])

		plain := w.deliver(conn.pathToken(), forged.with("Webhook-Id", "msg_2")).EventUUID
		wrapped.wait(w.t, 2)
		require.NotContains(w.t, w.event(plain).Headers, "sallyport-query")
		require.Equal(w.t, 1, raw.count())
		require.NotContains(w.t, w.snapshot().String(), "s3cr3t")
		require.Contains(w.t, w.logs.String(), "the filter of a subscription cannot be evaluated", "it has no such header")
	})
}

// Headers of a subscription replace those of the provider, in any form that receivers behind CGI cannot distinguish.
func TestOwnHeadersReplaceTheProviders(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(sink.url, object{"payload_mode": "raw", "headers": object{"X-GitHub-Hook-Id": "mine",
			"Authorization": "Bearer receiver"}})
		w.connectGitHub("acme")
		uuid := w.fresh("acme", adorned().with("X_GitHub_Hook_ID", "forged"))
		w.awaitEvent(uuid, "forwarded")
		got := sink.wait(w.t, 1)[0].header
		require.Equal(w.t, []string{"mine"}, got["X-Github-Hook-Id"])
		require.NotContains(w.t, got, "X_github_hook_id")
		require.Equal(w.t, []string{"Bearer receiver"}, got["Authorization"])
		require.Equal(w.t, []string{"issues"}, got["X-Github-Event"])
	})
}

// A token that proves a webhook reaches no receiver, and neither does a signature over a body from which a token was
// taken, because no receiver could verify it.
func TestSecretsOfProvidersStayHere(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(sink.url, object{"payload_mode": "raw"})
		const token = "a token of thirty-two characters"
		c := w.connect(w.dev(), object{"provider": "generic-token", "connection_id": "door", "webhook_secret": token})
		w.deliver(c.pathToken(), message{http.Header{"X-Webhook-Token": {token}, "X-Door": {"front"}}, []byte("{}")})
		got := sink.wait(w.t, 1)[0].header
		require.Equal(w.t, "front", got.Get("X-Door"))
		require.NotContains(w.t, got, "X-Webhook-Token")

		c = w.connect(w.dev(), object{"provider": "acme", "connection_id": "chat", "webhook_secret": acmeSecret})
		send := func(body string) received {
			before := sink.count()
			w.post(c.pathToken(), message{http.Header{"Content-Type": {"application/json"},
				"X-Acme-Signature": {hexHMAC(acmeSecret, body)}}, []byte(body)}).want(w, http.StatusOK)
			return sink.wait(w.t, before+1)[before]
		}
		whole := send(`{"type":"a","n":1}`).header
		require.Equal(w.t, hexHMAC(acmeSecret, `{"type":"a","n":1}`), whole.Get("X-Acme-Signature"))
		cut := send(`{"token":"s3cret","type":"a","n":2}`)
		require.Contains(w.t, string(cut.body), `"token":"[redacted]"`)
		require.NotContains(w.t, cut.header, "X-Acme-Signature")
	}, definitionsFolder(strings.NewReplacer("default: v1", "default: v", `["{json:/type}"]`,
		`["{param:kind}.{json:/type}"]
    redact: ["json:/token"]`).Replace(acmeDefinition)))
}
