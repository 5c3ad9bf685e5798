package registry_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	require.Equal(t, outbound.Verdict{Limited: true, Retryable: true, Wait: 30 * time.Second, Message: "too many requests"}, v)
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
