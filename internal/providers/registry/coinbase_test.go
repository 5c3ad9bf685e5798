package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A delivery that Coinbase's npm package signed and accepted (coinbase-commerce-node 1.0.4, Webhook.computeSignature
// and Webhook.verifyEventBody) verifies, and the event's id is not that of the attempt.
func TestCoinbaseVector(t *testing.T) {
	t.Parallel()
	const (
		secret    = "f0c7a1e2-1d34-4b7a-9d7a-0c9b5d1c2e3f"
		signature = "56d37ab41a004c533a37c57d3187a53a37b5fb17325200b4f51bb4fd984388fa"
		body      = `{"id":1,"scheduled_for":"2017-01-31T20:50:02Z","attempt_number":1,"event":{"id":"24934862-d980-46cb-9402-43c81b0cdba6",` +
			`"resource":"event","type":"charge:created","api_version":"2018-03-22","created_at":"2017-01-31T20:49:02Z","data":{"code":"66BEOV2A"}}}`
	)
	r := deliver(time.Unix(1485895802, 0), body, "X-Cc-Webhook-Signature", signature)
	vector{
		slug: "coinbase", secret: secret, request: r, at: "header:X-Cc-Webhook-Signature", text: signature, encoding: "hex",
		signed: []string{"body"},
	}.check(t)
	v := connect(t, "coinbase", nil, secret)
	requireDescribed(t, v, r, verification.Event{
		Type: "charge.created", TypeSigned: true, ID: "24934862-d980-46cb-9402-43c81b0cdba6", IDSigned: true,
		OccurredAt: time.Date(2017, 1, 31, 20, 49, 2, 0, time.UTC),
	})
	require.Equal(t, []string{"x-cc-webhook-signature"}, v.RedactHeaders())
}
