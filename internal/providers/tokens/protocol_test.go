package tokens_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/tokens"
)

// definition has every mode with a token protocol, at the server that the connection names.
const definition = `
connection_config:
  base_url: {type: url, title: URL, example: "https://api.example.com"}
  tenant: {title: Tenant, optional: true, source: token_response}
base_url: "${config.base_url}/api"
allowed_hosts: ["${config.base_url}"]
auth:
  - mode: oauth2
    authorize_url: "${config.base_url}/authorize"
    token_url: "${config.base_url}/token"
    revoke_url: "${config.base_url}/revoke"
    default_scopes: [read, write]
    token_metadata: {tenant: /tenant}
    refresh: {rotating: true}
  - {mode: oauth2_client_credentials, token_url: "${config.base_url}/token", default_scopes: [all]}
  - mode: oauth2
    name: keyed
    authorize_url: "${config.base_url}/authorize"
    token_url: "${config.base_url}/token"
    client_auth: private_key_jwt
  - mode: oauth2_client_credentials
    name: keyed_own
    token_url: "${config.base_url}/token"
    client_auth: private_key_jwt
  - mode: jwt_bearer
    name: named
    token_url: "${config.base_url}/token"
    jwt: {algorithm: RS256, iss: app, aud: a, key_id: "${cred.key_id}"}
  - mode: jwt_bearer
    token_url: "${config.base_url}/token"
    jwt: {algorithm: RS256, iss: app, sub: "${cred.subject}", aud: "${config.base_url}", claims: {team: blue}}
  - {mode: jwt_bearer, name: jwt, jwt: {algorithm: RS256, iss: app, lifetime: 10m}}
  - {mode: service_account, token_url: "${config.base_url}/token", default_scopes: [calendar]}
  - mode: github_app
    token_url: "${config.base_url}/app/installations/${cred.installation_id}/access_tokens"
    token: {access: /token, expires_at: /expires_at}
    revoke:
      method: DELETE
      url: "${config.base_url}/installation/token"
      headers: {Authorization: "Bearer ${cred.access_token}"}
      ok: [204]
      gone: [401]
  - mode: session_token
    login: {url: "${config.base_url}/login", json: {username: "${cred.username}", password: "${cred.password}"}}
    token: {access: /id, default_ttl: 1h}
    token_metadata: {tenant: /tenant}
  - mode: oauth1
    authorize_url: "${config.base_url}/authorize1"
    request_token_url: "${config.base_url}/temporary"
    token_url: "${config.base_url}/access"
`

const (
	clientSecret = "CLIENT-SECRET-mark-77aa"
	refreshToken = "REFRESH-mark-3b51-old"
)

// world is an engine whose provider is a server of the test.
type world struct {
	protocol *tokens.Protocol
	engine   *outbound.Engine
	server   *httptest.Server
	now      time.Time
}

func compile(t testing.TB) *outbound.Engine {
	t.Helper()
	var d outbound.Declaration
	require.NoError(t, yaml.UnmarshalWithOptions([]byte(definition), &d, yaml.Strict()))
	engine, err := outbound.Compile(d)
	require.NoError(t, err)
	return engine
}

func newWorld(t *testing.T, respond http.HandlerFunc) *world {
	t.Helper()
	w := &world{engine: compile(t), server: httptest.NewServer(respond),
		now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	await.Close(t, w.server)
	w.protocol = tokens.NewProtocol(egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{}),
		clock.NewManual(w.now))
	return w
}

func (w *world) source(mode string, values map[string]secretbox.Secret) tokens.Source {
	return tokens.Source{Engine: w.engine,
		Target: outbound.Target{Mode: mode, AllowHTTP: true,
			Config: outbound.Config{"base_url": secretbox.Secret(w.server.URL)}},
		OpenClient: func([]string) (outbound.Client, error) {
			return outbound.Client{ID: "client-1", Secret: clientSecret, PrivateKey: secretbox.Secret(rsaKey),
				KeyID: "of-the-config"}, nil
		},
		OpenCredentials: func() (map[string]secretbox.Secret, error) { return values, nil }}
}

func refreshable() map[string]secretbox.Secret {
	return map[string]secretbox.Secret{"access_token": "ACCESS-mark-old-0001", "refresh_token": refreshToken}
}

// rsaKey is a key of the tests.
var rsaKey = func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}()

// requireKind returns the text of an error of that kind.
func requireKind(t *testing.T, want oauth.Kind, err error) string {
	t.Helper()
	var e *oauth.TokenError
	require.ErrorAs(t, err, &e)
	require.Equal(t, want, e.Kind, err)
	return e.Error()
}

// A refresh sends the refresh token and the client to the token endpoint alone, and returns what the vault, the
// schedule and the connection need: new values, the expiry, the scopes, and settings of the response.
func TestRefresh(t *testing.T) {
	t.Parallel()
	var form url.Values
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.ParseForm() == nil && r.URL.Path == "/token" {
			form = r.PostForm
		}
		_, _ = rw.Write([]byte(`{"access_token":"new-a","refresh_token":"new-r","expires_in":3600,"scope":"write read",
			"tenant":"t-9"}`))
	})
	g, err := w.protocol.Refresh(t.Context(), w.source("oauth2", refreshable()))
	require.NoError(t, err)
	require.Equal(t, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refreshToken},
		"client_id": {"client-1"}, "client_secret": {clientSecret}}, form)
	require.Equal(t, &tokens.Grant{Values: map[string]secretbox.Secret{"access_token": "new-a", "refresh_token": "new-r"},
		ExpiresAt: w.now.Add(time.Hour), Scopes: []string{"read", "write"}, Config: map[string]string{"tenant": "t-9"}}, g)
}

// Endpoints that redirect, lie about types, respond with an error as 200 or with too much, or are broken do not condemn
// a grant: only their word for a dead grant does. No error quotes a secret that was sent, and no setting is taken over
// that has a token in it.
func TestEndpointsThatMisbehave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		respond http.HandlerFunc
		kind    oauth.Kind
	}{
		"dead": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"token ` + refreshToken + ` is dead"}`))
		}, oauth.GrantDead},
		"client": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"invalid_client","error_description":"bad ` + clientSecret + `"}`))
		}, oauth.ClientRefused},
		"200 with an error": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		}, oauth.GrantDead},
		"wrong types": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"access_token":17,"refresh_token":["x"],"expires_in":{}}`))
		}, oauth.Temporary},
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`<html>` + refreshToken))
		}, oauth.Temporary},
		"outage with a dead grant": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		}, oauth.Temporary},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, oauth.Temporary},
		"10 MB": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"access_token":"a","x":"` + strings.Repeat("x", 10<<20) + `"}`))
		}, oauth.Temporary},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4000")
			_, _ = w.Write([]byte(`{"access_token":"a"`))
		}, oauth.Temporary},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paths := make(chan string, 10)
			w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
				paths <- r.URL.Path
				c.respond(rw, r)
			})
			_, err := w.protocol.Refresh(t.Context(), w.source("oauth2", refreshable()))
			text := requireKind(t, c.kind, err)
			require.NotContains(t, text, refreshToken)
			require.NotContains(t, text, clientSecret)
			require.Equal(t, "/token", await.Value(t, "the request", paths))
			require.Empty(t, paths, "nothing was followed")
		})
	}
}

// A setting that a token response brings is foreign input: one with a token in it is left out, because settings are
// shown and stored in clear.
func TestSettingsHaveNoSecret(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"new-a", "x" + refreshToken + "y", clientSecret} {
		w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
			body, _ := json.Marshal(map[string]string{"access_token": "new-a", "tenant": value})
			_, _ = rw.Write(body)
		})
		g, err := w.protocol.Refresh(t.Context(), w.source("oauth2", refreshable()))
		require.NoError(t, err)
		require.Empty(t, g.Config)
	}
}

// A token among the granted scopes, in clear or encoded, is not taken for one: scopes are stored and shown as they are.
func TestScopesHaveNoSecret(t *testing.T) {
	t.Parallel()
	const access, refresh = "the-new-access-token", "the-new-refresh-token"
	w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
		body, _ := json.Marshal(map[string]string{"access_token": access, "refresh_token": refresh,
			"scope": strings.Join([]string{"read", access, "x:" + refresh, hex.EncodeToString([]byte(refresh)),
				base64.RawURLEncoding.EncodeToString([]byte("a" + access)), clientSecret}, " ")})
		_, _ = rw.Write(body)
	})
	g, err := w.protocol.Refresh(t.Context(), w.source("oauth2", refreshable()))
	require.NoError(t, err)
	require.Equal(t, []string{"read"}, g.Scopes)
}

// Credentials that were given for one host are not even opened for an endpoint on another.
func TestOtherHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, hosts := range [][]string{{}, {"api.example.com"}, {strings.TrimPrefix(w.server.URL, "http://")}} {
		s := w.source("oauth2", nil)
		s.Hosts = hosts
		s.OpenClient = func([]string) (outbound.Client, error) {
			t.Error("the client was opened")
			return outbound.Client{}, nil
		}
		s.OpenCredentials = func() (map[string]secretbox.Secret, error) {
			t.Error("the credentials were opened")
			return nil, nil
		}
		_, err := w.protocol.Refresh(t.Context(), s)
		require.ErrorIs(t, err, tokens.ErrHosts)
		_, err = w.protocol.Exchange(t.Context(), s, oauth.Code{Code: "c", RedirectURI: "https://x.example"})
		require.ErrorIs(t, err, tokens.ErrHosts)
		require.ErrorIs(t, w.protocol.Revoke(t.Context(), s), tokens.ErrHosts)
	}
	s := w.source("oauth2", refreshable())
	s.Target.AllowHTTP = false
	_, err := w.protocol.Refresh(t.Context(), s)
	requireKind(t, oauth.Misconfigured, err)
}

// A setting that came with a token is dropped if it has a secret in it, and not because of a user name or a number.
func TestSettingsMayShowUserNames(t *testing.T) {
	t.Parallel()
	for tenant, kept := range map[string]bool{"alice-eu": true, "good-password": false, "42": true} {
		w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
			body, _ := json.Marshal(map[string]string{"id": "minted", "tenant": tenant})
			_, _ = rw.Write(body)
		})
		g, err := w.protocol.Mint(t.Context(), w.source("session_token", map[string]secretbox.Secret{"username": "alice",
			"password": "good-password"}), nil)
		require.NoError(t, err)
		require.Equal(t, kept, g.Config["tenant"] == tenant, tenant)
	}
}

// An endpoint that never responds ends as an outage when its limit has passed, or the caller's: a caller may have none.
func TestEndpointHangs(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"of the exchange", "of the caller"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			reached, release := make(chan struct{}), make(chan struct{})
			w := newWorld(t, func(http.ResponseWriter, *http.Request) {
				close(reached)
				<-release
			})
			t.Cleanup(func() { close(release) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if limit == "of the exchange" {
				require.Equal(t, tokens.ExchangeTimeout, w.protocol.SetTimeout(50*time.Millisecond))
			}
			ended := make(chan error, 1)
			go func() {
				_, err := w.protocol.Refresh(ctx, w.source("oauth2", refreshable()))
				ended <- err
			}()
			if limit == "of the caller" {
				await.Value(t, "the request", reached)
				cancel()
			}
			requireKind(t, oauth.Temporary, await.Value(t, "the end of the exchange", ended))
		})
	}
}

// minted responds to each way to mint a token, if the request is the one of that way.
func minted(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/login":
			var in map[string]string
			if json.NewDecoder(r.Body).Decode(&in) != nil || in["password"] != "good" {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = w.Write([]byte(`{"message":"no such user, or not this password: ` + in["password"] + `"}`))
				return
			}
			_, _ = w.Write([]byte(`{"id":"minted"}`))
		case "/app/installations/42/access_tokens":
			if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ey") {
				t.Error("no token of the app")
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"token":"minted","expires_at":"2026-03-04T06:06:07Z"}`))
		case "/app/installations/43/access_tokens":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"message":"Not Found"}`))
		case "/token":
			_ = r.ParseForm()
			if r.Form.Get("grant_type") == "client_credentials" && r.Form.Get("client_secret") != "good" {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = w.Write([]byte(`{"error":"invalid_client"}`))
				return
			}
			_, _ = w.Write([]byte(`{"access_token":"minted","expires_in":3600}`))
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	}
}

// Each mode that mints gets a token with its end, and says that the grant is dead where its own credentials are
// refused: nothing of the configuration could help.
func TestMint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, minted(t))
	file, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@b.example",
		"private_key": rsaKey})
	require.NoError(t, err)
	for mode, values := range map[string]map[string]secretbox.Secret{
		"oauth2_client_credentials": {"client_id": "own", "client_secret": "good"},
		"jwt_bearer":                {"key": secretbox.Secret(rsaKey), "subject": "me"},
		"service_account":           {"key": secretbox.Secret(file)},
		"github_app":                {"installation_id": "42"},
		"session_token":             {"username": "me", "password": "good"},
	} {
		g, err := w.protocol.Mint(t.Context(), w.source(mode, values), nil)
		require.NoError(t, err, mode)
		require.Equal(t, map[string]secretbox.Secret{"access_token": "minted"}, g.Values, mode)
		require.Equal(t, w.now.Add(time.Hour), g.ExpiresAt, mode)
	}
	g, err := w.protocol.Mint(t.Context(), w.source("jwt", map[string]secretbox.Secret{"key": secretbox.Secret(rsaKey)}),
		nil)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(g.Values["access_token"].Reveal(), "."), "an assertion is the token")
	require.Equal(t, w.now.Add(10*time.Minute), g.ExpiresAt)

	for mode, values := range map[string]map[string]secretbox.Secret{
		"oauth2_client_credentials": {"client_id": "own", "client_secret": "bad"},
		"github_app":                {"installation_id": "43"},
		"session_token":             {"username": "me", "password": "a-wrong-password"},
	} {
		_, err := w.protocol.Mint(t.Context(), w.source(mode, values), nil)
		require.NotContains(t, requireKind(t, oauth.GrantDead, err), "a-wrong-password")
	}
	for mode, values := range map[string]map[string]secretbox.Secret{
		"jwt_bearer": {"key": "no key"}, "service_account": {"key": "{}"}, "github_app": {"installation_id": "x"},
	} {
		_, err := w.protocol.Mint(t.Context(), w.source(mode, values), nil)
		requireKind(t, oauth.Misconfigured, err)
	}
}

// A refresh token is revoked where there is one, and a token that is gone counts as revoked. A mode without a
// request for it says so.
func TestRevoke(t *testing.T) {
	t.Parallel()
	var sent []string
	status := http.StatusOK
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		sent = append(sent, r.Method+" "+r.URL.Path+" "+r.Form.Get("token")+r.Header.Get("Authorization"))
		rw.WriteHeader(status)
	})
	revoke := func(mode string, values map[string]secretbox.Secret) error {
		return w.protocol.Revoke(t.Context(), w.source(mode, values))
	}
	require.NoError(t, revoke("oauth2", refreshable()))
	require.NoError(t, revoke("oauth2", map[string]secretbox.Secret{"access_token": "a"}))
	status = http.StatusNoContent
	installed := map[string]secretbox.Secret{"installation_id": "42", "access_token": "a"}
	require.NoError(t, revoke("github_app", installed))
	status = http.StatusUnauthorized
	require.NoError(t, revoke("github_app", installed))
	status = http.StatusForbidden
	requireKind(t, oauth.Refused, revoke("github_app", installed))
	status = http.StatusBadGateway
	requireKind(t, oauth.Temporary, revoke("oauth2", refreshable()))
	require.Equal(t, []string{"POST /revoke " + refreshToken, "POST /revoke a", "DELETE /installation/token Bearer a",
		"DELETE /installation/token Bearer a", "DELETE /installation/token Bearer a", "POST /revoke " + refreshToken}, sent)
	require.ErrorIs(t, revoke("session_token", map[string]secretbox.Secret{"username": "me", "password": "p"}),
		tokens.ErrNoRevocation)
}

// The steps of a redirect: the URL has the client and the scopes, and the code is exchanged with the verifier.
func TestAuthorizationSteps(t *testing.T) {
	t.Parallel()
	var form url.Values
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		form = r.Form
		switch r.URL.Path {
		case "/temporary":
			_, _ = rw.Write([]byte("oauth_token=tmp&oauth_token_secret=tmps&oauth_callback_confirmed=true"))
		case "/access":
			_, _ = rw.Write([]byte("oauth_token=real&oauth_token_secret=reals"))
		default:
			_, _ = rw.Write([]byte(`{"access_token":"a","refresh_token":"r"}`))
		}
	})
	s := w.source("oauth2", nil)
	a, err := w.protocol.Authorize(s, nil)
	require.NoError(t, err)
	require.Equal(t, w.server.URL+"/authorize", a.URL)
	require.Equal(t, []string{"read", "write"}, a.Scopes)
	require.Equal(t, "client-1", a.ClientID)
	issuer, err := w.protocol.Issuer(s)
	require.NoError(t, err)
	require.Empty(t, issuer)
	g, err := w.protocol.Exchange(t.Context(), s, oauth.Code{Code: "code-1", RedirectURI: "https://gw.example/cb",
		Verifier: "verifier-1"})
	require.NoError(t, err)
	require.Equal(t, "code-1", form.Get("code"))
	require.Equal(t, "verifier-1", form.Get("code_verifier"))
	require.True(t, g.ExpiresAt.IsZero())
	require.Len(t, g.Values, 2)

	s = w.source("oauth1", nil)
	temporary, to, err := w.protocol.TemporaryToken(t.Context(), s, "https://gw.example/cb", []string{"read"})
	require.NoError(t, err)
	require.Equal(t, w.server.URL+"/authorize1?oauth_token=tmp&scope=read", to)
	g, err = w.protocol.AccessToken(t.Context(), s, temporary, "verifier")
	require.NoError(t, err)
	require.Equal(t, map[string]secretbox.Secret{"token": "real", "token_secret": "reals"}, g.Values)
}
