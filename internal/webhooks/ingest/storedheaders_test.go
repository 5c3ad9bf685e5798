package ingest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// Of a request's headers, those about one connection are not stored, also those that its Connection field names, and
// credentials and signatures are not shown. The signatures that a receiver may verify are kept apart as they came.
func TestStoredHeaders(t *testing.T) {
	t.Parallel()
	h := http.Header{"Connection": {"close, X-Hop", "keep-alive,te , x-other"}, "X-Hop": {"1"}, "X-Other": {"1"},
		"Te": {"trailers"}, "Authorization": {"Bearer s3cret"}, "X-Auth-Token": {"s3cret"}, "X-Sig": {`a"=`},
		"X-Sig-2": {"b"}, "X-Old-Sig": {"c"}, "X-List": {"1", "2"}, "Close": {"is a header too"}}
	shown, signed := storedHeaders(h, &headerRules{secret: []string{"x-old-sig", "x-sig", "x-sig-2"},
		signatures: []string{"x-sig", "x-sig-2"}})
	require.JSONEq(t, `{"authorization":"[redacted]","close":"is a header too","x-auth-token":"[redacted]","x-list":"1, 2",
		"x-old-sig":"[redacted]","x-sig":"[redacted]","x-sig-2":"[redacted]"}`, shown)
	require.JSONEq(t, `{"x-sig":"a\"=","x-sig-2":"b"}`, signed)
	_, signed = storedHeaders(h, &headerRules{secret: []string{"x-old-sig"}})
	require.Empty(t, signed)
}

// inboundOf is a connection of a built-in provider.
func inboundOf(t *testing.T, slug string, params map[string]string) *connections.Inbound {
	t.Helper()
	builtin, err := registry.Builtin()
	require.NoError(t, err)
	p, known := builtin.Get(slug)
	require.True(t, known)
	v, err := p.Webhooks.Bind(verification.Settings{Params: params})
	require.NoError(t, err)
	return &connections.Inbound{Provider: p, Verifier: v}
}

// shownOf returns what an event shows of a webhook's headers, and the provider's signatures.
func shownOf(t *testing.T, in *connections.Inbound, h http.Header, encoding events.Encoding) (shown,
	signed map[string]string) {
	t.Helper()
	rules := rulesFor(in, in.Verifier.SignatureHeaders(), encoding)
	text, signatures := storedHeaders(h, rules)
	require.NoError(t, json.Unmarshal([]byte(text), &shown))
	if signatures != "" {
		require.NoError(t, json.Unmarshal([]byte(signatures), &signed))
	}
	return shown, signed
}

func headersOf(names ...string) http.Header {
	h := http.Header{}
	for _, name := range names {
		h.Set(name, "1")
	}
	return h
}

// The headers that providers send reach receivers, regardless of what their names resemble: those that the definition
// reads are neither credentials nor foreign to it.
func TestHeadersThatProvidersSend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slug   string
		params map[string]string
		names  []string
	}{
		{"github", nil, []string{"X-GitHub-Event", "X-GitHub-Delivery", "X-GitHub-Hook-Id", "X-Hub-Signature-256",
			"X-GitHub-Hook-Installation-Target-Id", "X-GitHub-Hook-Installation-Target-Type", "User-Agent", "Accept"}},
		{"shopify", nil, []string{"X-Shopify-Topic", "X-Shopify-Hmac-Sha256", "X-Shopify-Shop-Domain",
			"X-Shopify-Api-Version", "X-Shopify-Webhook-Id", "X-Shopify-Triggered-At", "X-Shopify-Event-Id"}},
		{"stripe", nil, []string{"Stripe-Signature", "User-Agent", "Cache-Control"}},
		{"slack", nil, []string{"X-Slack-Request-Timestamp", "X-Slack-Signature", "X-Slack-Retry-Num",
			"X-Slack-Retry-Reason"}},
		{"gitlab", nil, []string{"X-Gitlab-Event", "X-Gitlab-Event-Uuid", "X-Gitlab-Webhook-Uuid", "X-Gitlab-Instance",
			"Idempotency-Key"}},
		{"bitbucket", nil, []string{"X-Event-Key", "X-Hook-Uuid", "X-Request-Uuid", "X-Attempt-Number"}},
		{"twilio", nil, []string{"X-Twilio-Signature", "I-Twilio-Idempotency-Token", "X-Home-Region"}},
		{"svix", nil, []string{"Svix-Id", "Svix-Timestamp", "Svix-Signature"}},
		{"cloudevents", nil, []string{"Ce-Id", "Ce-Source", "Ce-Type", "Ce-Specversion", "Ce-Subject", "Ce-Comexampleext"}},
		{"generic-hmac", nil, []string{"Ce-Id", "Ce-Type", "X-Acme-Event"}},
		{"generic-hmac", map[string]string{"event_id_header": "X-Acme-Event-Token"}, []string{"X-Acme-Event-Token"}},
		{"linear", nil, []string{"Linear-Delivery", "Linear-Event", "Linear-Signature", "Linear-Timestamp"}},
	} {
		shown, signed := shownOf(t, inboundOf(t, c.slug, c.params), headersOf(c.names...), events.JSON)
		for _, name := range c.names {
			lower := strings.ToLower(name)
			value, signature := signed[lower]
			if !signature {
				value = shown[lower]
			}
			require.Equal(t, "1", value, "%s: %s", c.slug, name)
			require.True(t, deliveries.MayForward(lower, value), "%s: %s", c.slug, name)
		}
	}
}

// Credentials are not shown and reach no receiver, also under names that no list has, unless the definition reads the
// header.
func TestCredentialsAreRedacted(t *testing.T) {
	t.Parallel()
	names := []string{"Authorization", "Authentication", "X-Authorization", "X-Forwarded-Authorization", "Apikey",
		"Api-Key", "Api_Key", "X-Api-Key", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key", "X-Functions-Key", "X-Auth-Key",
		"X-Aws-Access-Key", "Private-Token", "X-Vault-Token", "X-Api-Token", "X-Csrf-Token", "X-Shopify-Access-Token",
		"X-Github-Token", "X-Amz-Security-Token", "X-Gitlab-Token", "Token", "Dpop", "Cookie", "Cookie2", "Set-Cookie",
		"X-Webhook-Secret", "X-Password", "X_Vault_Token", "X.vault.token"}
	for _, slug := range []string{"github", "gitlab", "generic-token"} {
		shown, signed := shownOf(t, inboundOf(t, slug, nil), headersOf(names...), events.JSON)
		require.Empty(t, signed)
		for _, name := range names {
			lower := strings.ToLower(name)
			if plain := strings.NewReplacer("_", "-", ".", "-").Replace(lower); plain != lower &&
				shown[plain] == secretbox.Redacted {
				continue // the form with a hyphen is there
			}
			require.Equal(t, secretbox.Redacted, shown[lower], "%s: %s", slug, name)
		}
	}
}

// Headers of a standard that the provider does not follow, a second form of a header, and a coding of a body that has
// none are not stored: libraries would believe them.
func TestHeadersThatMislead(t *testing.T) {
	t.Parallel()
	in := inboundOf(t, "github", nil)
	h := headersOf("Svix-Id", "Svix-Signature", "Ce-Type", "Ce-Id", "Content-Encoding", "X_github_event", "X.github.event",
		"X-Github-Event", "X_custom", "Content-Type", "Content_type")
	shown, _ := shownOf(t, in, h, events.JSON)
	require.Equal(t, map[string]string{"x-github-event": "1", "x_custom": "1", "content-type": "1"}, shown)
	shown, _ = shownOf(t, in, headersOf("Content-Encoding"), events.Base64)
	require.Equal(t, map[string]string{"content-encoding": "1"}, shown, "the body may be coded")
	shown, _ = shownOf(t, inboundOf(t, "svix", nil), headersOf("Svix-Id", "Svix-Play"), events.JSON)
	require.Len(t, shown, 2)
}

// Connection takes away no header that the definition reads: anyone who replays a webhook can add it.
func TestConnectionTakesNothingThatIsRead(t *testing.T) {
	t.Parallel()
	h := headersOf("X-Github-Event", "X-Github-Delivery", "X-Hub-Signature-256", "X-Hop")
	h.Set("Connection", "close, X-GitHub-Event, x-github-delivery, X-Hub-Signature-256, X-Hop")
	shown, signed := shownOf(t, inboundOf(t, "github", nil), h, events.JSON)
	require.Equal(t, map[string]string{"x-github-event": "1", "x-github-delivery": "1",
		"x-hub-signature-256": secretbox.Redacted}, shown)
	require.Equal(t, map[string]string{"x-hub-signature-256": "1"}, signed)
}
