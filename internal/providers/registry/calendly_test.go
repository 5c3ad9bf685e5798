package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A delivery made by Calendly's documentation ("Webhook Signatures": the hexadecimal HMAC-SHA256 of time, dot
// and body; computed with openssl dgst) verifies for three minutes, and both time and body are signed.
func TestCalendly(t *testing.T) {
	t.Parallel()
	const (
		secret    = "5mEzn9C-I28UtwOjZJtFoob0sAAFZ95GbZkqj4y3i0I"
		signature = "67b28e848b472c554b67e68b083c3923597db3d67ae7870b4fecb010ecf12a48"
		body      = `{"event":"invitee.created","created_at":"2020-11-23T17:51:19.000000Z","created_by":"https://api.calendly.com/users/AAAAAAAAAAAAAAAA",` +
			`"payload":{"uri":"https://api.calendly.com/scheduled_events/AAAAAAAAAAAAAAAA/invitees/BBBBBBBBBBBBBBBB"}}`
	)
	at := time.Unix(1772600767, 0)
	r := deliver(at, body, "Calendly-Webhook-Signature", "t=1772600767,v1="+signature)
	vector{
		slug: "calendly", secret: secret, request: r, at: "header:Calendly-Webhook-Signature", label: "v1=", text: signature,
		encoding: "hex", signed: []string{"body"}, timestamp: "sig:t", maxAge: 3 * time.Minute,
	}.check(t)
	v := connect(t, "calendly", nil, secret)
	require.Equal(t, verification.Event{Type: "invitee.created", TypeSigned: true, OccurredAt: time.Date(2020, 11, 23, 17,
		51, 19, 0, time.UTC)}, describe(t, v, r))
	for header, want := range map[string]verification.Reason{
		"t=1772600768,v1=" + signature:              verification.ReasonSignatureMismatch,
		"v1=" + signature:                           verification.ReasonTimestampMissing,
		"t=,v1=" + signature:                        verification.ReasonTimestampMissing,
		"t=17726007670,v1=" + signature:             verification.ReasonTimestampMalformed,
		"t=1772600767,t=1772600767,v1=" + signature: verification.ReasonTimestampMalformed,
		"t=1772600767,v2=" + signature:              verification.ReasonSignatureMalformed,
		"t=1772600767":                              verification.ReasonSignatureMalformed,
	} {
		requireReason(t, v, deliver(at, body, "Calendly-Webhook-Signature", header), want)
	}
}
