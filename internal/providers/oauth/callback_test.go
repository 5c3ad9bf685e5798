package oauth_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
)

func query(t require.TestingT, text string) url.Values {
	values, err := url.ParseQuery(text)
	require.NoError(t, err)
	return values
}

// A browser brings back a code or an error, with the state and the issuer in both cases.
func TestParseCallback(t *testing.T) {
	t.Parallel()
	spec := oauth.CallbackSpec{Metadata: map[string]string{"realm": "realmId", "none": "none", "bad": "bad"}}
	got, err := oauth.ParseCallback(spec, query(t, "code=SplxlOBeZQQYbYS6WxSbIA&state=xyz&iss=https%3A%2F%2Fas.test&"+
		"realmId=12&bad=a%00b&further=1"))
	require.NoError(t, err)
	require.Equal(t, oauth.Callback{Code: "SplxlOBeZQQYbYS6WxSbIA", State: "xyz", Issuer: "https://as.test",
		Metadata: map[string]string{"realm": "12"}}, got)
	got, err = oauth.ParseCallback(oauth.CallbackSpec{CodeParam: "auth_code"}, query(t, "auth_code=a&state=s&code=b"))
	require.NoError(t, err)
	require.Equal(t, secretbox.Secret("a"), got.Code)

	got, err = oauth.ParseCallback(spec, query(t,
		"error=access_denied&error_description=The+user%0Asaid+no&state=s&iss=i"))
	var e *oauth.AuthorizationError
	require.ErrorAs(t, err, &e)
	require.Equal(t, oauth.AuthorizationError{Code: "access_denied", Description: "The user said no"}, *e)
	require.Equal(t, "Access was declined at the provider. Its message: The user said no", e.Words())
	require.Equal(t, oauth.Callback{State: "s", Issuer: "i", Metadata: map[string]string{}}, got)

	for _, text := range []string{"", "code=a", "state=s", "code=&state=s", "code=a&state=", "code=a&code=b&state=s",
		"code=a&state=s&state=t", "code=a&state=s&iss=i&iss=j", "error=a&error=b&state=s", "code=a%0A&state=s",
		"code=a&state=%C3%A4", "error=access_denied", "code=" + strings.Repeat("x", 32<<10+1) + "&state=s",
		"code=a&state=s&iss=" + strings.Repeat("x", 1025), "code=a&state=s&realmId=1&realmId=2"} {
		got, err := oauth.ParseCallback(spec, query(t, text))
		require.ErrorIs(t, err, oauth.ErrCallback, text)
		require.Empty(t, got)
	}
}

// Each error has words for a page. The part that a provider adds is bounded and printable, and a code is a code or
// nothing.
func TestAuthorizationErrors(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	for _, code := range []string{"access_denied", "invalid_scope", "invalid_request", "server_error", "login_required"} {
		words[(&oauth.AuthorizationError{Code: code}).Words()] = true
	}
	require.Len(t, words, 5)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z_]{1,70}`))
		values := url.Values{"state": {"s"}, "error": {text.Draw(t, "error")},
			"error_description": {text.Draw(t, "description")}}
		_, err := oauth.ParseCallback(oauth.CallbackSpec{}, values)
		require.NotErrorIs(t, err, oauth.ErrCallback)
		require.NotRegexp(t, `[\x00-\x1f\x7f]`, err.Error())
		require.LessOrEqual(t, len([]rune(err.Error())), 300+64+120)
	})
}

// RFC 9207, section 2.4: an issuer that was sent is compared as text, and one that was promised is required.
func TestCheckIssuer(t *testing.T) {
	t.Parallel()
	const known = "https://as.test"
	for _, c := range []struct {
		known, sent string
		promised    bool
		want        error
	}{
		{known, known, false, nil}, {known, known, true, nil}, {known, "", false, nil}, {"", "", true, nil},
		{"", "https://other.test", false, nil}, {known, "", true, oauth.ErrIssuer},
		{known, "https://other.test", false, oauth.ErrIssuer}, {known, known + "/", false, oauth.ErrIssuer},
		{known, "HTTPS://AS.TEST", false, oauth.ErrIssuer},
	} {
		require.ErrorIs(t, oauth.CheckIssuer(c.known, c.sent, c.promised), c.want)
	}
}

// The callback of OAuth 1.0a (RFC 5849, section 2.2), and what Trello sends when a user declines.
func TestParseOAuth1Callback(t *testing.T) {
	t.Parallel()
	token, verifier, err := oauth.ParseOAuth1Callback(query(t, "oauth_token=hdk48Djdsa&oauth_verifier=473f82d3"))
	require.NoError(t, err)
	require.Equal(t, [2]secretbox.Secret{"hdk48Djdsa", "473f82d3"}, [2]secretbox.Secret{token, verifier})
	var e *oauth.AuthorizationError
	for _, text := range []string{"denied=hdk48Djdsa", "oauth_problem=user_refused&oauth_token=a"} {
		_, _, err = oauth.ParseOAuth1Callback(query(t, text))
		require.ErrorAs(t, err, &e)
		require.Equal(t, "access_denied", e.Code)
	}
	for _, text := range []string{"", "oauth_token=a", "oauth_verifier=b", "oauth_token=a&oauth_token=b&oauth_verifier=c",
		"oauth_token=a%0A&oauth_verifier=b"} {
		_, _, err = oauth.ParseOAuth1Callback(query(t, text))
		require.ErrorIs(t, err, oauth.ErrCallback, text)
	}
}
