package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A delivery that Clerk's npm package accepts (@clerk/backend 3.25.0, verifyWebhook; signed by the package
// standardwebhooks that it verifies with) is described by its signed id and type. Signatures under other names of the
// headers count nothing.
func TestClerkVector(t *testing.T) {
	t.Parallel()
	const (
		secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		signature = "AteifqsTDzaLV5302exFcaT/rpSz2ioe7gqRJM1JXeY="
		id        = "msg_2xQbRkmUP5hNL9bM5PvjTmWTrKh"
		body      = `{"data":{"id":"user_29w83sxmDNGwOuEthce5gg56FcC","object":"user"},"event_attributes":{"http_request":` +
			`{"client_ip":"192.0.2.1","user_agent":"curl"}},"object":"event","timestamp":1772600767000,"type":"user.created"}`
	)
	at := time.Unix(1772600767, 0)
	r := deliver(at, body, "Svix-Id", id, "Svix-Timestamp", "1772600767", "Svix-Signature", "v1,"+signature)
	vector{
		slug: "clerk", secret: secret, otherSecret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", request: r,
		at: "header:Svix-Signature", label: "v1,", text: signature, encoding: "base64",
		signed:    []string{"body", "header:Svix-Id", "header:Svix-Timestamp"},
		timestamp: "header:Svix-Timestamp", maxAge: 5 * time.Minute, maxSkew: 5 * time.Minute,
	}.check(t)
	v := connect(t, "clerk", nil, secret)
	requireDescribed(t, v, r, verification.Event{Type: "user.created", TypeSigned: true, ID: id, IDSigned: true})
	require.Equal(t, []string{"svix-signature"}, v.RedactHeaders())
	requireReason(t, v, deliver(at, body, "webhook-id", id, "webhook-timestamp", "1772600767", "webhook-signature",
		"v1,"+signature), verification.ReasonSignatureMissing)
	rotated := deliver(at, body, "Svix-Id", id, "Svix-Timestamp", "1772600767", "Svix-Signature", "v1,AA== v1,"+signature)
	requireProved(t, v, rotated, "hmac", "0")
}
