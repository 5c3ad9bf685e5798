package registry_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
)

// SendGrid's key goes to the host of the region only, the probe needs no permission, and the limit ends when the header
// says. The responses are those of SendGrid's pages about limits and errors.
func TestSendGridRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "sendgrid", "api_key", []string{"host", "api.eu.sendgrid.com"}, []string{"token", "SG.a.b"})
	req, v, account := r.probe(t, 200, `{"scopes":["mail.send"]}`)
	require.Equal(t, "GET https://api.eu.sendgrid.com/v3/scopes", target(req))
	require.Equal(t, http.Header{"Authorization": {"Bearer SG.a.b"}, "Accept": {"application/json"},
		"User-Agent": {"Sallyport"}}, req.Header)
	require.True(t, v.OK)
	require.Empty(t, account)
	require.Equal(t, []string{"api.eu.sendgrid.com"}, r.hosts(t))
	v = r.judge(429, `{"errors":[{"field":null,"message":"too many requests"}]}`, "X-RateLimit-Limit", "150",
		"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1772600797")
	require.Equal(t, outbound.Verdict{Limited: true, Retryable: true, Wait: 30 * time.Second,
		Message: "too many requests"}, v)
	require.True(t, r.judge(401, `{"errors":[{"message":"authorization required"}]}`).AuthFailed)
	_, problems := r.engine.ResolveConfig("api_key", map[string]string{"host": "api.evil.example"})
	require.Len(t, problems, 1)
}

// Mailgun's key is the password of the user api, at the host of the region only.
func TestMailgunRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "mailgun", "api_key", nil, []string{"api_key", "key-1"})
	req, v, _ := r.probe(t, 200, `{"total_count":0,"items":[]}`)
	require.Equal(t, "GET https://api.mailgun.net/v4/domains?limit=1", target(req))
	user, password, _ := req.BasicAuth()
	require.Equal(t, []string{"api", "key-1"}, []string{user, password})
	require.True(t, v.OK)
	require.Equal(t, []string{"api.mailgun.net"}, r.hosts(t))
	require.Equal(t, []string{"api.eu.mailgun.net"}, hostsOf(t, "mailgun", "api_key", "host", "api.eu.mailgun.net"))
	require.True(t, r.judge(401, `Forbidden`).AuthFailed)
	denied := r.judge(403, `{"message":"Access denied"}`)
	require.True(t, denied.ScopeMissing && !denied.AuthFailed)
	require.Equal(t, "Access denied", denied.Message)
	require.True(t, r.judge(429, `{"message":"Too many requests"}`).Limited)
}

// Zoom's two kinds of apps have the same token endpoint, a server-to-server app with the account and a grant of Zoom's
// own. The user is that of a response in Zoom's description of its API.
func TestZoomRequests(t *testing.T) {
	t.Parallel()
	user := requests(t, "zoom", "oauth2", nil, []string{"access_token", "a"})
	req, v, account := user.probe(t, 200, `{"id":"KDcuGIm1QgePTO8WbOqwIQ","email":"jchill@example.com","type":2}`)
	require.Equal(t, "GET https://api.zoom.us/v2/users/me", target(req))
	require.Equal(t, "Bearer a", req.Header.Get("Authorization"))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "KDcuGIm1QgePTO8WbOqwIQ", Label: "jchill@example.com"}, account)
	at := user.endpoints(t)
	require.Equal(t, []string{"https://zoom.us/oauth/authorize", "https://zoom.us/oauth/token", "https://zoom.us/oauth/revoke"},
		[]string{at.AuthorizeURL, at.TokenURL, at.RevokeURL})
	require.Equal(t, []string{"api.zoom.us", "zoom.us"}, user.hosts(t))

	server := requests(t, "zoom", "server_to_server", []string{"account_id", "Acc1"},
		[]string{"client_id", "c", "client_secret", "s", "access_token", "a"})
	at = server.endpoints(t)
	require.Equal(t, "https://zoom.us/oauth/token", at.TokenURL)
	require.Equal(t, map[string]secretbox.Secret{"grant_type": "account_credentials", "account_id": "Acc1"}, at.TokenParams)
	require.Equal(t, []string{"T", "", "1h0m0s", "user:read:admin"}, server.token(t,
		`{"access_token":"T","token_type":"bearer","expires_in":3600,"scope":"user:read:admin"}`))
	_, problems := server.engine.ResolveConfig("server_to_server", nil)
	require.Len(t, problems, 1)

	require.True(t, user.judge(401, `{"code":124,"message":"Invalid access token."}`).AuthFailed)
	missing := user.judge(400, `{"code":4711,"message":"Invalid access token, does not contain scopes:[meeting:write]."}`)
	require.True(t, missing.ScopeMissing && !missing.AuthFailed)
}
