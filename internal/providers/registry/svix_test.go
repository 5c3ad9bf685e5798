package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The vector of the signing tests in Svix's libraries, which its npm package (svix 1.99.1, Webhook.sign)
// reproduces, verifies under either family of header names.
func TestSvixVector(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"Svix-", "Webhook-"} {
		const (
			secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
			signature = "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
		)
		r := deliver(time.Unix(1614265330, 0), `{"test": 2432232314}`, family+"Id", "msg_p5jXN8AQM9LWM0D4loKWxJek",
			family+"Timestamp", "1614265330", family+"Signature", "v1,"+signature)
		vector{
			slug: "svix", secret: secret, otherSecret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", request: r,
			at: "header:" + family + "Signature", label: "v1,", text: signature, encoding: "base64",
			signed:    []string{"body", "header:" + family + "Id", "header:" + family + "Timestamp"},
			timestamp: "header:" + family + "Timestamp", maxAge: 5 * time.Minute, maxSkew: 5 * time.Minute,
		}.check(t)
	}
}

// A webhook that Svix's npm package signed (svix 1.99.1, new Webhook(secret).sign) is described by its signed id, and
// by its type where the sender has it. One with both names of a header is refused, and only a v1 signature counts.
func TestSvixEvents(t *testing.T) {
	t.Parallel()
	const body, signature = `{"type":"invoice.paid","data":{"id":"in_1"}}`,
		"v1,DOgFatFdGnh0o55GoKSi4fxlpU1yHRjrgJAi/qWvDuM="
	at := time.Unix(1772600767, 0)
	v := connect(t, "svix", nil, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	good := []string{"svix-id", "msg_2", "svix-timestamp", "1772600767", "svix-signature", "v1a,AA== v1,x " + signature}
	r := deliver(at, body, good...)
	requireProved(t, v, r, "hmac", "0")
	require.Equal(t, verification.Event{
		Type: "invoice.paid", TypeSigned: true, ID: "msg_2", IDSource: "header:svix-id,webhook-id", IDSigned: true,
	}, describe(t, v, r))
	require.Equal(t, []string{"svix-signature", "webhook-signature"}, v.RedactHeaders())
	requireReason(t, v, deliver(at, body, append(good, "webhook-id", "msg_3")...), verification.ReasonHeaderMalformed)
	requireReason(t, v, deliver(at, body, "svix-id", "msg_2", "svix-timestamp", "1772600767", "svix-signature", "v1a"+
		signature[2:]), verification.ReasonSignatureMalformed)

	v = connect(t, "svix", map[string]string{"event_type_pointer": "/data/id"}, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.Equal(t, "in_1", describe(t, v, r).Type)
}
