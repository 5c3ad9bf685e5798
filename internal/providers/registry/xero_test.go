package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

const (
	xeroKey  = "9Lr1uQ4Yz7aX2mVbN5cK8dE3fG6hJ0kLpQsTwRyUiOoAeDgFhZxCvBnM1234567890abcdefghijklmnopqrstuv=="
	xeroBody = `{"events":[{"resourceUrl":"https://api.xero.com/api.xro/2.0/Contacts/717f2bfc-c6d4-41fd-b238-3f2f0c0cf777",` +
		`"resourceId":"717f2bfc-c6d4-41fd-b238-3f2f0c0cf777","eventDateUtc":"2024-06-21T01:15:39.902","eventType":"UPDATE",` +
		`"eventCategory":"CONTACT","tenantId":"c2cc9b6e-9458-4c7d-93cc-f02b81b0594f","tenantType":"ORGANISATION"}],` +
		`"lastEventSequence":1,"firstEventSequence":1,"entropy":"S0m3r4Nd0mt3xt"}`
	xeroIntent = `{"events":[],"lastEventSequence": 0,"firstEventSequence": 0, "entropy": "S0m3r4Nd0mt3xt"}`
)

// Webhooks made by Xero's documentation (the base64 of the HMAC-SHA256 of the body; computed with openssl dgst), with
// the payload of its description and the request of an intent to receive, verify.
func TestXero(t *testing.T) {
	t.Parallel()
	for body, signature := range map[string]string{xeroBody: "tOOXorMxFgTqNNLZMzvipx2MTgUfCURhDCYH6pN8sU4=", xeroIntent: "GsIfU1WlYaTnjM0p27cj07q5o0OJfWzyGFDVn7T1IPY="} {
		vector{
			slug: "xero", secret: xeroKey, request: deliver(time.Unix(1772600767, 0), body, "x-xero-signature", signature),
			at: "header:x-xero-signature", text: signature, encoding: "base64", signed: []string{"body"},
		}.check(t)
	}
}

// An event has its category and type, and an intent to receive none. The response to either has no body, and a wrong
// signature gets 401, as Xero's validation requires.
func TestXeroEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "xero", nil, xeroKey)
	requireDescribed(t, v, deliver(time.Time{}, xeroBody), verification.Event{Type: "CONTACT.UPDATE", TypeSigned: true,
		Types: []string{"CONTACT.UPDATE"}})
	intent := describe(t, v, deliver(time.Time{}, xeroIntent))
	require.True(t, intent.Control)
	require.Empty(t, intent.ID)
	require.Equal(t, 200, v.Ack().Status)
	require.Empty(t, v.Ack().Body)
	require.Equal(t, 401, v.RejectStatus())
}
