package e2e_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
)

const millisecond = "2006-01-02T15:04:05.000Z"

// The product's main job: a signed webhook arrives at the subscriber, signed, and everything about it can be looked up
// afterwards without a secret among it.
func TestForward(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, func(rw http.ResponseWriter, _ int) {
			rw.Header().Set("Set-Cookie", "session=receiver-cookie")
			rw.WriteHeader(http.StatusAccepted)
			_, _ = rw.Write([]byte("thanks"))
		})
		conn := w.connectGitHub("my-repo")
		const custom = "Bearer receiver-token-0123456789"
		sub := w.subscribe(sink.url+"?token=in-the-url", object{
			"event_types": []string{"issues.*"}, "headers": object{"Authorization": custom, "X-Plain": "plain value 0123"},
		})
		m := github(issueOpened).with("Authorization", "Basic cHJvdmlkZXI=").with("Cookie", "a=b")
		receipt := w.deliver(*conn.WebhookAlias, m)
		require.False(w.t, receipt.Duplicate)

		got := sink.wait(w.t, 1)[0]
		require.Equal(w.t, http.MethodPost, got.method)
		require.Equal(w.t, "/hook?token=in-the-url", got.path)
		require.Equal(w.t, int64(len(got.body)), got.length)
		verify(w, sub.SigningSecret, got)
		require.Equal(w.t, `{"type":"issues.opened","timestamp":"`+start().Format(millisecond)+`","id":"`+receipt.EventUUID+
			`","provider":"github","provider_config_key":"github","connection_id":"my-repo","headers":{`+
			`"content-type":"application/json","user-agent":"GitHub-Hookshot/044aadd","x-github-delivery":"`+
			m.header.Get("X-GitHub-Delivery")+`","x-github-event":"issues"},"data":`+issueOpened+`}`, string(got.body))
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Webhook-Id": receipt.EventUUID,
			"Webhook-Timestamp": strconv.FormatInt(start().Unix(), 10), "Sallyport-Event-Type": "issues.opened",
			"Sallyport-Provider": "github", "Sallyport-Connection-Id": "my-repo", "Sallyport-Subscription-Id": sub.ID,
			"Sallyport-Attempt": "1", "Sallyport-Will-Retry": "true", "Sallyport-Replay": "false", "Sallyport-Hops": "1",
			"Authorization": custom, "X-Plain": "plain value 0123",
		} {
			require.Equal(w.t, []string{value}, got.header.Values(name), name)
		}
		require.NotContains(w.t, got.header, "X-Hub-Signature-256", "an envelope's request has headers of the gateway only")

		e := w.awaitEvent(receipt.EventUUID, "forwarded")
		w.recorded(e, m, conn, sub)
		w.keepsSecrets(sub, custom)
	})
}

// verify holds a forward to the library of the Standard Webhooks project. The clock of the test is not the library's.
func verify(w *world, secret string, got received) {
	w.t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(w.t, err)
	require.NoError(w.t, verifier.VerifyIgnoringTimestamp(got.body, got.header))
}

func (w *world) recorded(e event, m message, conn connection, sub subscription) {
	w.t.Helper()
	require.Equal(w.t, "github", e.Provider)
	require.Equal(w.t, "github", e.ProviderConfigKey)
	require.Equal(w.t, "my-repo", e.ConnectionID)
	require.Equal(w.t, conn.UUID, e.ConnectionUUID)
	require.Equal(w.t, w.env, e.EnvironmentID)
	require.Equal(w.t, "issues.opened", e.EventType)
	require.Equal(w.t, m.header.Get("X-GitHub-Delivery"), e.IdempotencyKey)
	require.Equal(w.t, "header:x-github-delivery", e.IdempotencySource)
	require.Equal(w.t, 1, e.AttemptCount)
	require.Nil(w.t, e.LastError)
	require.Equal(w.t, start().Truncate(1e6), e.ReceivedAt)
	require.NotNil(w.t, e.ForwardedAt)
	require.JSONEq(w.t, issueOpened, string(e.Body))
	require.Equal(w.t, "json", *e.BodyEncoding)
	require.Equal(w.t, "application/json", e.ContentType)
	require.Equal(w.t, int64(len(issueOpened)), e.BodySize)
	require.Equal(w.t, "issues", e.Headers["x-github-event"])
	for _, name := range []string{"x-hub-signature-256", "authorization", "cookie"} {
		require.Equal(w.t, secretbox.Redacted, e.Headers[name], name)
	}
	require.Len(w.t, e.Deliveries, 1)
	d := e.delivery(w, sub.ID)
	require.Equal(w.t, "succeeded", d.Status)
	require.Equal(w.t, 1, d.Generation)
	require.Equal(w.t, http.StatusAccepted, *d.LastHTTPStatus)
	require.Nil(w.t, d.NextAttemptAt)
	require.NotNil(w.t, d.CompletedAt)

	list := w.attempts(e.EventUUID)
	require.Len(w.t, list, 1)
	a := list[0]
	require.Equal(w.t, "succeeded", a.Outcome)
	require.Equal(w.t, 1, a.Number)
	require.Equal(w.t, 1, a.Generation)
	require.Equal(w.t, sub.ID, a.SubscriptionID)
	require.Equal(w.t, e.EventUUID, a.Request.Headers["webhook-id"])
	for _, name := range []string{"webhook-signature", "authorization", "x-plain"} {
		require.Equal(w.t, secretbox.Redacted, a.Request.Headers[name], name)
	}
	require.Equal(w.t, http.StatusAccepted, a.Response.Status)
	require.Equal(w.t, "thanks", a.Response.Body)
	require.False(w.t, a.Response.Truncated)
	require.Equal(w.t, secretbox.Redacted, a.Response.Headers["set-cookie"])
}

// keepsSecrets looks for every secret of the test in what the API shows, in the log and in the database.
func (w *world) keepsSecrets(sub subscription, custom string) {
	w.t.Helper()
	secrets := map[string]string{
		"the connection's secret": githubSecret, "the subscription's secret": sub.SigningSecret, "a custom header": custom,
		"the receiver's cookie": "receiver-cookie", "the API key": w.key,
	}
	var shown []string
	for _, path := range []string{"/connections", "/webhook-subscriptions",
		"/webhook-events?include=body,headers,deliveries", "/connections/github/my-repo", "/webhook-subscriptions/" +
			sub.ID} {
		shown = append(shown, string(w.call(w.dev(), http.MethodGet, path, nil).want(w, http.StatusOK).body))
	}
	shown = append(shown, w.logs.String(), w.snapshot().String())
	for what, secret := range secrets {
		for _, text := range shown {
			require.NotContains(w.t, text, secret, what)
		}
	}
	require.NotContains(w.t, w.logs.String(), "in-the-url", "a URL can carry a secret, so the log has none")
	require.NotContains(w.t, w.snapshot().String(), "in-the-url", "the URL is sealed at rest")
}

// The other providers that ship reach the same end.
func TestForwardFromEveryProvider(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusNoContent))
		sub := w.subscribe(sink.url)
		const body = `{"type":"invoice.paid","data":{"amount":12.50}}`
		w.run("standard-webhooks", func(w *world) {
			conn := w.connect(w.dev(), object{"provider": "standard-webhooks", "connection_id": "sw",
				"webhook_secret": standardSecret})
			w.arrives(sink, sub, conn, standard(w.t, standardSecret, "msg_1", w.clk.Now(), body), "header:webhook-id", "msg_1")
		})
		w.run("generic-hmac", func(w *world) {
			conn := w.connect(w.dev(), object{"provider": "generic-hmac", "connection_id": "gh",
				"webhook_secret": "a shared secret", "webhook": object{
					"params": object{"event_type_pointer": "/type", "event_id_header": "X-Event-Id"}}})
			w.arrives(sink, sub, conn, generic("a shared secret", "application/json", body).with("X-Event-Id", "evt-9"),
				"header:x-event-id", "evt-9")
		})
	})
}

func (w *world) arrives(sink *receiver, sub subscription, conn connection, m message, source, key string) {
	w.t.Helper()
	before := sink.count()
	r := w.deliver(conn.pathToken(), m)
	e := w.awaitEvent(r.EventUUID, "forwarded")
	require.Equal(w.t, "invoice.paid", e.EventType)
	require.Equal(w.t, key, e.IdempotencyKey)
	require.Equal(w.t, source, e.IdempotencySource)
	got := sink.wait(w.t, before+1)[before]
	verify(w, sub.SigningSecret, got)
	var envelope struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	require.NoError(w.t, json.Unmarshal(got.body, &envelope))
	require.Equal(w.t, "invoice.paid", envelope.Type)
	require.Equal(w.t, string(m.body), string(envelope.Data), "numbers and the order of fields survive")
}
