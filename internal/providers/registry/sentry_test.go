package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/verification"
)

// A delivery made by Sentry's documentation ("Webhooks": the hexadecimal HMAC-SHA256 of the body under the client
// secret; computed with openssl dgst) verifies. Its resource, id and time are headers that are known not to be signed.
func TestSentry(t *testing.T) {
	t.Parallel()
	const (
		secret    = "a3f1c0de5ec2e7a3f1c0de5ec2e7a3f1"
		signature = "7bde798685818544eba260555bc08e22c56a40d37405b1c23350cc803edaca53"
		body      = `{"action":"created","installation":{"uuid":"24b12eda-4c56-4c16-8a3c-0f1e2d3c4b5a"},"data":{"issue":{"id":"1170820242",` +
			`"title":"ReferenceError: blooopy is not defined"}},"actor":{"type":"application","id":"sentry","name":"Sentry"}}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "Sentry-Hook-Signature", signature, "Sentry-Hook-Resource", "issue",
		"Sentry-Hook-Timestamp", "1772600767", "Request-ID", "5a46ab5a5a5a4a648d6a5e9a7c1d8b5f")
	vector{
		slug: "sentry", secret: secret, request: r, at: "header:Sentry-Hook-Signature", text: signature, encoding: "hex",
		signed:  []string{"body"},
		outside: []string{"header:Sentry-Hook-Resource", "header:Sentry-Hook-Timestamp", "header:Request-ID"},
	}.check(t)
	v := connect(t, "sentry", nil, secret)
	requireDescribed(t, v, r, verification.Event{Type: "issue.created", ID: "5a46ab5a5a5a4a648d6a5e9a7c1d8b5f"})
	require.Equal(t, []string{"sentry-hook-signature"}, v.RedactHeaders())
}

// A token goes to the host of the organization's data, an OAuth application is one of sentry.io, and the documented
// headers mean a limit with its time.
func TestSentryRequests(t *testing.T) {
	t.Parallel()
	token := requests(t, "sentry", "token", []string{"instance_url", "https://de.sentry.io"}, []string{"token",
		"sntryu_0000000000000000000000sample"})
	req, v, account := token.probe(t, 200, `[{"id":"1","slug":"acme","name":"Acme"}]`)
	require.Equal(t, "GET https://de.sentry.io/api/0/organizations/?per_page=1", target(req))
	require.Equal(t, "Bearer sntryu_0000000000000000000000sample", req.Header.Get("Authorization"))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "1", Label: "acme"}, account)
	req = token.send(t, outbound.Outgoing{Method: "PUT", Path: "/organizations/acme/issues/1/"})
	require.Equal(t, "PUT https://de.sentry.io/api/0/organizations/acme/issues/1/", target(req))

	oauth := requests(t, "sentry", "oauth2", nil, []string{"access_token", "t"})
	require.Equal(t, []string{"sentry.io", "us.sentry.io"}, oauth.hosts(t))
	require.Equal(t, "https://sentry.io/oauth/token/", oauth.endpoints(t).TokenURL)
	require.True(t, oauth.mode.OAuth.PKCE)

	v = token.judge(429, `{"detail":"You are attempting to use this endpoint too frequently."}`,
		"X-Sentry-Rate-Limit-Remaining", "0", "X-Sentry-Rate-Limit-Reset", "1772600772")
	require.True(t, v.Limited)
	require.Equal(t, 5*time.Second, v.Wait)
	require.Equal(t, "You are attempting to use this endpoint too frequently.", v.Message)
	require.True(t, token.judge(401, `{"detail":"Invalid token"}`).AuthFailed)
}
