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

// The verifier and the challenge of RFC 7636, appendix B, and the parameters of RFC 6749, section 4.1.1.
func TestAuthorizeURL(t *testing.T) {
	t.Parallel()
	got, err := oauth.AuthorizeURL(oauth.Authorization{URL: "https://example.test/authorize?tenant=a%20b", ClientID: "id",
		RedirectURI: "https://gateway.test/oauth/callback/acme", State: "the state",
		Verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", Scopes: []string{"repo", "read:org"}, ScopeSeparator: ",",
		Params: map[string]string{"access_type": "offline"}, Rename: map[string]string{"client_id": "client_key"}})
	require.NoError(t, err)
	require.Equal(t, "https://example.test/authorize?tenant=a%20b&access_type=offline&client_key=id"+
		"&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256"+
		"&redirect_uri=https%3A%2F%2Fgateway.test%2Foauth%2Fcallback%2Facme&response_type=code&scope=repo%2Cread%3Aorg"+
		"&state=the%20state", got)
}

// The parameters that a browser is sent with arrive as they were given, for any values, and nothing else is in the URL.
func TestAuthorizeURLRoundTrip(t *testing.T) {
	t.Parallel()
	text := rapid.StringN(1, 20, -1)
	scope := rapid.StringMatching(`[!#-+\--\[\]-~]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		a := oauth.Authorization{URL: "https://example.test/authorize", ClientID: text.Draw(t, "client"),
			RedirectURI: text.Draw(t, "redirect"), State: secretbox.Secret(text.Draw(t, "state")),
			Scopes:         rapid.SliceOfN(scope, 0, 4).Draw(t, "scopes"),
			Params:         rapid.MapOfN(rapid.StringMatching(`x_.{1,5}`), text, 0, 3).Draw(t, "params"),
			ScopeSeparator: rapid.SampledFrom([]string{"", " ", ","}).Draw(t, "separator")}
		want := url.Values{"response_type": {"code"}, "client_id": {a.ClientID}, "redirect_uri": {a.RedirectURI},
			"state": {a.State.Reveal()}}
		if len(a.Scopes) > 0 {
			separator := a.ScopeSeparator
			if separator == "" {
				separator = " "
			}
			want.Set("scope", strings.Join(a.Scopes, separator))
		}
		for name, value := range a.Params {
			want.Set(name, value)
		}
		got, err := oauth.AuthorizeURL(a)
		require.NoError(t, err)
		u, err := url.Parse(got)
		require.NoError(t, err)
		query, err := url.ParseQuery(u.RawQuery)
		require.NoError(t, err)
		require.Equal(t, want, query)
		require.Equal(t, "https://example.test/authorize", u.Scheme+"://"+u.Host+u.Path)
		require.NotContains(t, got, "+")
	})
}

// A definition cannot take away what protects the flow, and no error shows a value.
func TestAuthorizeURLRefusals(t *testing.T) {
	t.Parallel()
	type of = oauth.Authorization
	for name, edit := range map[string]func(*of){
		"relative":           func(a *of) { a.URL = "/authorize" },
		"another scheme":     func(a *of) { a.URL = "javascript:alert(1)" },
		"fragment":           func(a *of) { a.URL += "#planted" },
		"empty fragment":     func(a *of) { a.URL += "#" },
		"user":               func(a *of) { a.URL = "https://planted@example.test/" },
		"malformed query":    func(a *of) { a.URL += "?a=%zz" },
		"state in the query": func(a *of) { a.URL += "?state=planted" },
		"no client":          func(a *of) { a.ClientID = "" },
		"no redirect":        func(a *of) { a.RedirectURI = "" },
		"no state":           func(a *of) { a.State = "" },
		"state left out":     func(a *of) { a.Rename = map[string]string{"state": ""} },
		"state replaced":     func(a *of) { a.Params = map[string]string{"state": "planted"} },
		"challenge replaced": func(a *of) { a.Params = map[string]string{"code_challenge": "planted"} },
		"redirect replaced":  func(a *of) { a.Params = map[string]string{"redirect_uri": "planted"} },
		"same name":          func(a *of) { a.Rename = map[string]string{"client_id": "state"} },
		"scope with space":   func(a *of) { a.Scopes = []string{"planted scope"} },
		"scope with comma":   func(a *of) { a.Scopes, a.ScopeSeparator = []string{"planted,b"}, "," },
		"scope with quote":   func(a *of) { a.Scopes = []string{`planted"`} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := of{URL: "https://example.test/authorize", ClientID: "id", RedirectURI: "https://gateway.test/",
				State:    "planted",
				Verifier: oauth.NewVerifier()}
			edit(&a)
			got, err := oauth.AuthorizeURL(a)
			require.ErrorIs(t, err, oauth.ErrSettings)
			require.Empty(t, got)
			require.NotContains(t, err.Error(), "planted")
		})
	}
}

// Scope can be moved to another parameter, and another list added, as Slack has it for users.
func TestAuthorizeURLOfSlack(t *testing.T) {
	t.Parallel()
	got, err := oauth.AuthorizeURL(oauth.Authorization{URL: "https://slack.com/oauth/v2/authorize", ClientID: "id",
		RedirectURI: "https://gateway.test/", State: "s", Scopes: []string{"chat:write"}, ScopeSeparator: ",",
		Rename: map[string]string{"scope": "user_scope", "response_type": ""}})
	require.NoError(t, err)
	require.Equal(t,
		"https://slack.com/oauth/v2/authorize?client_id=id&redirect_uri=https%3A%2F%2Fgateway.test%2F&state=s"+
			"&user_scope=chat%3Awrite", got)
}

// RFC 7636, section 4.1: 43 to 128 unreserved characters, never the same.
func TestNewVerifier(t *testing.T) {
	t.Parallel()
	seen := map[secretbox.Secret]bool{}
	for range 100 {
		verifier := oauth.NewVerifier()
		require.Regexp(t, `^[A-Za-z0-9_-]{43}$`, verifier.Reveal())
		seen[verifier] = true
	}
	require.Len(t, seen, 100)
}
