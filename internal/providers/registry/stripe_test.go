package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The header was made by stripe.webhooks.generateTestHeaderString({payload, secret, timestamp}) of the npm package
// stripe 23.1.0, the second signature with the second secret. The payload is laid out over lines, as Stripe sends it.
const (
	stripeSecret    = "whsec_test_secret_one"
	stripeOldSecret = "whsec_test_secret_two"
	stripeSignature = "d9f2f958d64a439c8de08b1f643aeb31c99ecf44ceb3c463062e8ce998d1992f"
	stripeOld       = "6e16ee893f2d6fcc22f27000ea3a4598b584267a0a71db3231877a0d1c8c2f49"
	stripePayload   = "{\n  \"id\": \"evt_1NG8Du2eZvKYlo2CUI79vXWy\",\n  \"object\": \"event\",\n  \"created\": " +
		"1686089970,\n" +
		"  \"livemode\": false,\n  \"type\": \"setup_intent.created\"\n}"
)

func stripeDelivery(header string) *verification.Request {
	return deliver(time.Unix(1686089971, 0), stripePayload, "Stripe-Signature", header)
}

// Only a webhook that Stripe's library signed verifies, for five minutes.
func TestStripeVector(t *testing.T) {
	t.Parallel()
	vector{
		slug: "stripe", secret: stripeSecret, request: stripeDelivery("t=1686089971,v1=" + stripeSignature),
		at: "header:Stripe-Signature", label: "v1=", text: stripeSignature, encoding: "hex",
		signed: []string{"body", "sig:t"}, timestamp: "sig:t", maxAge: 5 * time.Minute,
	}.check(t)
}

// While Stripe rolls a secret either one is enough, test signatures of the version v0 prove nothing, and the
// secret is used with its prefix.
func TestStripeSignatures(t *testing.T) {
	t.Parallel()
	both := stripeDelivery("t=1686089971,v1=" + stripeOld + ",v1=" + stripeSignature + ",v0=" + stripeOld)
	requireProved(t, connect(t, "stripe", nil, stripeSecret), both, "hmac", "0")
	requireProved(t, connect(t, "stripe", nil, "another secret", stripeOldSecret), both, "hmac", "1")
	v := connect(t, "stripe", nil, stripeSecret)
	requireReason(t, v, stripeDelivery("t=1686089971,v0="+stripeSignature), verification.ReasonSignatureMalformed)
	requireReason(t, v, stripeDelivery("t=1686089971,v1="+stripeOld), verification.ReasonSignatureMismatch)
	requireReason(t, connect(t, "stripe", nil, stripeSecret[len("whsec_"):]), both, verification.ReasonSignatureMismatch)
}

// Type, id and time of an event are those that Stripe's event objects name, of its thin events too.
func TestStripeEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "stripe", nil, stripeSecret)
	requireDescribed(t, v, stripeDelivery(""), verification.Event{
		Type: "setup_intent.created", TypeSigned: true, ID: "evt_1NG8Du2eZvKYlo2CUI79vXWy", IDSigned: true,
		OccurredAt: time.Unix(1686089970, 0).UTC(),
	})
	requireDescribed(t, v, deliver(time.Time{},
		`{"id":"evt_test_65R9","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered",`+
			`"created":"2024-09-26T17:46:22.134Z"}`), verification.Event{
		Type: "v1.billing.meter.error_report_triggered", TypeSigned: true, ID: "evt_test_65R9", IDSigned: true,
	})
	require.Equal(t, []string{"stripe-signature"}, v.RedactHeaders())
	require.Nil(t, v.Ack())
}
