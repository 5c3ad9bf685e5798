package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A delivery made by Atlassian's documentation ("Secure admin webhooks": sha256= and the HMAC-SHA256 of the body in
// hexadecimal; computed with openssl dgst) verifies. The header with the id of the webhook is known not to be signed.
func TestJira(t *testing.T) {
	t.Parallel()
	const (
		secret    = "a jira secret of 32 characters.."
		signature = "6f6a21a01b951530a8dd9917901ced70f0c42d3cec7050e65ded5dd555bc69e6"
		body      = `{"timestamp":1772600767890,"webhookEvent":"jira:issue_updated","issue_event_type_name":"issue_generic",` +
			`"issue":{"id":"10002","key":"PROJ-123"}}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "X-Hub-Signature", "sha256="+signature,
		"X-Atlassian-Webhook-Identifier", "e6b7f9a0-4a4c-4b4a-9d8c-1f2e3d4c5b6a")
	vector{
		slug: "jira", secret: secret, request: r, at: "header:X-Hub-Signature", label: "sha256=", text: signature,
		encoding: "hex", signed: []string{"body"}, outside: []string{"header:X-Atlassian-Webhook-Identifier"},
	}.check(t)
	v := connect(t, "jira", nil, secret)
	requireDescribed(t, v, r, verification.Event{Type: "jira.issue_updated", TypeSigned: true,
		ID: "e6b7f9a0-4a4c-4b4a-9d8c-1f2e3d4c5b6a", OccurredAt: time.UnixMilli(1772600767890).UTC()})
	requireReason(t, v, deliver(r.Now, body, "X-Hub-Signature", "sha1="+signature[:40]),
		verification.ReasonSignatureMalformed)
	require.Equal(t, "comment_created", describe(t, v, deliver(r.Now, `{"webhookEvent":"comment_created"}`)).Type)
	require.Equal(t, []string{"x-hub-signature"}, v.RedactHeaders())
}
