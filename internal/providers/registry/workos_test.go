package registry_test

import (
	"testing"
	"time"

	"sallyport/internal/providers/verification"
)

// The webhook that webhooks.computeSignature of the npm package @workos-inc/node 8.13.0 signed. verify_header of the
// Python package workos 10.8.0 accepts it for 180 seconds in either direction, and refuses it a second beyond, and with
// a space behind its body.
const (
	workOSSecret    = "wh_secret_9b1c2d3e4f506172"
	workOSSignature = "4f8d520e10eee8f48df766cd77e9c160ff774b4b239ed281d4a25127e73c80e0"
	workOSBody      = `{"event":"dsync.user.created","id":"event_01FKJ843CVE8F7BXQSPFH0M53V","data":{"object":"directory_user",` +
		`"id":"directory_user_01FAEAJCR3ZBZ30D8BD1924TVG","state":"active"},"created_at":"2021-06-25T19:07:33.155Z"}`
)

// The webhook that WorkOS' SDK signed verifies for three minutes, with and without the space that WorkOS sends behind
// the comma.
func TestWorkOSVector(t *testing.T) {
	t.Parallel()
	for _, pair := range []string{"t=1772600767123,v1=", "t=1772600767123, v1="} {
		r := deliver(time.UnixMilli(1772600767123), workOSBody, "WorkOS-Signature", pair+workOSSignature)
		vector{
			slug: "workos", secret: workOSSecret, request: r, at: "header:WorkOS-Signature", label: "v1=", text: workOSSignature,
			encoding: "hex", signed: []string{"body", "sig:t"}, timestamp: "sig:t", maxAge: 3 * time.Minute,
			maxSkew: 3 * time.Minute,
		}.check(t)
	}
	requireDescribed(t, connect(t, "workos", nil, workOSSecret), deliver(time.Time{}, workOSBody), verification.Event{
		Type: "dsync.user.created", TypeSigned: true, ID: "event_01FKJ843CVE8F7BXQSPFH0M53V", IDSigned: true,
		OccurredAt: time.Date(2021, 6, 25, 19, 7, 33, 155_000_000, time.UTC),
	})
}

// A time in seconds is none of WorkOS', and other versions of the signature count for nothing.
func TestWorkOSOtherForms(t *testing.T) {
	t.Parallel()
	v := connect(t, "workos", nil, workOSSecret)
	for header, want := range map[string]verification.Reason{
		"t=1772600767, v1=" + workOSSignature:    verification.ReasonTimestampMalformed,
		"t=1772600767124, v1=" + workOSSignature: verification.ReasonSignatureMismatch,
		"t=1772600767123, v0=" + workOSSignature: verification.ReasonSignatureMalformed,
		"v1=" + workOSSignature:                  verification.ReasonTimestampMissing,
	} {
		requireReason(t, v, deliver(time.UnixMilli(1772600767123), workOSBody, "WorkOS-Signature", header), want)
	}
}
