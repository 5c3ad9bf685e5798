package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// tokenServer grants a token to everyone, and keeps what it was sent.
type tokenServer struct {
	*httptest.Server
	mu   sync.Mutex
	sent url.Values
	// bearer is the token of the header Authorization.
	bearer string
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Method != http.MethodPost { // a probe
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, _ = url.ParseQuery(string(body)) // none of the body of GitHub's
	s.bearer = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"access_token":"granted","token":"granted","expires_in":3600}`)
}

// take returns what the last request had, and forgets it.
func (s *tokenServer) take() (sent url.Values, bearer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, bearer = s.sent, s.bearer
	s.sent, s.bearer = nil, ""
	return sent, bearer
}

// A library of another language, the npm package jose, verifies what the running gateway sends to token endpoints with
// the public key alone: the assertions of http's JWT bearer, the assertions of clients with a key of their own and
// with one of their provider configuration, the token of an app of GitHub's shipped definition and the assertion of a
// service account of Google's. Each names its key, where it has a name, its issuer and its audience.
func TestMintedAssertions(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	peerDir := nodePeer(t, "oauth")
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		peer, server := startPeer(t, peerDir, "peer.mjs"), &tokenServer{}
		server.Server = httptest.NewServer(server)
		await.Close(t, server.Server)
		definitions := map[string]string{}
		for _, e := range emulatedProviders() {
			definitions[e.slug] = e.definition(t)
		}
		c := newConnector(t, databaseURL, dir, definitions)
		rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		private, public := keyPair(t, rsaKey)
		ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		ecPrivate, ecPublic := keyPair(t, ecKey)
		for _, of := range []struct{ provider, key string }{{"http", ecPrivate.Reveal()}, {"github", private.Reveal()}} {
			file := filepath.Join(t.TempDir(), "key.pem")
			require.NoError(t, os.WriteFile(file, []byte(of.key), 0o600))
			c.command("", "provider-configs", "create", "--environment", "production", "--provider", of.provider,
				"--client-id", "client-of-"+of.provider, "--private-key-file", file, "--private-key-id", "of-the-config",
				"--oauth-host", server.URL)
		}
		serviceAccount, err := json.Marshal(object{"type": "service_account", "private_key": private.Reveal(),
			"client_email": "me@project.iam.gserviceaccount.com", "private_key_id": "k1"})
		require.NoError(t, err)
		defer c.serve()()
		verify := func(token, algorithm, key string, options object) (v verified) {
			peer.say(object{"jwt": object{"token": token, "algorithm": algorithm, "key": key, "at": time.Now().Unix(),
				"options": options}})
			peer.hear(&v)
			return v
		}
		endpoint := server.URL + "/token"
		urls := object{"base_url": server.URL, "token_url": endpoint}
		emulator := object{"emulator": server.URL}
		for name, m := range map[string]struct {
			provider, mode string
			credentials    object
			config         object
			param          string
			algorithm, key string
			kid            any
			options        object
		}{
			"assertion": {"http", "jwt_bearer", object{"key": private.Reveal(), "key_id": "k-1", "subject": "ada"},
				object{"base_url": server.URL, "token_url": endpoint, "issuer": "me", "audience": "https://login.example.com"},
				"assertion", "RS256", public, "k-1",
				object{"issuer": "me", "subject": "ada", "audience": "https://login.example.com"}},
			"client with a key": {"http", "oauth2_client_credentials_private_key",
				object{"client_id": "own", "key": ecPrivate.Reveal(), "key_id": "k-2"}, urls, "client_assertion", "ES256",
				ecPublic, "k-2", object{"issuer": "own", "subject": "own", "audience": endpoint}},
			"client without a name of its key": {"http", "oauth2_client_credentials_private_key",
				object{"client_id": "own", "key": private.Reveal()}, urls, "client_assertion", "RS256", public, nil,
				object{"issuer": "own", "subject": "own", "audience": endpoint}},
			"client of the provider config": {"http", "oauth2_private_key",
				object{"access_token": "a", "refresh_token": "r"}, object{"base_url": server.URL, "token_url": endpoint,
					"authorize_url": server.URL + "/authorize"}, "client_assertion", "ES256", ecPublic, "of-the-config",
				object{"issuer": "client-of-http", "subject": "client-of-http", "audience": endpoint}},
			"app": {"github", "github_app", object{"installation_id": "42"}, emulator, "", "RS256", public, nil,
				object{"issuer": "client-of-github", "maxTokenAge": "10 minutes"}},
			"service account": {"google", "service_account",
				object{"key": string(serviceAccount), "subject": "ada@example.test"}, emulator, "assertion", "RS256", public, "k1",
				object{"issuer": "me@project.iam.gserviceaccount.com",
					"subject": "ada@example.test", "audience": server.URL + "/oauth2/token"}},
		} {
			id := strings.ReplaceAll(name, " ", "-")
			status, text := c.ask(c.key, http.MethodPost, "/connections", object{"provider": m.provider, "connection_id": id,
				"auth_mode": m.mode, "credentials": m.credentials, "connection_config": m.config, "test": false})
			require.Equal(t, http.StatusCreated, status, "%s: %s", name, text)
			status, text = c.ask(c.key, http.MethodPost, "/connections/"+m.provider+"/"+id, object{"operation": "refresh"})
			require.Equal(t, http.StatusOK, status, "%s: %s", name, text)
			form, token := server.take()
			if m.param != "" {
				token = form.Get(m.param)
			}
			v := verify(token, m.algorithm, m.key, m.options)
			require.Empty(t, v.Error, "%s: %v", name, form)
			require.Equal(t, m.kid, v.Header["kid"], name)
			require.Equal(t, "JWT", v.Header["typ"], name)
			require.NotEmpty(t, verify(token, m.algorithm, m.key, object{"issuer": "another"}).Error)
			header, payload, _ := strings.Cut(token, ".")
			require.Equal(t, "ERR_JWS_SIGNATURE_VERIFICATION_FAILED",
				verify(header+"."+payload[:len(payload)-8]+"AAAAAAAA", m.algorithm, m.key, m.options).Error, name)
		}
	})
}
