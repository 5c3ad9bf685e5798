package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The signature is that of createWebhookSignature in Cal.com's repository
// (packages/features/webhooks/lib/sendPayload.ts), run with this secret and body. The text that Cal.com sends without
// a secret is no signature.
func TestCalComVector(t *testing.T) {
	t.Parallel()
	const (
		secret    = "a cal.com webhook secret"
		signature = "b3d778a113067da9139b83cd796751f39ace49b9d022921550df687629517729"
		body      = `{"triggerEvent":"BOOKING_CREATED","createdAt":"2026-03-04T05:06:07.123Z","payload":{"type":"30min",` +
			`"title":"30min between Pro Example and Free Example","bookerUrl":"https://app.cal.com","uid":"9LGsM8dmLyKRBGAUJCT7vT","bookingId":91}}`
	)
	at := time.Unix(1772600767, 0)
	r := deliver(at, body, "X-Cal-Signature-256", signature)
	vector{
		slug: "cal-com", secret: secret, request: r, at: "header:X-Cal-Signature-256", text: signature, encoding: "hex",
		signed: []string{"body"},
	}.check(t)
	v := connect(t, "cal-com", nil, secret)
	requireReason(t, v, deliver(at, body, "X-Cal-Signature-256", "no-secret-provided"), verification.ReasonSignatureMalformed)
	requireDescribed(t, v, r, verification.Event{Type: "BOOKING_CREATED", TypeSigned: true,
		OccurredAt: time.Date(2026, 3, 4, 5, 6, 7, 123_000_000, time.UTC)})
	require.Equal(t, []string{"x-cal-signature-256"}, v.RedactHeaders())
}
