package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

const (
	dropboxSecret = "an app secret of dropbox"
	dropboxBody   = `{"list_folder":{"accounts":["dbid:AAH4f99T0taONIb-OurWxbNQ6ywGRopQngc"]},"delta":{"users":[12345678]}}`
)

func dropboxDelivery(body string) *verification.Request {
	return deliver(time.Unix(1772600767, 0), body, "X-Dropbox-Signature", hmacHex(dropboxSecret, body))
}

// A notification that is signed as Dropbox documents it verifies, and nothing else does.
func TestDropboxSignature(t *testing.T) {
	t.Parallel()
	vector{
		slug: "dropbox", secret: dropboxSecret, request: dropboxDelivery(dropboxBody),
		at: "header:X-Dropbox-Signature", text: hmacHex(dropboxSecret, dropboxBody), encoding: "hex",
		signed: []string{"body"},
	}.check(t)
	v := connect(t, "dropbox", nil, dropboxSecret)
	for body, want := range map[string]string{dropboxBody: "list_folder", `{"delta":{"users":[1]}}`: "delta",
		`{}`: "unknown"} {
		requireDescribed(t, v, dropboxDelivery(body), verification.Event{Type: want, TypeSigned: true})
	}
	require.Equal(t, []string{"x-dropbox-signature"}, v.RedactHeaders())
}

// Dropbox's challenge is echoed as plain text, and nothing that is longer than a challenge.
func TestDropboxChallenge(t *testing.T) {
	t.Parallel()
	v := connect(t, "dropbox", nil, dropboxSecret)
	get := func(query string) *verification.Request { return at(deliver(time.Time{}, ""), "GET", query) }
	requireHandshakeText(t, v, get("challenge=abc123"), 200, "text/plain; charset=utf-8", "abc123")
	requireHandshakeText(t, v, get("challenge=%3Cscript%3E"), 200, "text/plain; charset=utf-8", "<script>")
	requireHandshakeRefused(t, v, get("challenge="+strings.Repeat("a", 1025)), verification.ReasonHandshakeMalformed)
	requireNoHandshake(t, v, get("challenge=a&challenge=b"))
	requireNoHandshake(t, v, get(""))
	requireNoHandshake(t, v, at(dropboxDelivery(dropboxBody), "POST", "challenge=abc123"))
}
