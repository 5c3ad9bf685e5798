package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The comment of the SDK's own tests, with a signature that LinearWebhookClient of @linear/sdk 98.0.0 accepts
// (verify, and a handler of createHandler, at the moment of webhookTimestamp), verifies here, within a minute either
// way.
func TestLinearVector(t *testing.T) {
	t.Parallel()
	const (
		secret    = "SECRETSECRET"
		signature = "706ba76919ec0afc587cfa4e3755b54d11838273e4b711a87125d464c4ea5ca3"
		body      = `{"action":"create","data":{"id":"2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9","createdAt":"2020-01-23T12:53:18.084Z",` +
			`"updatedAt":"2020-01-23T12:53:18.084Z","archivedAt":null,"body":"Indeed, I think this is definitely an improvement over the ` +
			`previous version.","edited":false,"issueId":"539068e2-ae88-4d09-bd75-22eb4a59612f","userId":"aacdca22-6266-4c0a-ab3c-8fa70a26765c"},` +
			`"type":"Comment","url":"https://linear.app/issue/LIN-1778/foo-bar#comment-77217de3-fb52-4dad-bb9a-b356beb93de8",` +
			`"createdAt":"2020-01-23T12:53:18.084Z","webhookTimestamp":1772600767123}`
	)
	r := deliver(time.UnixMilli(1772600767123), body, "Linear-Signature", signature, "Linear-Delivery",
		"234d1a4e-b617-4388-90fe-adc3633d6b72", "Linear-Event", "Comment", "Linear-Timestamp", "1772600767123")
	vector{
		slug: "linear", secret: secret, request: r, at: "header:Linear-Signature", text: signature, encoding: "hex",
		signed: []string{"body"}, outside: []string{"header:Linear-Delivery", "header:Linear-Event",
			"header:Linear-Timestamp"},
		maxAge: time.Minute, maxSkew: time.Minute,
	}.check(t)
	require.Equal(t, verification.Event{
		Type: "Comment.create", TypeSigned: true, ID: "234d1a4e-b617-4388-90fe-adc3633d6b72",
		IDSource: "header:linear-delivery", OccurredAt: time.Date(2020, 1, 23, 12, 53, 18, 84_000_000, time.UTC),
	}, describe(t, connect(t, "linear", nil, secret), r))
}

// The time that counts is the signed one in the body. The header, which a replay can renew, is no substitute.
func TestLinearTimestamp(t *testing.T) {
	t.Parallel()
	v := connect(t, "linear", nil, "the secret")
	now := time.UnixMilli(1772600767123)
	send := func(body string) *verification.Request {
		return deliver(now, body, "Linear-Signature", hmacHex("the secret", body), "Linear-Timestamp", "1772600767123")
	}
	good := `{"type":"Issue","action":"update","webhookTimestamp":1772600767123}`
	requireProved(t, v, send(good), "hmac", "0")
	requireReason(t, v, send(`{"type":"Issue","action":"update"}`), verification.ReasonTimestampMissing)
	for _, old := range []string{"1772600707122", "1772600827124"} {
		requireReason(t, v, send(strings.Replace(good, "1772600767123", old, 1)), verification.ReasonTimestampOutOfRange)
	}
	for _, bad := range []string{"1772600767", `"yesterday"`, "-1772600767123", "1772600767123.5", "17726007671230"} {
		requireReason(t, v, send(strings.Replace(good, "1772600767123", bad, 1)), verification.ReasonTimestampMalformed)
	}
	require.Equal(t, "Issue", describe(t, v, send(`{"type":"Issue"}`)).Type)
}
