package registry_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A delivery that Chargebee's npm package accepts (chargebee 3.33.0, createHandler with basicAuthValidator for this
// user and password) is accepted, and none with other credentials; its body is not signed.
func TestChargebeeVector(t *testing.T) {
	t.Parallel()
	const (
		secret = "sallyport:a pass:word of 2026"
		header = "Basic c2FsbHlwb3J0OmEgcGFzczp3b3JkIG9mIDIwMjY="
		body   = `{"id":"ev_AzZlfQV6qJ9nTDQ","occurred_at":1772600767,"source":"admin_console","object":"event","api_version":"v2",` +
			`"content":{"customer":{"id":"AzZlfQV6qJ8BFDI"}},"event_type":"customer_created","webhook_status":"not_configured"}`
	)
	at := time.Unix(1772600767, 0)
	r := deliver(at, body, "Authorization", header)
	v := connect(t, "chargebee", nil, secret)
	requireProved(t, v, r, "basic", "0")
	requireProved(t, connect(t, "chargebee", nil, "user:another", secret), r, "basic", "1")
	requireProved(t, v, deliver(at, "{}", "Authorization", header), "basic", "0")
	requireReason(t, connect(t, "chargebee", nil), r, verification.ReasonSecretMissing)
	requireReason(t, connect(t, "chargebee", nil, "sallyport:another"), r, verification.ReasonSignatureMismatch)
	for text, want := range map[string]verification.Reason{
		"sallyport:a pass:word of 2027": verification.ReasonSignatureMismatch,
		"sallyporT:a pass:word of 2026": verification.ReasonSignatureMismatch,
		"sallyport:a pass:word of 202":  verification.ReasonSignatureMismatch,
		"sallyport":                     verification.ReasonSignatureMismatch,
	} {
		requireReason(t, v, deliver(at, body, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(text))), want)
	}
	requireReason(t, v, deliver(at, body), verification.ReasonSignatureMissing)
	require.NotNil(t, v.Precheck(deliver(at, body).Header), "nothing of the body is read without credentials")
	for _, header := range []string{secret, "Bearer " + header[6:], "Basic *", "Basic", header[6:]} {
		_, refusal := v.Verify(t.Context(), deliver(at, body, "Authorization", header))
		require.NotNil(t, refusal, header)
	}
	requireReason(t, v, deliver(at, body, "Authorization", header, "Authorization", header),
		verification.ReasonSignatureMalformed)
	requireDescribed(t, v, r, verification.Event{Type: "customer_created", ID: "ev_AzZlfQV6qJ9nTDQ", OccurredAt: at.UTC()})
	require.Equal(t, []string{"authorization"}, v.RedactHeaders())
	require.Nil(t, v.SignatureHeaders(), "a password must not be forwarded")
}
