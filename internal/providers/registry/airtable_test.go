package registry_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The notification of Airtable's documentation ("Webhooks overview"), with the hexadecimal HMAC-SHA256 of its body under the
// decoded secret, as the page computes it (here with openssl dgst), verifies. Nothing but the body is signed, and the
// text of the secret is not the key.
func TestAirtable(t *testing.T) {
	t.Parallel()
	const (
		secret    = "YSBtYWMgc2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXM="
		signature = "c341e57f42b215280f5aeeb7f0ea0b9cdb3d2585cb6fce28d66fc97407fe3f76"
		body      = `{"base":{"id":"app00000000000000"},"webhook":{"id":"ach00000000000000"},"timestamp":"2022-02-01T21:25:05.663Z"}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "X-Airtable-Content-MAC", "hmac-sha256="+signature)
	vector{
		slug: "airtable", secret: secret, otherSecret: base64.StdEncoding.EncodeToString([]byte("another secret")), request: r,
		at: "header:X-Airtable-Content-MAC", label: "hmac-sha256=", text: signature, encoding: "hex", signed: []string{"body"},
	}.check(t)
	v := connect(t, "airtable", nil, secret)
	require.Equal(t, verification.Event{Type: "base.changed", TypeSigned: true, OccurredAt: time.Date(2022, 2, 1, 21, 25, 5,
		663_000_000, time.UTC)}, describe(t, v, r))
	requireReason(t, v, deliver(r.Now, body, "X-Airtable-Content-MAC", "hmac-sha256="+hmacHex(secret, body)),
		verification.ReasonSignatureMismatch)
	requireReason(t, v, deliver(r.Now, body, "X-Airtable-Content-MAC", "sha256="+signature),
		verification.ReasonSignatureMalformed)
	require.Equal(t, []string{"x-airtable-content-mac"}, v.RedactHeaders())
	require.Equal(t, 204, v.Ack().Status)
}
