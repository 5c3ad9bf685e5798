package oauth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
)

// A token that is revoked, now or before, is revoked. Everything else is an error that says why.
func TestParseRevocation(t *testing.T) {
	t.Parallel()
	rfc := oauth.RevocationSpec{Sent: []secretbox.Secret{"hunter2"}}
	github := oauth.RevocationSpec{GoneStatuses: []int{404, 422}}
	slack := oauth.RevocationSpec{SuccessWhen: oauth.BodyIs("ok", "true"),
		GoneWhen: []oauth.Test{oauth.BodyIs("error", "token_revoked", "invalid_auth", "account_inactive")}}
	for _, c := range []struct {
		spec   oauth.RevocationSpec
		status int
		body   string
		want   oauth.Kind // empty: revoked
	}{
		{rfc, 200, "", ""}, {rfc, 200, "{}", ""}, {rfc, 204, "", ""}, {rfc, 200, "<html>ok</html>", ""},
		{rfc, 400, `{"error":"invalid_token"}`, ""}, {rfc, 400, `{"error":"invalid_grant"}`, ""},
		{rfc, 400, `{"error":"unsupported_token_type"}`, oauth.Misconfigured},
		{rfc, 401, `{"error":"invalid_client","error_description":"hunter2"}`, oauth.ClientRefused},
		{rfc, 200, `{"error":"invalid_request"}`, oauth.Refused}, {rfc, 404, "", oauth.Refused},
		{rfc, 503, `{"error":"invalid_token"}`, oauth.Temporary}, {rfc, 429, "", oauth.Temporary},
		{rfc, 302, "", oauth.Temporary},
		{github, 204, "", ""}, {github, 404, `{"message":"Not Found"}`, ""}, {github, 422, "x", ""},
		{github, 403, `{"message":"Forbidden"}`, oauth.Refused}, {github, 500, "", oauth.Temporary},
		{slack, 200, `{"ok":true,"revoked":true}`, ""}, {slack, 200, `{"ok":false,"error":"token_revoked"}`, ""},
		{slack, 200, `{"ok":false,"error":"invalid_auth"}`, ""},
		{slack, 200, `{"ok":false,"error":"ratelimited"}`, oauth.Temporary},
		{slack, 200, `{"ok":false,"error":"org_login_required"}`, oauth.Refused}, {slack, 200, "", oauth.Temporary},
		{slack, 200, "<html>", oauth.Temporary}, {slack, 200, `{"ok":true,"a":"` + strings.Repeat("x", 1<<20) + `"}`,
			oauth.Temporary}, {slack, 503, `{"ok":true}`, oauth.Temporary},
	} {
		err := oauth.ParseRevocation(c.spec, c.status, nil, []byte(c.body), now)
		if c.want == "" {
			require.NoError(t, err, "%d %s", c.status, c.body)
			continue
		}
		e := asTokenError(t, err)
		require.Equal(t, c.want, e.Kind, "%d %s", c.status, c.body)
		require.NotContains(t, e.Error(), "hunter2")
	}
}

// The responses of RFC 5849, sections 2.1 and 2.3, and what other servers send.
func TestParseOAuth1Token(t *testing.T) {
	t.Parallel()
	temporary := oauth.OAuth1Spec{Temporary: true}
	got, err := oauth.ParseOAuth1Token(temporary, 200, nil,
		[]byte("oauth_token=hdk48Djdsa&oauth_token_secret=xyz4992k83j47x0b&oauth_callback_confirmed=true"), now)
	require.NoError(t, err)
	require.Equal(t, oauth.OAuth1Token{Token: "hdk48Djdsa", Secret: "xyz4992k83j47x0b", Metadata: map[string]string{}},
		got)
	got, err = oauth.ParseOAuth1Token(oauth.OAuth1Spec{Metadata: map[string]string{"user": "user_id"}}, 200, nil,
		[]byte("oauth_token=j49ddk933skd9dks&oauth_token_secret=ll399dj47dskfjdk&user_id=38895958"), now)
	require.NoError(t, err)
	require.Equal(t, oauth.OAuth1Token{Token: "j49ddk933skd9dks", Secret: "ll399dj47dskfjdk",
		Metadata: map[string]string{"user": "38895958"}}, got)

	for _, c := range []struct {
		spec   oauth.OAuth1Spec
		status int
		body   string
		want   oauth.Kind
	}{
		{temporary, 200, "oauth_token=a&oauth_token_secret=b", oauth.Temporary},
		{temporary, 200, "oauth_token=a&oauth_token_secret=b&oauth_callback_confirmed=false", oauth.Temporary},
		{oauth.OAuth1Spec{}, 200, "oauth_token=a", oauth.Temporary}, {oauth.OAuth1Spec{}, 200, "", oauth.Temporary},
		{oauth.OAuth1Spec{}, 200, "oauth_token=a&oauth_token_secret=%0A", oauth.Temporary},
		{oauth.OAuth1Spec{}, 200, "oauth_token=a&oauth_token_secret=" + strings.Repeat("x", 1<<20), oauth.Temporary},
		{oauth.OAuth1Spec{}, 401, "Invalid request token.", oauth.Refused},
		{oauth.OAuth1Spec{}, 401, "oauth_problem=token_rejected", oauth.Refused},
		{oauth.OAuth1Spec{}, 503, "oauth_token=a&oauth_token_secret=b", oauth.Temporary},
		{oauth.OAuth1Spec{}, 302, "oauth_token=a&oauth_token_secret=b", oauth.Temporary},
	} {
		got, err := oauth.ParseOAuth1Token(c.spec, c.status, nil, []byte(c.body), now.Add(time.Second))
		require.Equal(t, c.want, asTokenError(t, err).Kind, "%d %s", c.status, c.body)
		require.Empty(t, got)
	}
}
