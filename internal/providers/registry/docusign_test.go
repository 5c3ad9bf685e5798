package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// Signatures as computeHash of Docusign's code example makes them for this body and these two keys
// (docusign/code-examples-node, lib/connect/examples/validateWebhookMessage.js). The body ends in a line break, which
// is signed too.
const (
	docusignKey       = "qBHLKMdK5wUYyRQbVVIU/1mXe2gAXyQsK2XbFA0zJ3o="
	docusignSignature = "8KQQBD89HfumpXrGIIF6D+PDZhqHlsY+3FV+iBnMCM4="
	docusignNewKey    = "0TZdUQmFtJhNqf7ITGZ6Wfl2VG0uRm9fV3g1w5XhNYI="
	docusignNew       = "mfwUvcNpiIG0BB6PKsppRpkbG8tcCW119fBj+fzPLxM="
	docusignBody      = `{"event":"envelope-completed","apiVersion":"v2.1","uri":"/restapi/v2.1/accounts/0f0c8dd0-6f2c-4b3a-8e2a-1d3b5c7e9f10/envelopes/` +
		`4bd6f7c1-9f4a-4c2e-8a11-0d1c2b3a4e5f","retryCount":0,"configurationId":10101010,"generatedDateTime":"2026-03-04T05:06:07.1234567Z",` +
		`"data":{"accountId":"0f0c8dd0-6f2c-4b3a-8e2a-1d3b5c7e9f10","userId":"5c0e9f10-1d3b-4b3a-8e2a-6f2c0f0c8dd0",` +
		`"envelopeId":"4bd6f7c1-9f4a-4c2e-8a11-0d1c2b3a4e5f"}}` + "\r\n"
)

func docusignDelivery(pairs ...string) *verification.Request {
	return deliver(time.Unix(1772600767, 0), docusignBody, pairs...)
}

// A message with one signature verifies with its key, and neither with another nor changed.
func TestDocusignVector(t *testing.T) {
	t.Parallel()
	r := docusignDelivery("X-Docusign-Signature-1", docusignSignature)
	vector{
		slug: "docusign", secret: docusignKey, request: r, at: "header:X-Docusign-Signature-1", text: docusignSignature,
		encoding: "base64", signed: []string{"body"},
	}.check(t)
	v := connect(t, "docusign", nil, docusignKey)
	requireDescribed(t, v, r, verification.Event{Type: "envelope-completed", TypeSigned: true,
		OccurredAt: time.Date(2026, 3, 4, 5, 6, 7, 123_456_700, time.UTC)})
}

// Docusign signs with each of its keys, and one that the connection knows is enough. Headers beyond a gap do not
// count.
func TestDocusignRotation(t *testing.T) {
	t.Parallel()
	both := docusignDelivery("X-Docusign-Signature-1", docusignSignature, "X-Docusign-Signature-2", docusignNew)
	requireProved(t, connect(t, "docusign", nil, docusignKey), both, "hmac", "0")
	requireProved(t, connect(t, "docusign", nil, docusignNewKey), both, "hmac", "0")
	requireReason(t, connect(t, "docusign", nil, "another secret"), both, verification.ReasonSignatureMismatch)
	v := connect(t, "docusign", nil, docusignNewKey)
	requireReason(t, v, docusignDelivery("X-Docusign-Signature-1", docusignSignature, "X-Docusign-Signature-3", docusignNew),
		verification.ReasonSignatureMismatch)
	requireReason(t, v, docusignDelivery("X-Docusign-Signature-2", docusignNew), verification.ReasonSignatureMissing)
	for _, name := range []string{"x-docusign-signature-1", "x-docusign-signature-2", "x-docusign-signature-100"} {
		require.Contains(t, v.RedactHeaders(), name)
	}
}
