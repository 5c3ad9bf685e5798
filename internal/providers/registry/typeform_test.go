package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A delivery made by Typeform's documentation ("Secure your webhooks": sha256= and the base64 of the
// HMAC-SHA256 of the body; computed with openssl dgst), with the head of its example payload, verifies.
func TestTypeform(t *testing.T) {
	t.Parallel()
	const (
		secret    = "e8a4b2c1d0f94e5c9b7a"
		signature = "BvkFkhyXFCJEGw9UCpvngzvx4amGTLKXfuWSusrS36I="
		body      = `{"event_id":"LtWXD3crgy","event_type":"form_response","form_response":{"form_id":"lT4Z3j",` +
			`"token":"a3a12ec67a1365927098a606107fac15","submitted_at":"2018-01-18T18:17:02Z","landed_at":"2018-01-18T18:07:02Z"}}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "Typeform-Signature", "sha256="+signature)
	vector{
		slug: "typeform", secret: secret, request: r, at: "header:Typeform-Signature", label: "sha256=", text: signature,
		encoding: "base64", signed: []string{"body"},
	}.check(t)
	require.Equal(t, verification.Event{
		Type: "form_response", TypeSigned: true, ID: "LtWXD3crgy", IDSource: "json:/event_id", IDSigned: true,
		OccurredAt: time.Date(2018, 1, 18, 18, 17, 2, 0, time.UTC),
	}, describe(t, connect(t, "typeform", nil, secret), r))
}
