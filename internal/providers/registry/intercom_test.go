package registry_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/verification"
)

// A delivery made by Intercom's documentation ("Signed Notifications": sha1= and the HMAC-SHA1 of the body in
// hexadecimal; computed with openssl dgst) verifies, and has the topic and the id of its signed body.
func TestIntercom(t *testing.T) {
	t.Parallel()
	const (
		secret    = "3a1f0c2e-9d4b-4f6a-8b7c-5d2e1f0a9b8c"
		signature = "519753c9cc74f5226507a968f4ce984ba6aa20c0"
		body      = `{"type":"notification_event","id":"notif_78c122d0-23ba-11e4-9464-79b01267cc2e","topic":"contact.user.created",` +
			`"app_id":"a86dr8yl","data":{"type":"notification_event_data","item":{"type":"contact","id":"530370b477ad7120001d"}}}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "X-Hub-Signature", "sha1="+signature)
	vector{
		slug: "intercom", secret: secret, request: r, at: "header:X-Hub-Signature", label: "sha1=", text: signature,
		encoding: "hex", signed: []string{"body"},
	}.check(t)
	v := connect(t, "intercom", nil, secret)
	requireDescribed(t, v, r, verification.Event{Type: "contact.user.created", TypeSigned: true,
		ID: "notif_78c122d0-23ba-11e4-9464-79b01267cc2e", IDSigned: true})
	requireReason(t, v, deliver(r.Now, body, "X-Hub-Signature", "sha256="+strings.Repeat("0", 64)),
		verification.ReasonSignatureMalformed)
	require.Equal(t, []string{"x-hub-signature"}, v.RedactHeaders())
}

// The call with HEAD, which Intercom makes when the URL is entered, gets a response, and no other method does.
func TestIntercomHandshake(t *testing.T) {
	t.Parallel()
	v := connect(t, "intercom", nil, "the secret")
	requireHandshakeText(t, v, at(deliver(time.Time{}, ""), http.MethodHead, ""), http.StatusOK, "", "")
	require.Equal(t, []string{http.MethodHead}, v.HandshakeMethods())
	requireNoHandshake(t, v, at(deliver(time.Time{}, "{}"), http.MethodPost, ""))
}

// A token goes to the region's host, that of OAuth is the member that Intercom's tutorial reads, and Intercom's
// documented responses mean a limit with its time.
func TestIntercomRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "intercom", "token", []string{"host", "api.eu.intercom.io"}, []string{"token", "dG9rOmFi"})
	req, v, account := r.probe(t, 200, `{"type":"admin","id":"1","app":{"type":"app","id_code":"a86dr8yl","name":"Acme"}}`)
	require.Equal(t, "GET https://api.eu.intercom.io/me", target(req))
	require.Equal(t, "Bearer dG9rOmFi", req.Header.Get("Authorization"))
	require.Equal(t, "2.16", req.Header.Get("Intercom-Version"))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "a86dr8yl", Label: "Acme"}, account)

	oauth := requests(t, "intercom", "oauth2", nil, []string{"access_token", "t"})
	require.False(t, oauth.mode.OAuth.PKCE)
	require.Equal(t, "https://api.intercom.io/auth/eagle/token", oauth.endpoints(t).TokenURL)
	require.Equal(t, []string{"dG9rOmFi", "", "", ""}, oauth.token(t, `{"token_type":"Bearer","token":"dG9rOmFi"}`))

	v = r.judge(429, `{"type":"error.list","errors":[{"code":"rate_limit_exceeded","message":"Exceeded rate limit of 167 in 10_seconds"}]}`,
		"X-RateLimit-Limit", "167", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1772600777")
	require.True(t, v.Limited)
	require.Equal(t, 10*time.Second, v.Wait)
	require.Equal(t, "Exceeded rate limit of 167 in 10_seconds", v.Message)
	require.True(t, r.judge(401, `{"type":"error.list","errors":[{"code":"unauthorized","message":"Access Token Invalid"}]}`).AuthFailed)
}
