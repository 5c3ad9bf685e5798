package registry_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A webhook made by WC_Webhook::generate_signature (the base64 of the HMAC-SHA256 of the body; computed with openssl
// dgst) verifies. Its headers are not signed.
func TestWooCommerce(t *testing.T) {
	t.Parallel()
	const (
		secret    = "hJ4kLpQ9sTwRyUiOoAeDgFhZxCvBnM12"
		signature = "kt/gatmeWC9w3RtPOKtzRD+5gBJ2qAGESDiSDqO0zmI="
		body      = `{"id":727,"status":"processing","currency":"USD","total":"29.35"}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "X-WC-Webhook-Signature", signature, "X-WC-Webhook-Topic", "order.created",
		"X-WC-Webhook-Delivery-ID", "3f2a9d0c1b8e7f6a5d4c3b2a19080706")
	vector{
		slug: "woocommerce", secret: secret, request: r, at: "header:X-WC-Webhook-Signature", text: signature,
		encoding: "base64", signed: []string{"body"},
		outside:     []string{"header:X-WC-Webhook-Topic", "header:X-WC-Webhook-Delivery-ID"},
		bodyDecides: true,
	}.check(t)
	v := connect(t, "woocommerce", nil, secret)
	requireDescribed(t, v, r, verification.Event{Type: "order.created"})
	r.Header.Set("X-WC-Webhook-Topic", "action.woocommerce_add_to_cart")
	requireDescribed(t, v, r, verification.Event{Type: "action.woocommerce_add_to_cart"})
}

// The ping of WC_Webhook::deliver_ping, a form with the webhook's id, gets a response and is no event. JSON is no ping,
// whether or not it has that member.
func TestWooCommercePing(t *testing.T) {
	t.Parallel()
	v := connect(t, "woocommerce", nil, "hJ4kLpQ9sTwRyUiOoAeDgFhZxCvBnM12")
	ping := func(body string) *verification.Request {
		return at(deliver(time.Time{}, body, "Content-Type", "application/x-www-form-urlencoded"), http.MethodPost, "")
	}
	answer := requireHandshakeText(t, v, ping("webhook_id=7"), http.StatusOK, "", "")
	require.Empty(t, answer.Body)
	requireReason(t, v, ping("webhook_id=7"), verification.ReasonSignatureMissing)
	requireNoHandshake(t, v, ping(`{"id":7,"webhook_id":7}`))
	requireNoHandshake(t, v, ping(`{"note":"&webhook_id=7&"}`))
	requireNoHandshake(t, v, at(deliver(time.Time{}, ""), http.MethodPost, "webhook_id=7"))
}
