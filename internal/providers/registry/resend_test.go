package registry_test

import (
	"testing"
	"time"

	"sallyport/internal/providers/verification"
)

// The webhook that webhooks.verify of the npm package resend 6.38.0 accepts, and refuses with a space behind its body.
const (
	resendSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	resendSignature = "sWO8YxkgHcDaZiqEKPkMgq+H5hoqICIK2x3IJb6vXmI="
	resendBody      = `{"type":"email.delivered","created_at":"2026-02-22T23:41:12.126Z","data":{"created_at":"2026-02-22T23:41:11.894719+00:00",` +
		`"email_id":"56761188-7520-42d8-8898-ff6fc54ce618","from":"Acme <onboarding@resend.dev>","to":["delivered@resend.dev"],` +
		`"subject":"Sending this example"}}`
)

// The webhook that Resend's SDK accepts verifies within five minutes either way, and id, time and body are signed.
func TestResendVector(t *testing.T) {
	t.Parallel()
	r := deliver(time.Unix(1772600767, 0), resendBody, "svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "svix-timestamp",
		"1772600767", "svix-signature", "v1,"+resendSignature)
	vector{
		slug: "resend", secret: resendSecret, otherSecret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", request: r,
		at: "header:svix-signature", label: "v1,", text: resendSignature, encoding: "base64",
		signed:    []string{"body", "header:svix-id", "header:svix-timestamp"},
		timestamp: "header:svix-timestamp", maxAge: 5 * time.Minute, maxSkew: 5 * time.Minute,
	}.check(t)
	v := connect(t, "resend", nil, resendSecret)
	requireDescribed(t, v, r, verification.Event{Type: "email.delivered", TypeSigned: true,
		ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", IDSigned: true, OccurredAt: time.Date(2026, 2, 22, 23, 41, 12, 126_000_000, time.UTC)})
	r = cloneRequest(r)
	r.Header.Set("svix-signature", "v1a,AA== v1,x v1,"+resendSignature)
	requireProved(t, v, r, "hmac", "0")
}
