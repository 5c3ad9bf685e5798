package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A webhook made by Attio's documentation ("Authenticating": the hexadecimal HMAC-SHA256 of the body, with the secret
// and the event of its examples; computed with Node.js) verifies. The key that identifies a message is not signed.
func TestAttio(t *testing.T) {
	t.Parallel()
	const (
		secret    = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
		signature = "92340155fe427bf082e0edb4c44e34c04435dc117df52045c2f4c676fbdf7a5f"
		key       = "8b2a9c1e-6d2f-4f0a-9b52-0c1d2e3f4a5b"
		body      = `{"webhook_id":"23e42eaf-323a-41da-b5bb-fd67eebda553","events":[{"event_type":"note.created","id":` +
			`{"workspace_id":"14beef7a-99f7-4534-a87e-70b564330a4c","note_id":"a649e4d9-435c-43fb-83ba-847b4876f27a"},` +
			`"parent_object_id":"97052eb9-e65e-443f-a297-f2d9a4a7f795","parent_record_id":"bf071e1f-6035-429d-b874-d83ea64ea13b",` +
			`"actor":{"type":"workspace-member","id":"50cf242c-7fa3-4cad-87d0-75b1af71c57b"}}]}`
	)
	at := time.Unix(1772600767, 0)
	r := deliver(at, body, "Attio-Signature", signature, "X-Attio-Signature", signature, "Idempotency-Key", key)
	vector{
		slug: "attio", secret: secret, request: r, at: "header:Attio-Signature", text: signature, encoding: "hex",
		signed: []string{"body"}, outside: []string{"header:Idempotency-Key"},
	}.check(t)
	v := connect(t, "attio", nil, secret)
	require.Equal(t, []string{"note.created"}, describe(t, v, r).Types)
	require.Equal(t, key, describe(t, v, r).ID)
	require.False(t, describe(t, v, r).IDSigned)
	require.True(t, describe(t, v, r).TypeSigned)
	require.Equal(t, []string{"attio-signature", "x-attio-signature"}, v.RedactHeaders())
	requireReason(t, v, deliver(at, body, "X-Attio-Signature", signature), verification.ReasonSignatureMissing)
}
