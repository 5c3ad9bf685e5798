package connections_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/tokens"
)

// The hosts to which an OAuth client would be sent because a connection says so are those of settings that are whole
// URLs, apart from their defaults. A definition's own hosts, and names under its own suffixes, are none of them.
func TestHostsThatSettingsChoose(t *testing.T) {
	t.Parallel()
	reg, err := registry.Builtin()
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		provider, mode string
		config         outbound.Config
		want           []string
	}{
		"default": {"gitlab", "oauth2", outbound.Config{"instance_url": "https://gitlab.com"}, nil},
		"self-managed": {"gitlab", "oauth2", outbound.Config{"instance_url": "https://git.example:8443"},
			[]string{"git.example:8443"}},
		"not encrypted": {"gitlab", "oauth2", outbound.Config{"instance_url": "http://gitlab.com"},
			[]string{"http://gitlab.com"}},
		"mode without one": {"gitlab", "token", outbound.Config{"instance_url": "https://git.example"}, nil},
		"authorization only": {"http", "oauth2", outbound.Config{"base_url": "https://api.example",
			"authorize_url": "https://login.example/a", "token_url": "https://token.example/t"}, []string{"token.example"}},
		"signs every request": {"http", "oauth1", outbound.Config{"base_url": "https://api.example",
			"request_token_url": "https://login.example/r", "authorize_url": "https://login.example/a",
			"token_url": "https://login.example/t"}, []string{"api.example", "login.example"}},
		"fixed suffix": {"salesforce", "oauth2", outbound.Config{"login_host": "login.salesforce.com",
			"instance_url": "https://acme.my.salesforce.com"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ok := reg.Get(tt.provider)
			require.True(t, ok)
			got, err := p.Outbound.ChosenHosts(outbound.Target{Mode: tt.mode, Config: tt.config, AllowHTTP: true})
			require.NoError(t, err)
			require.ElementsMatch(t, tt.want, got)
		})
	}
}

const theClientSecret = "the-secret-of-the-oauth-client"

// clientAPI is a definition whose OAuth client is sent where a connection says.
const clientAPI = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
connection_config:
  base_url: {type: url, title: URL, example: "https://api.acme.example"}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth:
  - mode: oauth2
    authorize_url: "${config.base_url}/authorize"
    token_url: "${config.base_url}/token"
    revoke_url: "${config.base_url}/revoke"
health:
  probes: [{path: /me, account: {id: /id, label: /login}}]
`

// receiver is a server that grants everything and remembers what it was sent.
type receiver struct {
	*httptest.Server

	mu   sync.Mutex
	seen []string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	await.Close(t, r.Server)
	return r
}

func (p *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	p.seen = append(p.seen, r.URL.Path+" "+string(body))
	p.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "access-1", "expires_in": 3600, "id": "7"})
}

// requests returns how many requests of a path came, and how many of them had the secret of the client.
func (p *receiver) requests(path string) (n, withSecret int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.seen {
		if strings.HasPrefix(r, path+" ") {
			n++
			if strings.Contains(r, theClientSecret) {
				withSecret++
			}
		}
	}
	return n, withSecret
}

// host is the server as the hosts of a client name it.
func (p *receiver) host() string { return p.URL }

// The secret of an OAuth client goes to no server but those that the provider configuration lists, although anyone who
// may write a connection chooses where its endpoints are: not with a new connection or a change, and not later.
func TestClientSecretStaysAtItsHosts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		f := w.newFolder(t, clientAPI)
		w.svc = f.svc
		update := func(ch configs.Change) error {
			_, err := f.configs.Update(t.Context(), w.a, "acme", ch)
			return err
		}
		good, evil := newReceiver(t), newReceiver(t)
		_, err := f.configs.Create(t.Context(), w.a, configs.NewConfig{Provider: "acme",
			Change: configs.Change{ClientID: patch.To("the-client")}})
		require.NoError(t, err)
		connection := func(id string, p *receiver) connections.NewConnection {
			at := w.clock.Now().Add(time.Minute)
			in := tokenConnection("oauth2", &rotor{Server: p.Server}, connections.Credentials{ExpiresAt: &at,
				Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}})
			in.ConnectionID = &id
			return in
		}
		w.create(t, w.a, connection("early", evil)) // the client has no secret yet
		require.NoError(t, update(configs.Change{ClientSecret: patch.To(secretbox.Secret(theClientSecret)),
			ClientHosts: patch.To([]string{good.host()})}))

		_, _, err = w.svc.Create(t.Context(), w.a, connection("late", evil))
		requireClientHost(t, evil.host(), err)
		w.create(t, w.a, connection("own", good))
		_, err = w.svc.Update(t.Context(), w.a, "acme", "own", connections.Change{
			ConnectionConfig: patch.To(map[string]*string{"base_url": &evil.URL})})
		requireClientHost(t, evil.host(), err)

		r := connections.NewRenewer(w.svc)
		_, err = r.Refresh(t.Context(), w.a, "acme", "own")
		require.NoError(t, err)
		n, with := good.requests("/token")
		require.Equal(t, [2]int{1, 1}, [2]int{n, with}, "the listed host gets the client")

		_, err = r.Refresh(t.Context(), w.a, "acme", "early")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.Contains(t, err.Error(), evil.host())
		w.clock.Advance(2 * time.Minute)
		early := w.read(t, "early")
		_, err = connections.AccessToken(t.Context(), w.svc, &early)
		requireCode(t, apperr.CodeConnectionNotReady, err)
		early = w.read(t, "early")
		require.Equal(t, connections.Error, early.Status)
		require.Equal(t, tokens.ReasonMisconfigured, early.StatusReason)
		out, err := r.Revoke(t.Context(), w.a, "acme", "early")
		require.NoError(t, err)
		require.False(t, out.Upstream)
		require.Contains(t, out.Reason, evil.host())
		_, err = r.Delete(t.Context(), w.a, "acme", "early")
		require.NoError(t, err)
		for _, path := range []string{"/token", "/revoke"} {
			n, _ := evil.requests(path)
			require.Zero(t, n, path)
		}

		// A change of the configuration does not send its secret elsewhere either, unless it comes with the secret.
		both := configs.Change{ClientHosts: patch.To([]string{good.host(), evil.host()})}
		requireCode(t, apperr.CodeValidation, update(both))
		require.NoError(t, update(configs.Change{ClientHosts: patch.Clear[[]string]()}))
		_, err = r.Refresh(t.Context(), w.a, "acme", "own")
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.NoError(t, update(configs.Change{ClientHosts: patch.To([]string{good.host()}),
			ClientSecret: patch.To(secretbox.Secret(theClientSecret))}))
		w.clock.Advance(time.Minute)
		_, err = r.Refresh(t.Context(), w.a, "acme", "own")
		require.NoError(t, err)
		out, err = r.Delete(t.Context(), w.a, "acme", "own")
		require.NoError(t, err)
		require.True(t, out.Upstream)
		n, with = good.requests("/revoke")
		require.Equal(t, [2]int{1, 1}, [2]int{n, with})
	})
}

// requireClientHost requires the validation error that names a host.
func requireClientHost(t *testing.T, host string, err error) {
	t.Helper()
	requireCode(t, apperr.CodeValidation, err)
	var invalid *apperr.Error
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Details, 1)
	require.Equal(t, "connection_config oauth_hosts", invalid.Details[0].Location+" "+invalid.Details[0].Rule)
	require.Contains(t, invalid.Details[0].Message, host)
}
