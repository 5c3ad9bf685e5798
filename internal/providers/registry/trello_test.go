package registry_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The delivery is made by Trello's documentation ("Webhook Signatures": the HMAC-SHA1 of the body and the callback URL
// in Base64; computed with openssl dgst).
const (
	trelloSecret    = "a-trello-secret-0123456789abcdef"
	trelloSignature = "ng31z4lBdJn4O7e10L9U/rqN34s="
	trelloBody      = `{"action":{"id":"51f9424bcd6e040f3c002412","idMemberCreator":"4fc78a59a885233f4b349bd9","type":"updateCard",` +
		`"date":"2013-07-31T16:59:23.071Z","data":{"card":{"name":"Webhooks","id":"51a79e72dbb7e23c7c003778"}}},"model":{"id":"4d5ea62fd76aa1136000000c"}}`
)

func trelloDelivery() *verification.Request {
	return atURL(deliver(time.Unix(1772600767, 0), trelloBody, "X-Trello-Webhook", trelloSignature),
		"https://gateway.example", "/api/v1/webhook/whk_1", "")
}

// A delivery verifies at the URL that Trello called, and neither elsewhere nor changed.
func TestTrello(t *testing.T) {
	t.Parallel()
	vector{
		slug: "trello", secret: trelloSecret, request: trelloDelivery(), at: "header:X-Trello-Webhook",
		text: trelloSignature, encoding: "base64", signed: []string{"body", "base", "path"},
	}.check(t)
	v := connect(t, "trello", nil, trelloSecret)
	for _, r := range []*verification.Request{
		atURL(trelloDelivery(), "https://gateway.example", trelloDelivery().Path, "a=1"),
		atURL(trelloDelivery(), "http://gateway.example", trelloDelivery().Path, ""),
	} {
		requireReason(t, v, r, verification.ReasonSignatureMismatch)
	}
	requireReason(t, v, atURL(trelloDelivery(), "", "/x", ""), verification.ReasonURLUnknown)
	based := connectWith(t, "trello", verification.Settings{URLBase: "https://gateway.example"}, trelloSecret)
	requireProved(t, based, atURL(trelloDelivery(), "https://inside.example", trelloDelivery().Path, ""), "hmac", "0")
	// Nothing stands between body and URL, so that characters could move from one to the other.
	moved := trelloDelivery()
	moved.Body = append(moved.Body, "https:"...)
	moved.PublicURL = "//gateway.example"
	_, refusal := v.Verify(t.Context(), moved)
	require.NotNil(t, refusal)

	requireDescribed(t, v, trelloDelivery(), verification.Event{Type: "updateCard", TypeSigned: true,
		ID: "51f9424bcd6e040f3c002412", IDSigned: true,
		OccurredAt: time.Date(2013, 7, 31, 16, 59, 23, 71_000_000, time.UTC)})
	require.Equal(t, []string{"x-trello-webhook"}, v.RedactHeaders())
}

// The call with HEAD, which Trello makes before it creates a webhook, gets a response, and no other method does.
func TestTrelloHandshake(t *testing.T) {
	t.Parallel()
	v := connect(t, "trello", nil, trelloSecret)
	requireHandshakeText(t, v, at(deliver(time.Time{}, ""), http.MethodHead, ""), http.StatusOK, "", "")
	require.Equal(t, []string{http.MethodHead}, v.HandshakeMethods())
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		requireNoHandshake(t, v, at(deliver(time.Time{}, trelloBody), method, ""))
	}
}
