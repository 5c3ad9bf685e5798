package oauth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
)

func newKey(t *testing.T) (*rsa.PrivateKey, secretbox.Secret) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return key, secretbox.Secret(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// claimsOf verifies a token and returns its key id and claims.
func claimsOf(t *testing.T, key *rsa.PrivateKey, token string) (string, map[string]any) {
	t.Helper()
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256})
	require.NoError(t, err)
	payload, err := parsed.Verify(&key.PublicKey)
	require.NoError(t, err)
	claims := map[string]any{}
	require.NoError(t, json.Unmarshal(payload, &claims))
	return parsed.Signatures[0].Header.KeyID, claims
}

func seconds(at time.Time) float64 { return float64(at.Unix()) }

// RFC 7523: an assertion for a token, and one that proves the client.
func TestJWTBearer(t *testing.T) {
	t.Parallel()
	key, text := newKey(t)
	e := oauth.Endpoint{URL: "https://example.test/token", Auth: oauth.AuthPrivateKeyJWT, Audience: "https://example.test"}
	c := oauth.Client{ID: "client", Key: text, KeyID: "ck"}
	req, err := e.JWTBearer(t.Context(), c, oauth.Assertion{Key: text, KeyID: "ak", Issuer: "me", Subject: "user",
		Claims: map[string]any{"box_sub_type": "user"}, Lifetime: time.Minute}, []string{"read"}, now)
	form, parseErr := url.ParseQuery(read(t, req, err).Body)
	require.NoError(t, parseErr)
	id, claims := claimsOf(t, key, form.Get("assertion"))
	require.Equal(t, "ak", id)
	require.Len(t, claims["jti"], 26)
	delete(claims, "jti")
	require.Equal(t, map[string]any{"iss": "me", "sub": "user", "aud": e.URL, "iat": seconds(now),
		"exp": seconds(now.Add(time.Minute)), "box_sub_type": "user"}, claims)
	id, claims = claimsOf(t, key, form.Get("client_assertion"))
	require.Equal(t, "ck", id)
	delete(claims, "jti")
	require.Equal(t, map[string]any{"iss": "client", "sub": "client", "aud": "https://example.test", "iat": seconds(now),
		"exp": seconds(now.Add(3 * time.Minute))}, claims)
	e.Audience = ""
	req, err = e.Refresh(t.Context(), c, oauth.Refresh{Token: "r"}, now)
	refresh, parseErr := url.ParseQuery(read(t, req, err).Body)
	require.NoError(t, parseErr)
	_, claims = claimsOf(t, key, refresh.Get("client_assertion"))
	require.Equal(t, e.URL, claims["aud"])
	for _, name := range []string{"assertion", "client_assertion"} {
		form.Del(name)
	}
	require.Equal(t, url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "scope": {"read"},
		"client_id": {"client"}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}}, form)

	for name, a := range map[string]oauth.Assertion{
		"no issuer":   {Key: text},
		"no key":      {Issuer: "me"},
		"damaged":     {Issuer: "me", Key: text[:len(text)/2]},
		"algorithm":   {Issuer: "me", Key: text, Algorithm: "none"},
		"own claim":   {Issuer: "me", Key: text, Claims: map[string]any{"exp": 1}},
		"too long":    {Issuer: "me", Key: text, Lifetime: 2 * time.Hour},
		"in the past": {Issuer: "me", Key: text, Lifetime: -time.Hour},
	} {
		_, err := e.JWTBearer(t.Context(), c, a, nil, now)
		require.ErrorIs(t, err, oauth.ErrSettings, name)
		require.NotContains(t, err.Error(), text.Reveal()[40:60], name)
	}
	_, err = e.JWTBearer(t.Context(), c, oauth.Assertion{Issuer: "me", Key: text}, []string{"a b"}, now)
	require.ErrorIs(t, err, oauth.ErrSettings)
}

// The file that Google hands out is enough, and the token endpoint in it is not asked.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	key, text := newKey(t)
	file := func(edit map[string]any) secretbox.Secret {
		fields := map[string]any{"type": "service_account", "client_email": "me@project.iam.gserviceaccount.com",
			"private_key_id": "k1", "private_key": text.Reveal(), "token_uri": "https://evil.test/token"}
		for name, value := range edit {
			fields[name] = value
		}
		return secretbox.Secret(jsonOf(t, fields))
	}
	account, err := oauth.ParseServiceAccount(file(nil))
	require.NoError(t, err)
	e := oauth.Endpoint{URL: "https://oauth2.googleapis.com/token", Auth: oauth.AuthNone}
	req, err := e.JWTBearer(t.Context(), oauth.Client{}, account.Assertion("user@example.test", []string{"a", "b"}), nil,
		now)
	got := read(t, req, err)
	require.Equal(t, e.URL, got.URL)
	form, err := url.ParseQuery(got.Body)
	require.NoError(t, err)
	require.Len(t, form, 2)
	id, claims := claimsOf(t, key, form.Get("assertion"))
	require.Equal(t, "k1", id)
	delete(claims, "jti")
	require.Equal(t, map[string]any{"iss": "me@project.iam.gserviceaccount.com", "sub": "user@example.test", "aud": e.URL,
		"scope": "a b", "iat": seconds(now), "exp": seconds(now.Add(3 * time.Minute))}, claims)

	for name, of := range map[string]secretbox.Secret{
		"empty": "", "no JSON": "planted", "array": "[]", "another type": file(map[string]any{"type": "authorized_user"}),
		"no email": file(map[string]any{"client_email": ""}), "no key": file(map[string]any{"private_key": ""}),
		"key is a number": file(map[string]any{"private_key": 1}),
		"large":           file(map[string]any{"x": strings.Repeat("planted", 1<<13)}),
	} {
		_, err := oauth.ParseServiceAccount(of)
		require.ErrorIs(t, err, oauth.ErrSettings, name)
		require.NotContains(t, err.Error(), "planted", name)
	}
}

// GitHub: "iat" a minute back, "exp" at most 10 minutes ahead, issued by the app.
func TestInstallationToken(t *testing.T) {
	t.Parallel()
	key, text := newKey(t)
	a := oauth.GitHubApp{BaseURL: "https://github.example.test/api/v3/", AppID: "Iv1.1", Key: text, InstallationID: "42"}
	req, err := oauth.InstallationToken(t.Context(), a, now)
	got := read(t, req, err)
	require.Equal(t, "2022-11-28", req.Header.Get("X-Github-Api-Version"))
	token, found := strings.CutPrefix(got.Authorization, "Bearer ")
	require.True(t, found)
	_, claims := claimsOf(t, key, token)
	require.Equal(t, map[string]any{"iss": "Iv1.1", "iat": seconds(now.Add(-time.Minute)),
		"exp": seconds(now.Add(9 * time.Minute))}, claims)
	got.Authorization = ""
	require.Equal(t, sent{http.MethodPost, "https://github.example.test/api/v3/app/installations/42/access_tokens", "",
		"application/vnd.github+json", "", ""}, got)

	for name, edit := range map[string]func(*oauth.GitHubApp){
		"path":   func(a *oauth.GitHubApp) { a.InstallationID = "1/../2" },
		"words":  func(a *oauth.GitHubApp) { a.InstallationID = "planted" },
		"zero":   func(a *oauth.GitHubApp) { a.InstallationID = "0" },
		"query":  func(a *oauth.GitHubApp) { a.BaseURL = "https://example.test/?planted" },
		"no URL": func(a *oauth.GitHubApp) { a.BaseURL = "planted" },
		"no app": func(a *oauth.GitHubApp) { a.AppID = "" },
		"no key": func(a *oauth.GitHubApp) { a.Key = "planted" },
	} {
		bad := a
		edit(&bad)
		_, err := oauth.InstallationToken(t.Context(), bad, now)
		require.ErrorIs(t, err, oauth.ErrSettings, name)
		require.NotContains(t, err.Error(), "planted", name)
	}

	body := `{"token":"ghs_1","expires_at":"2026-03-04T06:06:07Z","permissions":{"issues":"write"}}`
	made, err := oauth.ParseToken(oauth.InstallationTokenSpec(), http.StatusCreated, nil, []byte(body), now)
	require.NoError(t, err)
	require.Equal(t, oauth.Token{Access: "ghs_1", ExpiresAt: now.Add(time.Hour), Metadata: map[string]string{}}, made)
	for status, want := range map[int]oauth.Kind{404: oauth.GrantDead, 401: oauth.ClientRefused, 403: oauth.Refused,
		500: oauth.Temporary, 429: oauth.Temporary} {
		for _, body := range []string{`{"message":"Not Found","status":"404"}`, "<html>"} {
			_, err = oauth.ParseToken(oauth.InstallationTokenSpec(), status, nil, []byte(body), now)
			require.Equal(t, want, asTokenError(t, err).Kind, "%d %s", status, body)
		}
	}
}
