package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The first signature is that of src/__tests__/utils.test.ts in Meta's WhatsApp SDK for Node.js, with the secret of its
// jest.config.ts; the second was made by its generateXHub256Sig(body, secret).
const (
	metaSDKSecret    = "TEST_APP_SECRET"
	metaSDKSignature = "0c61947b610d4f45e65f3d680e26027121ec2413e77598bcb6cfc6e0d9888221" // of the body "test"

	metaSecret    = "0123456789abcdef0123456789abcdef"
	metaSignature = "d2f0d3f46bd1232c4ef604eadb955fb72ba6d01ee05dda2da7a25880b2d00eaa"
	metaBody      = `{"object":"whatsapp_business_account","entry":[{"id":"102290129340398","changes":[{"value":{"messaging_product":"whatsapp",` +
		`"messages":[{"from":"16315551181","id":"wamid.HBgL","timestamp":"1669233778","text":{"body":"caf\u00e9 \u00e4\u00f6\u00e5"},"type":"text"}]},"field":"messages"}]}]}`
)

func metaSettings() verification.Settings {
	return verification.Settings{Params: map[string]string{"verify_token": "a-made-up-text"}}
}

// Only a webhook that Meta's SDK signed verifies, in the bytes that arrive, escapes included.
func TestMetaVector(t *testing.T) {
	t.Parallel()
	at := time.Unix(1669233780, 0)
	vector{
		slug: "meta", settings: metaSettings(), secret: metaSecret, request: deliver(at, metaBody, "X-Hub-Signature-256",
			"sha256="+metaSignature),
		at: "header:X-Hub-Signature-256", label: "sha256=", text: metaSignature, encoding: "hex", signed: []string{"body"},
	}.check(t)
	v := connectWith(t, "meta", metaSettings(), metaSDKSecret)
	requireProved(t, v, deliver(at, "test", "X-Hub-Signature-256", "sha256="+metaSDKSignature), "hmac", "0")
	requireReason(t, v, deliver(at, "test", "X-Hub-Signature", "sha256="+metaSDKSignature),
		verification.ReasonSignatureMissing)
	require.Equal(t, []string{"x-hub-signature", "x-hub-signature-256"}, v.RedactHeaders())
}

// A delivery has the types of all its changes and messages, of any product.
func TestMetaEvents(t *testing.T) {
	t.Parallel()
	v := connectWith(t, "meta", metaSettings(), metaSecret)
	for body, want := range map[string][]string{
		metaBody: {"whatsapp_business_account.messages"},
		`{"object":"instagram","entry":[{"id":"1","changes":[{"field":"comments","value":{}},{"field":"mentions","value":{}}]},{"id":"2","changes":[{"field":"comments"}]}]}`: {
			"instagram.comments", "instagram.mentions"},
		`{"object":"page","entry":[{"id":"1","messaging":[{"sender":{"id":"5"},"message":{"mid":"m"}}]},{"id":"2","changes":[{"field":"feed"}]},` +
			`{"id":"3","messaging":[{"sender":{},"read":{"watermark":1}},{"something":{}}]},{"id":"4","standby":[{"postback":{}}]}]}`: {
			"page.feed", "page.message", "page.read", "page.unknown", "page.postback"},
		// As the pages of Meta's reference show them.
		`{"object":"page","entry":[{"id":"1","messaging":[{"timestamp":1458668856463,"reaction":{"reaction":"love","action":"react","mid":"m"}},` +
			`{"account_linking":{"status":"unlinked"}},{"policy_enforcement":{"action":"unblock"}},{"take_thread_control":{"previous_owner_app_id":"1"}},` +
			`{"app_roles":{"123456789":["primary_receiver"]}}]}]}`: {
			"page.reaction", "page.account_linking", "page.policy_enforcement", "page.take_thread_control", "page.app_roles"},
		`{"object":"user","entry":[{"id":"1","uid":"1","time":1,"changed_fields":["photos","feed"]}]}`: {"user.photos",
			"user.feed"},
	} {
		event := describe(t, v, deliver(time.Time{}, body))
		require.Equal(t, want, event.Types)
		require.True(t, event.TypeSigned)
		require.Empty(t, event.ID)
	}
	requireDescribed(t, v, deliver(time.Time{}, `{"object":"page","entry":[]}`), verification.Event{Type: "page",
		TypeSigned: true})
}

// A subscription is confirmed only to a caller that knows the connection's verify token. Without one there is no
// connection.
func TestMetaSubscription(t *testing.T) {
	t.Parallel()
	v := connectWith(t, "meta", metaSettings(), metaSecret)
	get := func(query string) *verification.Request { return at(deliver(time.Time{}, ""), "GET", query) }
	requireHandshakeText(t, v, get("hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=a-made-up-text"), 200,
		"text/plain; charset=utf-8", "1158201444")
	requireHandshakeRefused(t, v, get("hub.mode=subscribe&hub.verify_token=a-made-up-text"),
		verification.ReasonHandshakeMalformed)
	for _, query := range []string{
		"hub.mode=subscribe&hub.challenge=1&hub.verify_token=another-text", "hub.mode=subscribe&hub.challenge=1",
		"hub.mode=subscribe&hub.challenge=1&hub.verify_token=a-made-up-tex",
		"hub.mode=subscribe&hub.challenge=1&hub.verify_token=a-made-up-text&hub.verify_token=a-made-up-text",
	} {
		requireHandshakeRefused(t, v, get(query), verification.ReasonHandshakeRefused)
	}
	for _, query := range []string{
		"hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=a-made-up-text",
		"hub.challenge=1&hub.verify_token=a-made-up-text",
	} {
		requireNoHandshake(t, v, get(query))
	}
	requireNoHandshake(t, v, at(deliver(time.Time{}, metaBody), "POST",
		"hub.mode=subscribe&hub.challenge=1&hub.verify_token=a-made-up-text"))
}
