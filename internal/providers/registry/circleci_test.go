package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The example signatures of CircleCI's documentation verify, also next to those of later versions. Two more there have
// the secret "secret", which is too short for a connection.
func TestCircleCIVectors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, secret, signature string }{
		{"lalala", "another-secret", "daa220016c8f29a8b214fbfc3671aeec2145cfb1e6790184ffb38b6d0425fa00"},
		{"an-important-request-payload", "hunter123", "9be2242094a9a8c00c64306f382a7f9d691de910b4a266f67bd314ef18ac49fa"},
	} {
		vector{
			slug: "circleci", secret: c.secret, request: deliver(time.Unix(1772600767, 0), c.body, "circleci-signature",
				"v1="+c.signature, "circleci-event-type", "job-completed"),
			at: "header:circleci-signature", label: "v1=", text: c.signature, encoding: "hex", signed: []string{"body"},
			outside: []string{"header:circleci-event-type"},
		}.check(t)
		v := connect(t, "circleci", nil, c.secret)
		requireProved(t, v, deliver(time.Time{}, c.body, "circleci-signature", "v1="+c.signature+",v2=...,v3=..."), "hmac",
			"0")
		requireReason(t, v, deliver(time.Time{}, c.body, "circleci-signature", "v2="+c.signature),
			verification.ReasonSignatureMalformed)
		requireReason(t, v, deliver(time.Time{}, c.body, "circleci-signature", "v1="+strings.Repeat("0", 64)+",v2="+
			c.signature), verification.ReasonSignatureMismatch)
	}
}

// Type, id and time are those of the signed body, as in the sample payloads of CircleCI's documentation; the type in a
// header, which is not signed, is not read.
func TestCircleCIEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "circleci", nil, "another-secret")
	requireDescribed(t, v, deliver(time.Time{}, `{"id":"3888f21b-eaa7-38e3-8f3d-75a63bba8895","type":"workflow-completed",`+
		`"happened_at":"2021-09-01T22:49:34.317Z","webhook":{"id":"cf8c4fdd-0587-4da1-b4ca-4846e9640af9","name":"Sample Webhook"}}`,
		"circleci-event-type", "job-completed"), verification.Event{
		Type: "workflow-completed", TypeSigned: true, ID: "3888f21b-eaa7-38e3-8f3d-75a63bba8895", IDSigned: true,
		OccurredAt: time.Date(2021, 9, 1, 22, 49, 34, 317_000_000, time.UTC),
	})
	require.Equal(t, []string{"circleci-signature"}, v.RedactHeaders())
}
