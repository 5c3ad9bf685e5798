package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The webhooks are those of tests/api-resources/webhooks.test.ts in Mux's Node.js SDK. mux.webhooks.unwrap of the npm
// package @mux/mux-node 15.3.0 accepts them too.
const (
	muxSecret    = "SuperSecret123"
	muxSignature = "854ece4c22acef7c66b57d4e504153bc512595e8e9c772ece2a68150548c19a7"
)

// The webhook in the tests of Mux's SDK verifies for five minutes, and time and body are signed.
func TestMuxVector(t *testing.T) {
	t.Parallel()
	vector{
		slug: "mux", secret: muxSecret, request: deliver(time.Unix(1565125718, 0), `{"test":"body"}`, "Mux-Signature",
			"t=1565125718,v1="+muxSignature), at: "header:Mux-Signature", label: "v1=", text: muxSignature, encoding: "hex",
		signed: []string{"body", "sig:t"}, timestamp: "sig:t", maxAge: 5 * time.Minute,
	}.check(t)
	v := connect(t, "mux", nil, muxSecret)
	requireProved(t, v, deliver(time.Unix(1565125718, 0), `{"test":{"nested":{"nanos":718234, "seconds":1691711005}}}`,
		"Mux-Signature", "t=1565125718,v1=bd315c24bce1c2b8ad325696f26530c8ef7d7d830afb7c1381903705d04607be"), "hmac", "0")
}

// Of several signatures one is enough, and only those of v1 count, as the tests of Mux's SDK require.
func TestMuxSeveralSignatures(t *testing.T) {
	t.Parallel()
	v := connect(t, "mux", nil, muxSecret)
	send := func(header string) *verification.Request {
		return deliver(time.Unix(1565125718, 0), `{"test":"body"}`, "Mux-Signature", header)
	}
	for _, header := range []string{"t=1565125718,v1=invalid-sig,v1=" + muxSignature,
		"t=1565125718,v2=" + muxSignature + ",v1=" + muxSignature} {
		requireProved(t, v, send(header), "hmac", "0")
	}
	requireReason(t, v, send("t=1565125718,v2="+muxSignature), verification.ReasonSignatureMalformed)
	requireReason(t, v, send(muxSignature), verification.ReasonSignatureMalformed)
	requireReason(t, v, send("v1="+muxSignature), verification.ReasonTimestampMissing)
}

// Type, id and time are those of BaseWebhookEvent in Mux's SDK 15.3.0.
func TestMuxEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "mux", nil, muxSecret)
	requireDescribed(t, v, deliver(time.Time{}, `{"type":"video.asset.ready","id":"3a56ac3d-33da-4366-855b-f592d898409d",`+
		`"created_at":"2018-02-15T01:04:45.000Z","object":{"type":"asset","id":"0201p02fGKPE7MrbC269XRD7LpcHhrmbu0002"},`+
		`"environment":{"name":"Demo pages","id":"j0863n"},"data":{"status":"ready"},"attempts":[]}`), verification.Event{
		Type: "video.asset.ready", TypeSigned: true, ID: "3a56ac3d-33da-4366-855b-f592d898409d", IDSigned: true,
		OccurredAt: time.Date(2018, 2, 15, 1, 4, 45, 0, time.UTC),
	})
	require.Equal(t, []string{"mux-signature"}, v.RedactHeaders())
}
