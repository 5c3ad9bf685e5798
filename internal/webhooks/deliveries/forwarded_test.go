package deliveries

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// Of the provider's headers receivers get all but those about the connection, those that proxies add, credentials,
// those that change a request for some servers, and the names that the gateway sets, in any form that CGI shows alike.
func TestWhatIsForwarded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"accept", "user-agent", "content-type", "content-encoding", "content-digest", "origin",
		"x-github-event", "x-hub-signature-256", "stripe-signature", "x-shopify-topic", "ce-id", "ce-specversion", "svix-id",
		"webhook-request-origin", "idempotency-key", "signature", "signature-input", "traceparent", "x-request-id",
		"x-vercel-signature", "x_custom", "x-sallyport", "iffy", "date", "x-event-key", "x-slack-retry-num",
		"x-gitlab-event-uuid", "i-twilio-idempotency-token", "x-home-region", "x-shopify-shop-domain"} {
		require.True(t, MayForward(name, "1"), name)
		require.False(t, MayForward(name, secretbox.Redacted), name)
	}
	for _, name := range []string{"connection", "te", "upgrade", "host", "content-length", "expect", "accept-encoding",
		"range", "if-match", "proxy-authorization", "cookie", "authorization", "api-key", "x-api-key", "x-auth-token",
		"forwarded", "via", "x-forwarded-for", "x-forwarded-user", "x-real-ip", "true-client-ip", "cf-connecting-ip",
		"cf-ray", "cdn-loop", "x-amzn-trace-id", "x-amzn-oidc-data", "x-auth-request-email", "x-client-cert", "client-cert",
		"x-http-method-override", "x-original-url", "remote-user", "webhook-id", "webhook-timestamp", "webhook-signature",
		"sallyport-event-type", "sallyport-anything", "x_forwarded_for", "webhook_signature", "sallyport.hops",
		"content_length", "user_agent", "content_type", "client-ip", "wl-proxy-client-ip", "x-cluster-client-ip",
		"fastly-client-ip", "x-forwarded", "forwarded-for", "x-original-forwarded-for", "x-originating-ip", "x-original-url",
		"x-user", "x-user-id", "x-method", "x-method-override", "x-http-method", "x-middleware-subrequest",
		"x-accel-redirect",
		"x-sendfile", "x-sendfile-type", "next-action", "x-nextjs-data", "max-forwards", "apikey", "authentication",
		"x-authorization", "private-token", "x-api-token", "dpop", "cookie2", "set-cookie", "api_key"} {
		require.False(t, MayForward(name, "1"), name)
	}
}

// The search for a prefix looks at one of them, which needs their order, and finds what a look at all finds.
func TestWithheldPrefixes(t *testing.T) {
	t.Parallel()
	require.True(t, slices.IsSorted(withheldPrefixes[:]))
	for i, prefix := range withheldPrefixes {
		require.Equal(t, subscriptions.PlainName(prefix), prefix)
		for _, other := range withheldPrefixes[i+1:] {
			require.False(t, strings.HasPrefix(other, prefix), other)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(withheldPrefixes[:]).Draw(rt, "prefix")
		name = name[:rapid.IntRange(0, len(name)).Draw(rt, "part")] + rapid.StringMatching("[a-z-]{0,2}").Draw(rt, "rest")
		require.Equal(rt, slices.ContainsFunc(withheldPrefixes[:], func(prefix string) bool {
			return strings.HasPrefix(name, prefix)
		}), isWithheld(name))
	})
}

// received are headers of a provider as an event stores them, of which the second is its signature.
func received() *events.Payload {
	return &events.Payload{Headers: `{"authorization":"[redacted]","content-type":"application/json","stripe-signature":` +
		`"[redacted]","user-agent":"Stripe/1.0","x-custom":"a, b","x-forwarded-for":"192.0.2.1","x-quote":"a\"b"}`,
		Signatures: `{"stripe-signature":"t=1,v1=ab"}`, Body: []byte("{}"), Encoding: events.JSON}
}

// A receiver of the raw webhook gets the provider's headers and its signature as they came. Headers of the subscription
// replace them, and both give way to the gateway's own.
func TestHeadersOfTheProvider(t *testing.T) {
	t.Parallel()
	e, d, target := forwarded()
	target.Headers = []subscriptions.Header{{Name: "X-Custom", Value: "mine"}, {Name: "X_Quote", Value: "mine too"}}
	f, err := buildForm(subscriptions.Raw, e.Type, e, received())
	require.NoError(t, err)
	h := buildHeaders(target, d, e, e.Type, &f, testTime())
	for name, values := range map[string][]string{"Stripe-Signature": {"t=1,v1=ab"}, "User-Agent": {"Stripe/1.0"},
		"X-Custom": {"mine"}, "X_quote": {"mine too"}, "X-Quote": nil, "Content-Type": {e.ContentType}, "Authorization": nil,
		"X-Forwarded-For": nil, "Webhook-Id": {e.UUID}} {
		require.Equal(t, values, h[name], name)
	}
	var recorded map[string]string
	require.NoError(t, json.Unmarshal([]byte(storedRequestHeaders(h, target.Headers, f.headers)), &recorded))
	require.Equal(t, secretbox.Redacted, recorded["stripe-signature"])
	require.Equal(t, secretbox.Redacted, recorded["x-custom"])
	require.Equal(t, "Stripe/1.0", recorded["user-agent"])

	target.Headers = nil
	h = buildHeaders(target, d, e, e.Type, &f, testTime())
	require.Equal(t, []string{"a, b"}, h["X-Custom"])
	require.Equal(t, []string{`a"b`}, h["X-Quote"])
	require.NotContains(t, storedRequestHeaders(h, nil, f.headers), "v1=ab")
}

// An envelope has the provider's headers, and neither its signature nor anything that is redacted.
func TestHeadersInTheEnvelope(t *testing.T) {
	t.Parallel()
	e, d, target := forwarded()
	f, err := buildForm(subscriptions.Envelope, e.Type, e, received())
	require.NoError(t, err)
	require.Contains(t, string(f.body), `"connection_id":"acme","headers":{"content-type":"application/json",`+
		`"user-agent":"Stripe/1.0","x-custom":"a, b","x-quote":"a\"b"},"data":{}}`)
	h := buildHeaders(target, d, e, e.Type, &f, testTime())
	require.Equal(t, "Sallyport", h.Get("User-Agent"))
	require.NotContains(t, h, "X-Custom")
}

// The headers of a raw webhook are bounded for any request of a provider, in Go's form, each there once, and signatures
// have the first claim.
func TestForwardedHeadersAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringMatching(`[a-z!_~.0-9-]{1,20}`)
		value := rapid.OneOf(rapid.StringMatching(`[ -~]{0,30}`), rapid.Map(rapid.IntRange(0, 8<<10), func(n int) string {
			return strings.Repeat("x", n)
		}))
		signature := strings.Repeat("s", rapid.IntRange(0, 7<<10).Draw(rt, "signature"))
		headers := rapid.MapOfN(name, value, 0, 90).Draw(rt, "headers")
		headers["x-signature"] = secretbox.Redacted
		p := &events.Payload{Headers: headersText(rt, headers),
			Signatures: headersText(rt, map[string]string{"x-signature": signature})}
		size, found := 0, false
		seen := map[string]bool{}
		list, _ := forwardedHeaders(p)
		for _, h := range list {
			size += len(h.lower) + len(h.value) + 4
			require.Equal(rt, http.CanonicalHeaderKey(h.lower), h.name)
			require.False(rt, seen[h.name])
			seen[h.name] = true
			if h.signature {
				found = true
				require.Equal(rt, signature, h.value)
				continue
			}
			require.Equal(rt, headers[h.lower], h.value)
			require.True(rt, MayForward(h.lower, h.value))
		}
		require.LessOrEqual(rt, size, maxForwardedBytes)
		require.LessOrEqual(rt, len(seen), maxForwarded)
		require.Equal(rt, len(signature)+len("x-signature")+4 <= maxForwardedBytes, found)
	})
}

// Headers that name the event are among those of a request with too many, wherever they are in the alphabet, and the
// receiver and the record of the attempt show how many were left out.
func TestHeadersOfTheEventComeFirst(t *testing.T) {
	t.Parallel()
	e, d, target := forwarded()
	headers := map[string]string{"x-topic": "orders/create", "x-signature": secretbox.Redacted}
	for i := range 70 {
		headers[fmt.Sprintf("a-%02d", i)] = "filler"
	}
	p := &events.Payload{Headers: headersText(t, headers), Body: []byte("{}"),
		Signatures: headersText(t, map[string]string{"x-signature": "s", "x-topic": "orders/create"})}
	f, err := buildForm(subscriptions.Raw, e.Type, e, p)
	require.NoError(t, err)
	h := buildHeaders(target, d, e, e.Type, &f, testTime())
	require.Equal(t, "orders/create", h.Get("X-Topic"))
	require.Equal(t, "s", h.Get("X-Signature"))
	require.Equal(t, "12", h.Get("Sallyport-Headers-Omitted"))
	stored := storedRequestHeaders(h, nil, f.headers)
	require.Contains(t, stored, `"sallyport-headers-omitted":"12"`)
	require.Contains(t, stored, `"x-topic":"orders/create"`)
	require.Contains(t, stored, `"x-signature":"[redacted]"`)
}

// A batch arrives under the type that the subscription's patterns match, in the envelope and in the header, whether its
// body is small or is shared with other subscriptions.
func TestTypeOfABatch(t *testing.T) {
	t.Parallel()
	e, d, target := forwarded()
	e.Types = []string{"task.changed", "story.added", "story.removed"}
	e.Type = e.Types[0]
	target.TypeOf = func(_ string, types []string) string { return types[1] }
	p := received()
	require.Equal(t, "story.added", typeFor(target, e))
	f, err := buildForm(subscriptions.Envelope, typeFor(target, e), e, p)
	require.NoError(t, err)
	require.Contains(t, string(f.body),
		`{"type":"story.added","types":["task.changed","story.added","story.removed"],"timestamp":`)
	h := buildHeaders(target, d, e, typeFor(target, e), &f, testTime())
	require.Equal(t, "story.added", h.Get("Sallyport-Event-Type"))

	shared, err := buildShared(subscriptions.Envelope, e, p)
	require.NoError(t, err)
	other := shared.under(subscriptions.Envelope, "task.changed", e)
	shared = shared.under(subscriptions.Envelope, typeFor(target, e), e)
	require.NotEqual(t, string(other.head), string(shared.head))
	require.Same(t, &other.body[0], &shared.body[0], "it is in memory once")
	require.Equal(t, h, buildHeaders(target, d, e, "story.added", &shared, testTime()), "the signature covers both parts")
}
