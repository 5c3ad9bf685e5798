package oauth_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// sent is a request as it would leave.
type sent struct {
	Method, URL, ContentType, Accept, Authorization, Body string
}

func read(t require.TestingT, req *http.Request, err error) sent {
	require.NoError(t, err)
	body, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	require.EqualValues(t, len(body), req.ContentLength)
	return sent{req.Method, req.URL.String(), req.Header.Get("Content-Type"), req.Header.Get("Accept"),
		req.Header.Get("Authorization"), string(body)}
}

const formType, jsonType = "application/x-www-form-urlencoded", "application/json"

// Each grant is what its RFC prescribes. The header is that of RFC 6749, section 2.3.1.
func TestGrants(t *testing.T) {
	t.Parallel()
	e := oauth.Endpoint{URL: "https://example.test/token"}
	c := oauth.Client{ID: "s6BhdRkqt3", Secret: "7Fjfp0ZBr1KtDRbnfVdmIw"}
	const header = "Basic czZCaGRSa3F0Mzo3RmpmcDBaQnIxS3REUmJuZlZkbUl3"
	form := func(body string) sent {
		return sent{http.MethodPost, e.URL, formType, jsonType, header, body}
	}
	// RFC 6749, section 4.1.3, and RFC 7636, section 4.5.
	req, err := e.Exchange(t.Context(), c, oauth.Code{Code: "SplxlOBeZQQYbYS6WxSbIA",
		RedirectURI: "https://client.example.com/cb"}, now)
	require.Equal(t, form("code=SplxlOBeZQQYbYS6WxSbIA&grant_type=authorization_code"+
		"&redirect_uri=https%3A%2F%2Fclient.example.com%2Fcb"), read(t, req, err))
	req, err = e.Exchange(t.Context(), c, oauth.Code{Code: "a", RedirectURI: "b", Verifier: "v", Param: "auth_code"}, now)
	require.Equal(t, form("auth_code=a&code_verifier=v&grant_type=authorization_code&redirect_uri=b"), read(t, req, err))
	// Section 6.
	req, err = e.Refresh(t.Context(), c, oauth.Refresh{Token: "tGzv3JOkF0XG5Qx2TlKWIA"}, now)
	require.Equal(t, form("grant_type=refresh_token&refresh_token=tGzv3JOkF0XG5Qx2TlKWIA"), read(t, req, err))
	// Section 4.4.2.
	req, err = e.ClientCredentials(t.Context(), c, []string{"a", "b"}, now)
	require.Equal(t, form("grant_type=client_credentials&scope=a%20b"), read(t, req, err))
	req, err = e.ClientCredentials(t.Context(), c, nil, now)
	require.Equal(t, form("grant_type=client_credentials"), read(t, req, err))
	// RFC 7009, section 2.1.
	req, err = e.Revoke(t.Context(), c, "45ghiukldjahdnhzdauz", "refresh_token", now)
	require.Equal(t, form("token=45ghiukldjahdnhzdauz&token_type_hint=refresh_token"), read(t, req, err))
}

// The departures from the RFC are data of the endpoint.
func TestDepartures(t *testing.T) {
	t.Parallel()
	c := oauth.Client{ID: "id", Secret: "s&c"}
	for name, of := range map[string]struct {
		edit func(*oauth.Endpoint)
		want sent
	}{
		"body": {func(e *oauth.Endpoint) { e.Auth = oauth.AuthBody },
			sent{ContentType: formType, Body: "client_id=id&client_secret=s%26c&grant_type=refresh_token&refresh_token=r"}},
		"none": {func(e *oauth.Endpoint) { e.Auth = oauth.AuthNone },
			sent{ContentType: formType, Body: "client_id=id&grant_type=refresh_token&refresh_token=r"}},
		"JSON": {func(e *oauth.Endpoint) { e.Auth, e.Format = oauth.AuthBody, oauth.FormatJSON },
			sent{ContentType: jsonType,
				Body: `{"client_id":"id","client_secret":"s&c","grant_type":"refresh_token","refresh_token":"r"}`}},
		"names": {func(e *oauth.Endpoint) {
			e.Auth, e.Rename = oauth.AuthBody, map[string]string{"client_id": "client_key", "refresh_token": "fb_token"}
			e.Params = map[string]secretbox.Secret{"grant_type": "fb_exchange_token", "expiring": "1"}
		}, sent{ContentType: formType,
			Body: "client_key=id&client_secret=s%26c&expiring=1&fb_token=r&grant_type=fb_exchange_token"}},
		"left out": {func(e *oauth.Endpoint) { e.Auth, e.Rename = oauth.AuthNone, map[string]string{"grant_type": ""} },
			sent{ContentType: formType, Body: "client_id=id&refresh_token=r"}},
		"query and header": {func(e *oauth.Endpoint) {
			e.URL += "?api=2"
			e.Auth, e.Header = oauth.AuthNone, map[string]string{"Accept": "application/vnd.acme+json"}
		}, sent{URL: "https://example.test/token?api=2", ContentType: formType, Accept: "application/vnd.acme+json",
			Body: "client_id=id&grant_type=refresh_token&refresh_token=r"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := oauth.Endpoint{URL: "https://example.test/token"}
			of.edit(&e)
			want := of.want
			want.Method = http.MethodPost
			for field, value := range map[*string]string{&want.URL: e.URL, &want.Accept: jsonType} {
				if *field == "" {
					*field = value
				}
			}
			req, err := e.Refresh(t.Context(), c, oauth.Refresh{Token: "r"}, now)
			require.Equal(t, want, read(t, req, err))
		})
	}
	e := oauth.Endpoint{URL: "https://example.test/token", Auth: oauth.AuthNone,
		Params: map[string]secretbox.Secret{"a": "1",
			"b": "2"}}
	req, err := e.Refresh(t.Context(), c, oauth.Refresh{Token: "r", Scopes: []string{"x"},
		Params: map[string]secretbox.Secret{"a": "3"}}, now)
	require.Equal(t, "a=3&b=2&client_id=id&grant_type=refresh_token&refresh_token=r&scope=x", read(t, req, err).Body)
}

// RFC 6749, section 2.3.1: a server that decodes the header as it prescribes reads any id and secret.
func TestBasicRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 30, -1)
		c := oauth.Client{ID: text.Draw(t, "id"), Secret: secretbox.Secret(text.Draw(t, "secret"))}
		req, err := oauth.Endpoint{URL: "https://example.test/"}.ClientCredentials(t.Context(), c, nil, now)
		encoded, found := strings.CutPrefix(read(t, req, err).Authorization, "Basic ")
		require.True(t, found)
		plain, err := base64.StdEncoding.DecodeString(encoded)
		require.NoError(t, err)
		id, secret, found := strings.Cut(string(plain), ":")
		require.True(t, found)
		for encoded, want := range map[string]string{id: c.ID, secret: c.Secret.Reveal()} {
			got, err := url.QueryUnescape(encoded)
			require.NoError(t, err)
			if id != secret {
				require.Equal(t, want, got)
			}
		}
	})
}

// No request is made of settings that would send something else than the protocol, and no error shows a credential.
func TestRequestRefusals(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	good := oauth.Endpoint{URL: "https://example.test/token"}
	c := oauth.Client{ID: "id", Secret: "planted"}
	refresh := func(edit func(*oauth.Endpoint, *oauth.Client, *oauth.Refresh)) func() (*http.Request, error) {
		return func() (*http.Request, error) {
			e, c, r := good, c, oauth.Refresh{Token: "planted"}
			edit(&e, &c, &r)
			return e.Refresh(ctx, c, r, now)
		}
	}
	type (
		end    = *oauth.Endpoint
		client = *oauth.Client
		ref    = *oauth.Refresh
	)
	for name, build := range map[string]func() (*http.Request, error){
		"no token":     refresh(func(_ end, _ client, r ref) { r.Token = "" }),
		"no client":    refresh(func(_ end, c client, _ ref) { c.ID = "" }),
		"no secret":    refresh(func(_ end, c client, _ ref) { c.Secret = "" }),
		"no in body":   refresh(func(e end, c client, _ ref) { e.Auth, c.Secret = oauth.AuthBody, "" }),
		"no key":       refresh(func(e end, _ client, _ ref) { e.Auth = oauth.AuthPrivateKeyJWT }),
		"unknown auth": refresh(func(e end, _ client, _ ref) { e.Auth = "tls" }),
		"format":       refresh(func(e end, _ client, _ ref) { e.Format = "xml" }),
		"URL":          refresh(func(e end, _ client, _ ref) { e.URL = "https:planted" }),
		"host only":    refresh(func(e end, _ client, _ ref) { e.URL = "example.test/planted" }),
		"replaces": refresh(func(e end, _ client,
			_ ref) {
			e.Params = map[string]secretbox.Secret{"refresh_token": "x"}
		}),
		"replaces too": refresh(func(_ end, _ client,
			r ref) {
			r.Params = map[string]secretbox.Secret{"refresh_token": "x"}
		}),
		"nameless":     refresh(func(e end, _ client, _ ref) { e.Params = map[string]secretbox.Secret{"": "x"} }),
		"same names":   refresh(func(e end, _ client, _ ref) { e.Rename = map[string]string{"refresh_token": "grant_type"} }),
		"header name":  refresh(func(e end, _ client, _ ref) { e.Header = map[string]string{"a b": "x"} }),
		"header value": refresh(func(e end, _ client, _ ref) { e.Header = map[string]string{"a": "x\r\nb: planted"} }),
		"header host":  refresh(func(e end, _ client, _ ref) { e.Header = map[string]string{"host": "other.test"} }),
		"scope":        refresh(func(_ end, _ client, r ref) { r.Scopes = []string{"planted b"} }),
		"large":        refresh(func(_ end, _ client, r ref) { r.Token = secretbox.Secret(strings.Repeat("x", 1<<19)) }),
		"no code": func() (*http.Request, error) {
			return good.Exchange(ctx, c, oauth.Code{RedirectURI: "planted"}, now)
		},
		"code param": func() (*http.Request, error) {
			return good.Exchange(ctx, c, oauth.Code{Code: "planted", RedirectURI: "b", Param: "redirect_uri"}, now)
		},
		"client scope": func() (*http.Request, error) { return good.ClientCredentials(ctx, c, []string{""}, now) },
		"no revoked":   func() (*http.Request, error) { return good.Revoke(ctx, c, "", "", now) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := build()
			require.ErrorIs(t, err, oauth.ErrSettings)
			require.Nil(t, req)
			require.NotContains(t, err.Error(), "planted")
		})
	}
}

// The three requests of OAuth 1.0a that are not the provider's API.
func TestOAuth1Requests(t *testing.T) {
	t.Parallel()
	o := oauth.OAuth1{ConsumerKey: "k", ConsumerSecret: "s", Method: "HMAC-SHA1"}
	req, err := o.TemporaryToken(t.Context(), "https://example.test/request_token?scope=read", "https://gateway.test/cb",
		now)
	got := read(t, req, err)
	require.Contains(t, got.Authorization, `oauth_callback="https%3A%2F%2Fgateway.test%2Fcb"`)
	require.NotContains(t, got.Authorization, "oauth_token=")
	req, err = o.AccessToken(t.Context(), "https://example.test/access_token", oauth.OAuth1Token{Token: "t", Secret: "ts"},
		"v", now)
	got = read(t, req, err)
	require.Contains(t, got.Authorization, `oauth_token="t", oauth_verifier="v"`)
	require.Equal(t, http.MethodPost, got.Method)
	authorize, err := oauth.OAuth1AuthorizeURL("https://example.test/authorize?a=1", "t/1",
		map[string]string{"name": "Us"})
	require.NoError(t, err)
	require.Equal(t, "https://example.test/authorize?a=1&name=Us&oauth_token=t%2F1", authorize)

	_, err = o.TemporaryToken(t.Context(), "https://example.test/", "", now)
	require.ErrorIs(t, err, oauth.ErrSettings)
	_, err = o.AccessToken(t.Context(), "https://example.test/", oauth.OAuth1Token{Token: "t"}, "", now)
	require.ErrorIs(t, err, oauth.ErrSettings)
	_, err = oauth.OAuth1{Method: "HMAC-SHA1"}.TemporaryToken(t.Context(), "https://example.test/", "cb", now)
	require.ErrorIs(t, err, oauth.ErrSettings)
	for endpoint, token := range map[string]secretbox.Secret{"https://example.test/": "", "/authorize": "t",
		"https://example.test/?oauth_token=x": "t"} {
		_, err = oauth.OAuth1AuthorizeURL(endpoint, token, nil)
		require.ErrorIs(t, err, oauth.ErrSettings)
	}
	_, err = oauth.OAuth1AuthorizeURL("https://example.test/", "t", map[string]string{"oauth_token": "x"})
	require.ErrorIs(t, err, oauth.ErrSettings)
}

// asTokenError returns the error of a parser, which is nothing else.
func asTokenError(t require.TestingT, err error) *oauth.TokenError {
	var e *oauth.TokenError
	require.ErrorAs(t, err, &e)
	return e
}

// jsonOf is a body.
func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}
