package registry_test

import (
	"testing"
	"time"

	"sallyport/internal/providers/verification"
)

// A webhook made by the route of Vercel's own example integration (the hexadecimal HMAC-SHA1 of the body; computed with
// openssl dgst) verifies, and its type, id and time are those of the signed body.
func TestVercel(t *testing.T) {
	t.Parallel()
	const (
		secret    = "whsk_9Lr1uQ4Yz7aX2mVbN5cK8dE3"
		signature = "334101237d22c6a00f992cccf8114a81210c4c50"
		body      = `{"id":"uev_4WDuGZlLv9EKxHKJ7mYxPDMN","type":"deployment.succeeded","createdAt":1772600767123,"region":"sfo1",` +
			`"payload":{"team":{"id":"team_1"},"user":{"id":"usr_1"},"deployment":{"id":"dpl_1","name":"sample"}}}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "x-vercel-signature", signature)
	vector{
		slug: "vercel", secret: secret, request: r, at: "header:x-vercel-signature", text: signature, encoding: "hex",
		signed: []string{"body"},
	}.check(t)
	v := connect(t, "vercel", nil, secret)
	requireDescribed(t, v, r, verification.Event{Type: "deployment.succeeded", TypeSigned: true,
		ID: "uev_4WDuGZlLv9EKxHKJ7mYxPDMN", IDSigned: true, OccurredAt: time.UnixMilli(1772600767123).UTC()})
	requireReason(t, v, deliver(r.Now, body, "x-vercel-signature", hmacHex(secret, body)),
		verification.ReasonSignatureMalformed)
}
