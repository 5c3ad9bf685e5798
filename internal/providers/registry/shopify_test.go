package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The signature was made by createSHA256HMAC(secret, body, "base64") of the npm package @shopify/shopify-api 13.1.0,
// and its webhooks.validate accepted it under the headers of webhooks and under those of Events.
const (
	shopifySecret    = "hush-2c1f8a8d5b"
	shopifySignature = "sX7MaepNZtBG/5vyga54cftWnwNhSwQ0dziEhM/w5dw="
	shopifyBody      = `{"id":820982911946154508,"name":"#9999","note":"café 😀"}`
)

// Only a webhook that Shopify's library signed verifies, under the header of webhooks and that of Events.
func TestShopifyVector(t *testing.T) {
	t.Parallel()
	at := time.Unix(1772600767, 0)
	vector{
		slug: "shopify", secret: shopifySecret,
		request: deliver(at, shopifyBody, "X-Shopify-Hmac-Sha256", shopifySignature, "X-Shopify-Topic", "orders/create",
			"X-Shopify-Webhook-Id", "w1"),
		at: "header:X-Shopify-Hmac-Sha256", text: shopifySignature, encoding: "base64",
		signed: []string{"body"}, outside: []string{"header:X-Shopify-Topic", "header:X-Shopify-Webhook-Id"},
	}.check(t)
	vector{
		slug: "shopify", secret: shopifySecret, request: deliver(at, shopifyBody, "Shopify-Hmac-Sha256", shopifySignature),
		at: "header:Shopify-Hmac-Sha256", text: shopifySignature, encoding: "base64", signed: []string{"body"},
	}.check(t)
	v := connect(t, "shopify", nil, shopifySecret)
	requireReason(t, v, deliver(at, shopifyBody, "X-Shopify-Hmac-Sha256", shopifySignature, "Shopify-Hmac-Sha256",
		shopifySignature), verification.ReasonSignatureMalformed)
	require.Equal(t, []string{"shopify-hmac-sha256", "x-shopify-hmac-sha256"}, v.RedactHeaders())
}

// Shopify's topics become types of segments, its delivery id is the event's and is known not to be signed.
func TestShopifyEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "shopify", nil, shopifySecret)
	at := time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC)
	for topic, want := range map[string]string{
		"orders/create": "orders.create", "customers/data_request": "customers.data_request",
		"app/uninstalled": "app.uninstalled", "": "unknown",
	} {
		requireDescribed(t, v, deliver(time.Time{}, `{"topic":"x","id":1}`, "X-Shopify-Topic", topic, "X-Shopify-Webhook-Id",
			"b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", "X-Shopify-Event-Id", "e1", "X-Shopify-Triggered-At",
			"2026-03-04T05:06:07.890123456Z"), verification.Event{
			Type: want, ID: "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", OccurredAt: at,
		})
	}
	requireDescribed(t, v, deliver(time.Time{}, `{}`, "Shopify-Topic", "Product", "Shopify-Action", "update",
		"Shopify-Webhook-Id", "w2", "Shopify-Triggered-At", "2026-03-04T05:06:07.890123456Z"),
		verification.Event{Type: "Product.update", ID: "w2", OccurredAt: at})
}
