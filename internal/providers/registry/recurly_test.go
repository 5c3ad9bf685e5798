package registry_test

import (
	"strings"
	"testing"
	"time"

	"sallyport/internal/providers/verification"
)

// The webhook in spec/recurly/webhooks_spec.rb of Recurly's Ruby client.
const (
	recurlySecret    = "354fab5bd35f5a0d50845ee7e30165244468b13c2c343f104e4e730a59326d9d"
	recurlySignature = "ad24699f3beaa24c9af2cc7ada3ce4c835da0090194241b9d3add83d27f14bc3"
	recurlyBody      = `{"id":"rjxwmwedwqug","object_type":"account","site_id":"qc326l1hl8k9","event_type":"created",` +
		`"event_time":"2022-09-13T21:18:40Z","account_code":"adfas23zzz14123"}`
)

// The webhook in the tests of Recurly's Ruby client verifies within five minutes either way, and time and body are
// signed. The id of the notification, in a header, is not.
func TestRecurlyVector(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1663103925004)
	r := deliver(at, recurlyBody, "recurly-signature", "1663103925004,"+recurlySignature, "recurly-notification-id",
		"rjxwmwedx0aa")
	vector{
		slug: "recurly", secret: recurlySecret, request: r, at: "header:recurly-signature", text: recurlySignature,
		encoding: "hex", signed: []string{"body"}, outside: []string{"header:recurly-notification-id"},
		maxAge: 5 * time.Minute, maxSkew: 5 * time.Minute,
	}.check(t)
	requireDescribed(t, connect(t, "recurly", nil, recurlySecret), r, verification.Event{
		Type: "account.created", TypeSigned: true, ID: "rjxwmwedx0aa",
		OccurredAt: time.Date(2022, 9, 13, 21, 18, 40, 0, time.UTC),
	})
}

// The header begins with the time, which is signed, and any of the signatures behind it is enough, as the tests of the
// Ruby client require.
func TestRecurlyHeader(t *testing.T) {
	t.Parallel()
	v := connect(t, "recurly", nil, recurlySecret)
	send := func(header string) *verification.Request {
		return deliver(time.UnixMilli(1663103925004), recurlyBody, "recurly-signature", header)
	}
	for _, header := range []string{"1663103925004,de1ec7ab1e," + recurlySignature,
		"1663103925004," + strings.Repeat("0", 64) + "," + recurlySignature} {
		requireProved(t, v, send(header), "hmac", "0")
	}
	for header, want := range map[string]verification.Reason{
		"1663103925005," + recurlySignature: verification.ReasonSignatureMismatch,
		"1663103925," + recurlySignature:    verification.ReasonTimestampMalformed,
		"abc," + recurlySignature:           verification.ReasonTimestampMalformed,
		"," + recurlySignature:              verification.ReasonTimestampMissing,
		"1663103925004,":                    verification.ReasonSignatureMalformed,
		"1663103925004":                     verification.ReasonSignatureMalformed,
		recurlySignature:                    verification.ReasonSignatureMalformed,
	} {
		requireReason(t, v, send(header), want)
	}
}
