package deliveries

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

func forwarded() (*events.Event, *Delivery, *subscriptions.Target) {
	e := &events.Event{UUID: "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11", Type: "issues.opened", Provider: "github",
		ProviderConfigKey: "github-eu", ConnectionID: "acme", ContentType: "application/vnd.x+json", Hops: 2,
		ReceivedAt: time.Date(2025, 6, 15, 12, 0, 0, 120_000_000, time.UTC)}
	d := &Delivery{Key: Key{e.UUID, "sub_1"}, Generation: 1, GenerationAttempts: 1}
	return e, d, &subscriptions.Target{SigningKey: []byte("0123456789abcdef01234567"), Schedule: make([]time.Duration, 2)}
}

// Any sent body verifies with the reference implementation of Standard Webhooks, under the same id, with the time of
// the attempt, and no longer once a byte, the id or the time has changed.
func TestSignatureVerifies(t *testing.T) {
	t.Parallel()
	e, d, target := forwarded()
	rapid.Check(t, func(rt *rapid.T) {
		target := *target
		target.SigningKey = rapid.SliceOfN(rapid.Byte(), 16, 64).Draw(rt, "key")
		body := rapid.SliceOf(rapid.Byte()).Draw(rt, "body")
		now := time.Unix(rapid.Int64Range(0, 1<<33).Draw(rt, "now"), 0)
		h := buildHeaders(&target, d, e, e.Type, &form{body: body}, now)
		verifier, err := standardwebhooks.NewWebhookRaw(target.SigningKey)
		require.NoError(rt, err)
		require.NoError(rt, verifier.VerifyIgnoringTimestamp(body, h))
		require.Equal(rt, e.UUID, h.Get("webhook-id"))
		require.Equal(rt, strconv.FormatInt(now.Unix(), 10), h.Get("webhook-timestamp"))

		require.Error(rt, verifier.VerifyIgnoringTimestamp(append([]byte("x"), body...), h))
		for name, value := range map[string]string{"webhook-id": "other", "webhook-timestamp": strconv.FormatInt(now.Unix()+1,
			10)} {
			changed := h.Clone()
			changed.Set(name, value)
			require.Error(rt, verifier.VerifyIgnoringTimestamp(body, changed))
		}
	})
}

// A signature of now is one that receivers accept with their tolerance of time.
func TestSignatureIsFresh(t *testing.T) {
	t.Parallel()
	e, d, target := forwarded()
	verifier, err := standardwebhooks.NewWebhook("whsec_" + base64.StdEncoding.EncodeToString(target.SigningKey))
	require.NoError(t, err)
	body := []byte(`{}`)
	require.NoError(t, verifier.Verify(body, buildHeaders(target, d, e, e.Type, &form{body: body}, time.Now())))
}

// Every documented header is there. Headers give the number of the attempt, whether another would follow, and whether
// it is a replay. A subscription's own headers are added and replace none of ours.
func TestHeaders(t *testing.T) {
	t.Parallel()
	e, d, target := forwarded()
	target.Headers = []subscriptions.Header{{Name: "X-Team", Value: "a"}, {Name: "webhook-id", Value: "forged"},
		{Name: "Sallyport-Hops", Value: "0"}}
	h := buildHeaders(target, d, e, e.Type, &form{body: []byte("x"), contentType: "text/plain"}, testTime())
	require.Equal(t, Sign(target.SigningKey, e.UUID, testTime().Unix(), []byte("x")), h.Get("webhook-signature"))
	h.Del("webhook-signature")
	require.Equal(t, http.Header{
		"X-Team": {"a"}, "Content-Type": {"text/plain"}, "User-Agent": {"Sallyport"}, "Webhook-Id": {e.UUID},
		"Webhook-Timestamp": {"1749988800"}, "Sallyport-Event-Type": {"issues.opened"}, "Sallyport-Provider": {"github"},
		"Sallyport-Connection-Id": {"acme"}, "Sallyport-Subscription-Id": {"sub_1"}, "Sallyport-Attempt": {"2"},
		"Sallyport-Will-Retry": {"true"}, "Sallyport-Replay": {"false"}, "Sallyport-Hops": {"3"},
	}, h)
	last := *d
	last.GenerationAttempts, last.Generation = 2, 2
	h = buildHeaders(target, &last, e, e.Type, &form{}, testTime())
	require.Equal(t, []string{"3", "false", "true"}, []string{h.Get("Sallyport-Attempt"), h.Get("Sallyport-Will-Retry"),
		h.Get("Sallyport-Replay")})
	require.NotContains(t, h, "Content-Type")
	for name := range h {
		require.Equal(t, http.CanonicalHeaderKey(name), name, "the transport looks names up in this form")
	}
}

// The envelope holds JSON as it came, byte for byte, and other bodies as text or base64; raw is the body itself.
func TestBody(t *testing.T) {
	t.Parallel()
	e, _, _ := forwarded()
	const head = `{"type":"issues.opened","timestamp":"2025-06-15T12:00:00.120Z",` +
		`"id":"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11",` +
		`"provider":"github","provider_config_key":"github-eu","connection_id":"acme",` +
		`"headers":{"x-github-event":"issues"},"data":`
	for _, c := range []struct {
		body     string
		encoding events.Encoding
		data     string
	}{
		{`{"b" : 1.0, "a":12345678901234567890,"a":"<é>"}`, events.JSON, `{"b" : 1.0, "a":12345678901234567890,"a":"<é>"}`},
		{`null`, events.JSON, `null`},
		{"a=b&c", events.Text, `{"text":"a=b\u0026c"}`},
		{"", events.Text, `{"text":""}`},
		{"\xff\x00", events.Base64, `{"base64":"/wA="}`},
	} {
		p := &events.Payload{Headers: `{"x-github-event":"issues"}`, Body: []byte(c.body), Encoding: c.encoding}
		got, err := buildForm(subscriptions.Envelope, e.Type, e, p)
		require.NoError(t, err)
		require.Equal(t, head+c.data+"}", string(got.body))
		require.Equal(t, "application/json", got.contentType)
		require.True(t, json.Valid(got.body))
		got, err = buildForm(subscriptions.Raw, e.Type, e, p)
		require.NoError(t, err)
		require.Equal(t, c.body, string(got.body))
		require.Equal(t, e.ContentType, got.contentType)
	}
}

// The stored excerpts of a request and a response hold no signature, no cookie and none of the subscription's own
// values, are valid JSON for any response, and are bounded.
func TestStoredHeaders(t *testing.T) {
	t.Parallel()
	read := func(text string) map[string]string {
		var m map[string]string
		require.NoError(t, json.Unmarshal([]byte(text), &m), text)
		return m
	}
	custom := []subscriptions.Header{{Name: "x-token", Value: "s3cret"}}
	require.Equal(t, map[string]string{"webhook-signature": secretbox.Redacted, "x-token": secretbox.Redacted,
		"webhook-id": "1"}, read(storedRequestHeaders(http.Header{"Webhook-Signature": {"v1,x"}, "X-Token": {"s3cret"},
		"Webhook-Id": {"1"}}, custom, nil)))
	answer := http.Header{"Set-Cookie": {"a"}, "Www-Authenticate": {"b"}, "Proxy-Authenticate": {"c"}, "Via": {"x", "y"},
		"X-Odd": {"\xff\"\\\x01é"}}
	require.Equal(t, map[string]string{"set-cookie": secretbox.Redacted, "www-authenticate": secretbox.Redacted,
		"proxy-authenticate": secretbox.Redacted, "via": "x, y", "x-odd": "\ufffd\"\\\x01é"},
		read(storedResponseHeaders(answer)))
	large := storedResponseHeaders(http.Header{"A": {strings.Repeat("a", maxStoredHeaders)}, "B": {"b"}})
	require.Equal(t, map[string]string{"b": "b"}, read(large))
}

// While a replaced secret signs alongside the new one, a receiver with either verifies, and the new signature comes
// first. When the replaced one expires, there is one signature again.
func TestReplacedSecretsSignAlongside(t *testing.T) {
	t.Parallel()
	e, d, target := forwarded()
	older, old := []byte("older456789abcdef01234567"), []byte("old23456789abcdef01234567")
	target.Retiring = []subscriptions.RetiringKey{{Key: old, Until: testTime().Add(time.Second)},
		{Key: older, Until: testTime()}}
	at := func(now time.Time) http.Header {
		return buildHeaders(target, d, e, e.Type, &form{body: []byte("x")}, now)
	}
	require.Equal(t, Sign(target.SigningKey, e.UUID, testTime().Unix(), []byte("x"))+" "+
		Sign(old, e.UUID, testTime().Unix(), []byte("x")), at(testTime()).Get("Webhook-Signature"))
	for _, key := range [][]byte{target.SigningKey, old} {
		verifier, err := standardwebhooks.NewWebhookRaw(key)
		require.NoError(t, err)
		require.NoError(t, verifier.VerifyIgnoringTimestamp([]byte("x"), at(testTime())))
	}
	after := at(testTime().Add(time.Second))
	require.NotContains(t, after.Get("Webhook-Signature"), " ")
	verifier, err := standardwebhooks.NewWebhookRaw(old)
	require.NoError(t, err)
	require.Error(t, verifier.VerifyIgnoringTimestamp([]byte("x"), after))
}
