package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The webhook that validateWebhookSignature of the npm package razorpay 2.9.8 accepts, and refuses with a space behind
// it.
const (
	razorpaySecret = "a webhook secret of Razorpay"
	razorpayBody   = `{"entity":"event","account_id":"acc_BFQ7uQEaa7j2z7","event":"order.paid","contains":["payment","order"],` +
		`"payload":{},"created_at":1567674606}`
)

// The webhook that Razorpay's SDK accepts verifies; its body alone is signed.
func TestRazorpayVector(t *testing.T) {
	t.Parallel()
	const signature = "819d9edfecfdde708c033214dad0150579a14985da93619251898548aea803ba"
	vector{
		slug: "razorpay", secret: razorpaySecret, request: deliver(time.Unix(1772600767, 0), razorpayBody,
			"X-Razorpay-Signature", signature, "X-Razorpay-Event-Id", "PqRs1234567890"),
		at: "header:X-Razorpay-Signature", text: signature, encoding: "hex", signed: []string{"body"},
		outside: []string{"header:X-Razorpay-Event-Id"},
	}.check(t)
}

// A webhook has the type and the time of its signed body, as in the payloads of Razorpay's documentation, and the id of
// a header that is not signed.
func TestRazorpayEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "razorpay", nil, razorpaySecret)
	r := deliver(time.Time{}, razorpayBody, "X-Razorpay-Event-Id", "PqRs1234567890")
	requireDescribed(t, v, r, verification.Event{Type: "order.paid", TypeSigned: true, ID: "PqRs1234567890",
		OccurredAt: time.Unix(1567674606, 0).UTC()})
	r.Header.Del("X-Razorpay-Event-Id")
	require.Empty(t, describe(t, v, r).ID)
}
