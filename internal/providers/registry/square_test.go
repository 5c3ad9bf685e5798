package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The deliveries are those of tests/integration/webhooks.test.ts in Square's Node.js SDK 44.1.0.
const (
	squareKey       = "Ibxx_5AKakO-3qeNVR61Dw"
	squareSignature = "GF4YkrJgGBDZ9NIYbNXBnMzqb2HoL4RW/S6vkZ9/2N4="
	squareBody      = `{"merchant_id":"MLEFBHHSJGVHD","type":"webhooks.test_notification","event_id":"ac3ac95b-f97d-458c-a6e6-18981597e05f",` +
		`"created_at":"2022-07-13T20:30:59.037339943Z","data":{"type":"webhooks","id":"bc368e64-01aa-407e-b46e-3231809b1129"}}`
)

func squareDelivery() *verification.Request {
	return atURL(deliver(time.Unix(1657744259, 0), squareBody, "X-Square-Hmacsha256-Signature", squareSignature),
		"https://webhook.site", "/679a4f3a-dcfa-49ee-bac5-9d0edad886b9", "")
}

// The delivery in the tests of Square's SDK verifies at the URL that Square called, and neither elsewhere nor
// changed.
func TestSquareVector(t *testing.T) {
	t.Parallel()
	vector{
		slug: "square", secret: squareKey, request: squareDelivery(), at: "header:X-Square-Hmacsha256-Signature",
		text: squareSignature, encoding: "base64", signed: []string{"body", "base", "path"},
	}.check(t)
	v := connect(t, "square", nil, squareKey)
	for _, r := range []*verification.Request{
		atURL(squareDelivery(), "https://webhook.site", squareDelivery().Path, "a=1"),
		atURL(squareDelivery(), "https://webhook.site:443", squareDelivery().Path, ""),
		atURL(squareDelivery(), "http://webhook.site", squareDelivery().Path, ""),
	} {
		requireReason(t, v, r, verification.ReasonSignatureMismatch)
	}
	requireReason(t, v, atURL(squareDelivery(), "", "/x", ""), verification.ReasonURLUnknown)
	based := connectWith(t, "square", verification.Settings{URLBase: "https://webhook.site"}, squareKey)
	requireProved(t, based, atURL(squareDelivery(), "https://gateway.example", squareDelivery().Path, ""), "hmac", "0")
}

// Bytes are compared as they were sent, whether or not JSON writers would escape them.
func TestSquareEscapes(t *testing.T) {
	t.Parallel()
	v := connect(t, "square", nil, "signature-key")
	for body, signature := range map[string]string{
		`{"data":{"type":"webhooks","id":"fake_id"}}`: "W3FlCNk5IA3ZQ2LHTWoajvzfaDu/OwY2tNHIHC3IUOA=",
		`{"data":{"type":"webhooks","id":">id<"}}`:    "Cxt7+aTi4rKgcA0bC4g9EHdVtLSDWdqccmL5MvihU4U=",
	} {
		requireProved(t, v, atURL(deliver(time.Time{}, body, "X-Square-Hmacsha256-Signature", signature),
			"https://webhook.site", "/webhooks", ""), "hmac", "0")
	}
}

// Type, id and time of an event are those that Square names in the signed body.
func TestSquareEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "square", nil, squareKey)
	requireDescribed(t, v, squareDelivery(), verification.Event{
		Type: "webhooks.test_notification", TypeSigned: true, ID: "ac3ac95b-f97d-458c-a6e6-18981597e05f", IDSigned: true,
		OccurredAt: time.Date(2022, 7, 13, 20, 30, 59, 37_339_943, time.UTC),
	})
	require.Equal(t, []string{"x-square-hmacsha256-signature", "x-square-signature"}, v.RedactHeaders())
}
