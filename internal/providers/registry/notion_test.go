package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The example of Notion's documentation, "Webhooks": the request by which a subscription is verified, whose token is
// the secret from then on, and the signature of that same body.
const (
	notionToken     = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl"
	notionHandshake = `{"verification_token":"` + notionToken + `"}`
)

// The signature that Notion's documentation shows verifies.
func TestNotionVector(t *testing.T) {
	t.Parallel()
	const signature = "461e8cbcba8a75c3edd866f0e71280f5a85cbf21eff040ebd10fe266df38a735"
	vector{
		slug: "notion", secret: notionToken, request: deliver(time.Unix(1772600767, 0), notionHandshake, "X-Notion-Signature",
			"sha256="+signature),
		at: "header:X-Notion-Signature", label: "sha256=", text: signature, encoding: "hex", signed: []string{"body"},
		bodyDecides: true,
	}.check(t)
}

// The page.created event of the documentation, signed by signWebhookPayload of @notionhq/client 5.26.0,
// verifies and is described by its own type, id and time.
func TestNotionEvent(t *testing.T) {
	t.Parallel()
	const body = `{"id":"367cba44-b6f3-4c92-81e7-6a2e9659efd4","timestamp":"2024-12-05T23:55:34.285Z","workspace_id":` +
		`"13950b26-c203-4f3b-b97d-93ec06319565","workspace_name":"Quantify Labs","subscription_id":"29d75c0d-5546-4414-8459-7b7a92f1fc4b",` +
		`"integration_id":"0ef2e755-4912-8096-91c1-00376a88a5ca","type":"page.created","authors":[{"id":"c7c11cca-1d73-471d-9b6e-bdef51470190",` +
		`"type":"person"}],"accessible_by":[{"id":"556a1abf-4f08-40c6-878a-75890d2a88ba","type":"person"},{"id":` +
		`"1edc05f6-2702-81b5-8408-00279347f034","type":"bot"}],"attempt_number":1,"entity":{"id":"153104cd-477e-809d-8dc4-ff2d96ae3090",` +
		`"type":"page"},"data":{"parent":{"id":"36cc9195-760f-4fff-a67e-3a46c559b176","type":"space"}}}`
	v := connect(t, "notion", nil, notionToken)
	r := deliver(time.Time{}, body, "X-Notion-Signature",
		"sha256=05f2059b223fac65688a18448e7bb3aeb1c633d97ae57cabbf2173e65f1c2be9")
	requireProved(t, v, r, "hmac", "0")
	requireNoHandshake(t, v, r)
	require.Equal(t, verification.Event{
		Type: "page.created", TypeSigned: true, ID: "367cba44-b6f3-4c92-81e7-6a2e9659efd4", IDSource: "json:/id",
		IDSigned: true, OccurredAt: time.Date(2024, 12, 5, 23, 55, 34, 285_000_000, time.UTC),
	}, describe(t, v, r))
}

// Notion's verification token is handed over as a secret that the operator has yet to confirm, before there is
// any secret, and it appears in no response.
func TestNotionHandshake(t *testing.T) {
	t.Parallel()
	v := connect(t, "notion", nil)
	require.Equal(t, []string{"POST"}, v.HandshakeMethods())
	answer := requireHandshakeText(t, v, at(deliver(time.Time{}, notionHandshake), "POST", ""), 200, "", "")
	require.Equal(t, notionToken, answer.Capture.Value.Reveal())
	require.True(t, answer.Capture.Confirm)
	require.Equal(t, `{"verification_token":"[redacted]"}`, string(v.RedactBody(deliver(time.Time{}, notionHandshake))),
		"a refused handshake is noted")
	for _, body := range []string{`{}`, `{"verification_token":""}`, `{"verification_token":null}`,
		`{"verification_token":["a"]}`, `{"verification_token"`, ``} {
		requireNoHandshake(t, v, at(deliver(time.Time{}, body), "POST", ""))
	}
	requireNoHandshake(t, v, at(deliver(time.Time{}, notionHandshake), "GET", ""))
	long := `{"verification_token":"` + strings.Repeat("a", 5000) + `"}`
	requireHandshakeRefused(t, v, at(deliver(time.Time{}, long), "POST", ""), verification.ReasonHandshakeMalformed)
}
