package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A delivery that Box's npm package signed and accepted (box-node-sdk 10.12.0, computeWebhookSignature and
// WebhooksManager.validateMessage, with these two keys).
const (
	boxPrimary   = "ypciKKlSWDSQE7OlXgDvLmi7lMEJJaJe63MjREXK4Lw="
	boxSecondary = "+CMgN9lpbh51/HA0l4j9/tIWTHgTrx4W28/nfHnBUKo="
	boxBody      = `{"type":"webhook_event","id":"0f0c8dd0-6f2c-4b3a-8e2a-1d3b5c7e9f10","created_at":"2026-03-03T21:06:07-08:00",` +
		`"trigger":"FILE.UPLOADED","webhook":{"id":"1234567","type":"webhook"},"created_by":{"type":"user","id":"42"},` +
		`"source":{"id":"73835521473","type":"file"},"additional_info":[]}`
)

func boxDelivery(signatures ...string) *verification.Request {
	return deliver(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), boxBody, append(signatures,
		"Box-Delivery-Id", "462bd6ec-2d36-4a9c-9d4d-2cbf5cfd9c8a", "Box-Delivery-Timestamp", "2026-03-03T21:06:07-08:00",
		"Box-Signature-Algorithm", "HmacSHA256", "Box-Signature-Version", "1")...)
}

// Each of the two signatures proves a delivery alone, within ten minutes, and covers body and time.
func TestBoxVector(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ header, signature, secret string }{
		{"Box-Signature-Primary", boxPrimary, "SamplePrimaryKey"},
		{"Box-Signature-Secondary", boxSecondary, "SampleSecondaryKey"},
	} {
		vector{
			slug: "box", secret: c.secret, request: boxDelivery(c.header, c.signature), at: "header:" + c.header,
			text: c.signature, encoding: "base64", signed: []string{"body", "header:Box-Delivery-Timestamp"},
			outside: []string{"header:Box-Delivery-Id"}, timestamp: "header:Box-Delivery-Timestamp",
			maxAge: 10 * time.Minute, maxSkew: time.Minute,
		}.check(t)
	}
}

// With both signatures one of the two keys is enough, while the other is being replaced.
func TestBoxRotation(t *testing.T) {
	t.Parallel()
	r := boxDelivery("Box-Signature-Primary", boxPrimary, "Box-Signature-Secondary", boxSecondary)
	for _, secrets := range [][]string{{"SamplePrimaryKey"}, {"SampleSecondaryKey"}, {"another key 0123", "SampleSecondaryKey"}} {
		v := connect(t, "box", nil, secrets...)
		requireProved(t, v, r, "hmac", string(rune('0'+len(secrets)-1)))
	}
	v := connect(t, "box", nil, "SamplePrimaryKey", "SampleSecondaryKey")
	requireProved(t, v, r, "hmac", "0")
	requireReason(t, connect(t, "box", nil, "another key 0123"), r, verification.ReasonSignatureMismatch)
	requireReason(t, v, boxDelivery(), verification.ReasonSignatureMissing)
	require.Equal(t, []string{"box-signature-primary", "box-signature-secondary"}, v.RedactHeaders())
	requireDescribed(t, v, r, verification.Event{
		Type: "FILE.UPLOADED", TypeSigned: true, ID: "0f0c8dd0-6f2c-4b3a-8e2a-1d3b5c7e9f10", IDSigned: true,
		OccurredAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	})
}
