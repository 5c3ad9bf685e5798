package connectinghttp_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connecting/connectinghttp"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/tokens"
)

// acme has a mode of each kind of page. Its servers are where the connection says.
const acme = `schema: 1
slug: acme
display_name: "Acme <script>alert(1)</script>"
categories: [crm]
docs_url: https://acme.example/docs
connection_config:
  base_url: {type: url, title: URL, example: "https://api.acme.example"}
  plan: {title: Plan, enum: [free, paid], optional: true}
  tenant: {title: Tenant, optional: true, source: redirect}
  site: {title: Site, optional: true, source: probe, pattern: "[a-z]+", example: east}
  salt: {title: Salt, optional: true, secret: true}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
scopes:
  write: "Change <b>all</b> contacts"
request:
  headers: {X-Plan: "${config.plan}", X-Tenant: "${config.tenant}", X-Salt: "${config.salt}", X-Site: "${config.site}"}
auth:
  - mode: api_key
    title: Key
    fields: {api_key: {title: "Key & <b>more</b>", description: Under Settings}}
    request: {headers: {X-Key: "${cred.api_key}"}}
  - mode: oauth2
    authorize_url: "${config.base_url}/authorize"
    token_url: "${config.base_url}/token"
    issuer: "https://acme.example"
    default_scopes: [read, write]
    redirect_metadata: {tenant: realm}
  - mode: oauth1
    request_token_url: "${config.base_url}/request"
    authorize_url: "${config.base_url}/authorize1"
    token_url: "${config.base_url}/access"
health:
  probes:
    - {path: /sites, modes: [oauth2], config: {site: /0/id}, choice: {config: site, label: /0/name}}
    - {path: /me, account: {id: /id, label: /login}}
errors: {message: /message}
`

// trelloHere returns the shipped definition of Trello, which leads to the provider of the test and to nothing else.
func trelloHere(t *testing.T) string {
	t.Helper()
	shipped, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "definitions", "trello.yaml"))
	require.NoError(t, err)
	text := strings.Replace(string(shipped), "slug: trello", "slug: trello-here", 1)
	for _, place := range [][2]string{
		{"base_url: https://api.trello.com/1\n", `connection_config:
  server: {type: url, title: Server, example: "https://api.example.com"}
base_url: "${config.server}"
`},
		{"[api.trello.com, trello.com]", `["${config.server}"]`},
		{"https://trello.com/1/OAuthGetRequestToken", `"${config.server}/request"`},
		{"https://trello.com/1/OAuthAuthorizeToken", `"${config.server}/authorize1"`},
		{"https://trello.com/1/OAuthGetAccessToken", `"${config.server}/access"`},
		{`"https://api.trello.com/1/tokens`, `"${config.server}/tokens`},
	} {
		require.Contains(t, text, place[0])
		text = strings.Replace(text, place[0], place[1], 1)
	}
	return text
}

// provider is a server of the provider.
type provider struct {
	*httptest.Server

	// gate, if set, is called with each request before it is served.
	gate func(r *http.Request)

	mu sync.Mutex
	// account is that of every credential, scope what a token grants, and status replaces the response of an endpoint.
	account string
	scope   string
	status  int
	// challenge is that of the last authorization, whose verifier the exchange needs.
	challenge string
	// sites are the ids that a token can be used for.
	sites []string
	// callback is that of the last request for a temporary token.
	callback string
	// says is the message of a refused credential, if set, and code that of the token endpoint's error.
	says, code string
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.gate != nil {
		p.gate(r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, rest, found := strings.Cut(r.Header.Get("Authorization"), `oauth_callback="`); found {
		p.callback, _ = url.QueryUnescape(strings.SplitN(rest, `"`, 2)[0])
	}
	respond := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case p.status != 0:
		w.WriteHeader(p.status)
	case r.URL.Path == "/token" && p.code == "" && r.PostFormValue("code") == "good-code" &&
		r.PostFormValue("client_id") == "client" &&
		base64.RawURLEncoding.EncodeToString(sum[:]) == p.challenge:
		respond(map[string]any{"access_token": "access-1", "refresh_token": "refresh-1", "expires_in": 3600,
			"scope": p.scope})
	case r.URL.Path == "/token" && p.code != "":
		w.WriteHeader(http.StatusUnauthorized)
		respond(map[string]string{"error": p.code, "error_description": "Words of the provider"})
	case r.URL.Path == "/token":
		w.WriteHeader(http.StatusBadRequest)
		respond(map[string]string{"error": "invalid_grant", "error_description": "No <i>such</i> code"})
	case r.URL.Path == "/request":
		_, _ = io.WriteString(w, "oauth_token=temporary&oauth_token_secret=t&oauth_callback_confirmed=true")
	case r.URL.Path == "/access" && strings.Contains(r.Header.Get("Authorization"), `oauth_verifier="good-verifier"`):
		_, _ = io.WriteString(w, "oauth_token=permanent&oauth_token_secret=p")
	case r.URL.Path == "/sites" && slices.Contains(p.sites, "away"):
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/sites" && r.Header.Get("Authorization") == "Bearer access-1":
		list := []map[string]string{}
		for _, id := range p.sites {
			list = append(list, map[string]string{"id": id, "name": "Site <b>" + id + "</b>"})
		}
		respond(list)
	case r.URL.Path == "/members/me" && strings.Contains(r.Header.Get("Authorization"), `oauth_token="permanent"`) &&
		strings.Contains(r.Header.Get("Authorization"), "oauth_signature="):
		respond(map[string]string{"id": p.account, "username": "octo"})
	case r.URL.Path == "/me" && (r.Header.Get("X-Key") == "good-key" ||
		r.Header.Get("Authorization") == "Bearer access-1" ||
		strings.Contains(r.Header.Get("Authorization"), `oauth_token="permanent"`)):
		respond(map[string]string{"id": p.account, "login": "octo"})
	default:
		w.WriteHeader(http.StatusUnauthorized)
		respond(map[string]string{"message": cmp.Or(p.says, "bad <script>key</script>")})
	}
}

func (p *provider) set(change func(p *provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// teams is one team and its environment's redirect URLs.
type teams struct{ urls []string }

func (t *teams) RedirectURLs(context.Context, id.Environment) ([]string, error) { return t.urls, nil }

func (*teams) TeamOfEnvironment(context.Context, id.Environment) (id.Team, error) {
	return "team_x", nil
}

func (*teams) NameOf(context.Context, id.Team) (string, error) { return "Team <b>X</b>", nil }

type live struct{}

func (live) RequireLive(context.Context, *sql.Tx, id.Environment) error { return nil }

type everyClient struct{}

func (everyClient) UsesClient(id.Environment, string) bool { return true }

// world is a gateway with a provider.
type world struct {
	t        *testing.T
	store    testkit.Store
	clock    *clock.Manual
	svc      *connecting.Service
	conns    *connections.Service
	configs  *configs.Service
	vault    *credentials.Vault
	limits   *limiter.Limiter
	actor    access.Principal
	teams    *teams
	provider *provider
	url      string
	log      *bytes.Buffer
	kinds    []connections.ChangeKind
	// failures are the reasons of attempts that failed, with the status of the connection.
	failures []string
	registry *registry.Live
	// refuseDeletion is the UUID of a connection that cannot be deleted.
	refuseDeletion string
}

var errRefused = errors.New("the deletion is refused")

const back = "https://app.example.com/done?tab=1"

func newWorld(t *testing.T, s testkit.Store) *world {
	t.Helper()
	keyset := filepath.Join(s.Dir, "keyset.json")
	require.NoError(t, secretbox.Create(keyset))
	box, err := secretbox.Open(secretbox.Source{Path: keyset})
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "acme.yaml"), []byte(acme), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "trello-here.yaml"), []byte(trelloHere(t)), 0o600))
	builtin, err := registry.Builtin()
	require.NoError(t, err)
	reg, err := registry.New(registry.Config{Builtin: builtin,
		Folder: &registry.Folder{FS: os.DirFS(folder), Path: folder}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	w := &world{t: t, store: s, clock: clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)),
		teams: &teams{[]string{back}}, provider: &provider{account: "7", scope: "read write"}, log: &bytes.Buffer{}}
	w.provider.Server = httptest.NewServer(w.provider)
	await.Close(t, w.provider.Server)
	env := id.New(id.PrefixEnvironment)
	_, err = s.DB.Write().ExecContext(t.Context(), `INSERT INTO teams (id, name, created_ms) VALUES ('team_x', 'x', 0)`)
	require.NoError(t, err)
	_, err = s.DB.Write().ExecContext(t.Context(),
		`INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, 'team_x', 'a', 0)`, env)
	require.NoError(t, err)
	w.actor = access.Principal{Kind: access.KindAPIKey, ID: "key_a", Name: "a", Team: "team_x",
		Environment: id.Environment(env), Connections: access.All()}
	client := egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{})
	w.registry = reg
	w.configs = configs.New(configs.Options{DB: s.DB, Clock: w.clock, Box: box, Providers: reg, Environments: live{},
		Clients: everyClient{}, Targets: client, Connections: connections.CountOfConfig})
	w.vault = credentials.NewVault(credentials.Config{DB: s.DB, Clock: w.clock, Box: box,
		Pepper: installation.Pepper("a pepper of the tests")})
	budgets, err := ratelimit.New(ratelimit.Options{Clock: w.clock})
	require.NoError(t, err)
	w.limits = limiter.New(limiter.Config{DB: s.DB, Clock: w.clock, Budgets: budgets})
	w.conns, err = connections.New(connections.Config{DB: s.DB, Clock: w.clock, Box: box, Providers: reg, Limits: w.limits,
		Environments: live{}, Configs: w.configs, Logger: slog.New(slog.DiscardHandler), AllowHTTP: true, Vault: w.vault,
		OnDelete: []connections.DeleteHook{func(_ context.Context, _ *sql.Tx, uuid string) error {
			if uuid == w.refuseDeletion {
				return errRefused
			}
			return nil
		}},
		Prober: probes.New(probes.Config{Clock: w.clock, Client: client}),
		OnChange: []connections.ChangeHook{func(_ context.Context, _ *sql.Tx, _ *connections.Connection,
			kind connections.ChangeKind) error {
			w.kinds = append(w.kinds, kind)
			return nil
		}}})
	require.NoError(t, err)
	served := httptest.NewUnstartedServer(nil)
	w.url = "http://" + served.Listener.Addr().String()
	w.svc = connecting.New(connecting.Config{DB: s.DB, Clock: w.clock, Box: box, Providers: reg, Configs: w.configs,
		Connections: connections.NewLinker(w.conns), Teams: w.teams, Protocol: tokens.NewProtocol(client, w.clock),
		Logger: slog.New(slog.NewJSONHandler(w.log, nil)), PublicURL: w.url,
		Pepper: installation.Pepper("another pepper of the tests"),
		OnFailure: func(_ context.Context, _ *sql.Tx, c *connections.Connection, reason string) error {
			w.failures = append(w.failures, string(c.Status)+" "+reason)
			return nil
		}})
	api := httpapi.New(httpapi.Config{Version: "0", Logger: slog.New(slog.NewJSONHandler(w.log, nil)), Clock: w.clock})
	connectinghttp.Module(w.svc, w.url, func(*http.Request) secretbox.Secret { return "" }).Mount(api)
	served.Config.Handler = api
	served.Start()
	await.Close(t, served)
	return w
}

// client gives the provider configuration an OAuth client.
func (w *world) client(id string) {
	w.t.Helper()
	key := "acme"
	_, err := w.configs.Create(w.t.Context(), w.actor, configs.NewConfig{Provider: "acme", Key: &key,
		Change: configs.Change{ClientID: patch.To(id), ClientSecret: patch.To(secretbox.Secret("client-secret")),
			ClientHosts: patch.To([]string{w.provider.URL})}})
	require.NoError(w.t, err)
}

// link creates a pending connection with a link to its page.
func (w *world) link(connectionID, mode string) string {
	w.t.Helper()
	made, err := w.svc.Create(w.t.Context(), w.actor, w.fresh(connectionID, mode), connecting.Terms{RedirectURL: back,
		State: "st&te"})
	require.NoError(w.t, err)
	require.Equal(w.t, connections.Pending, made.Connection.Status)
	return made.URL.Reveal()
}

// clientOf makes a provider configuration with an OAuth client that may be sent where the examples of settings lead.
// The client has a private key if the mode needs one, and else a secret.
func (w *world) clientOf(slug, key string, m *outbound.Mode) string {
	w.t.Helper()
	change := configs.Change{ClientID: patch.To("client"), ClientSecret: patch.To(secretbox.Secret("client-secret"))}
	if m.ClientKey {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(w.t, err)
		der, err := x509.MarshalPKCS8PrivateKey(private)
		require.NoError(w.t, err)
		change = configs.Change{ClientID: patch.To("client"), PrivateKey: patch.To(secretbox.Secret(pem.EncodeToMemory(
			&pem.Block{Type: "PRIVATE KEY", Bytes: der})))}
	}
	if slug == "http" || slug == "gitlab" {
		change.ClientHosts = patch.To([]string{"login.example.com", "gitlab.example.com"})
	}
	c, err := w.configs.Create(w.t.Context(), w.actor, configs.NewConfig{Provider: slug, Key: &key, Change: change})
	require.NoError(w.t, err, slug)
	return c.Key
}

// reconnect makes another link for a connection.
func (w *world) reconnect(connectionID string) string {
	w.t.Helper()
	made, err := w.svc.Reconnect(w.t.Context(), w.actor, "acme", connectionID, connecting.Terms{RedirectURL: back})
	require.NoError(w.t, err)
	return made.URL.Reveal()
}

// pending adds as many pending connections as one program could, by copying one in the database.
func (w *world) pending(count int) {
	w.t.Helper()
	rows, err := w.store.DB.Read().QueryContext(w.t.Context(), `SELECT * FROM connections LIMIT 1`)
	require.NoError(w.t, err)
	defer func() { require.NoError(w.t, rows.Close()) }()
	names, err := rows.Columns()
	require.NoError(w.t, err)
	for i, name := range names {
		switch name {
		case "uuid", "connection_id", "path_token":
			names[i] = "'copy-' || n"
		}
	}
	columns := strings.Join(names, ", ")
	_, err = w.store.DB.Write().ExecContext(w.t.Context(), fmt.Sprintf(`WITH RECURSIVE numbers (n) AS
		(SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %d)
		INSERT INTO connections SELECT %s FROM connections, numbers WHERE connection_id = 'c'`, count, columns))
	require.NoError(w.t, err)
}

func (w *world) fresh(connectionID, mode string) connections.NewConnection {
	slug := "acme"
	in := connections.NewConnection{Provider: &slug, ConnectionID: &connectionID, Change: connections.Change{
		ConnectionConfig: patch.To(map[string]*string{"base_url": &w.provider.URL})}}
	if mode != "" {
		in.AuthMode = &mode
	}
	return in
}

func (w *world) get(connectionID string) connections.Connection {
	w.t.Helper()
	c, err := w.conns.Get(w.t.Context(), w.actor.View(), "acme", connectionID)
	require.NoError(w.t, err)
	return c
}

// clean runs the periodic job.
func (w *world) clean() error {
	_, err := w.svc.Module().Jobs[0].Run(w.t.Context())
	return err
}

// browser is a browser: it has cookies, and follows nothing by itself.
type browser struct {
	w      *world
	client *http.Client
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(w.t, err)
	return &browser{w, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// shown is a page.
type shown struct {
	status int
	text   string
	header http.Header
	// to is where the page leads by itself.
	to string
}

func (b *browser) do(method, target, body string, headers ...string) shown {
	b.w.t.Helper()
	req, err := http.NewRequestWithContext(b.w.t.Context(), method, target, strings.NewReader(body))
	require.NoError(b.w.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(req)
	require.NoError(b.w.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.w.t, err)
	require.NoError(b.w.t, resp.Body.Close())
	_, to, _ := strings.Cut(resp.Header.Get("Refresh"), "url=")
	return shown{resp.StatusCode, string(text), resp.Header, to}
}

func (b *browser) open(target string) shown { b.w.t.Helper(); return b.do(http.MethodGet, target, "") }

// submit sends the form of a page: names and values. A browser that was not there before opens the page first.
func (b *browser) submit(target string, pairs ...string) shown {
	b.w.t.Helper()
	if u, err := url.Parse(target); err == nil && len(b.client.Jar.Cookies(u)) == 0 {
		b.open(target)
	}
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return b.do(http.MethodPost, target, form.Encode())
}

// authorize submits the form of a mode with OAuth, and returns the query with which the provider was called.
func (b *browser) authorize(link, mode string) url.Values {
	b.w.t.Helper()
	page := b.submit(link, "mode", mode)
	require.Equal(b.w.t, http.StatusOK, page.status, page.text)
	u, err := url.Parse(page.to)
	require.NoError(b.w.t, err)
	require.True(b.w.t, strings.HasPrefix(page.to, b.w.provider.URL+"/authorize"), page.to)
	b.w.provider.set(func(p *provider) { p.challenge = u.Query().Get("code_challenge") })
	return u.Query()
}

// comeBack is the provider sending the browser to the redirect URI.
func (b *browser) comeBack(key string, query url.Values) shown {
	b.w.t.Helper()
	return b.open(configs.RedirectURI(b.w.url, b.w.actor.Environment, key) + "?" + query.Encode())
}

// granted is the query of a provider that grants access.
func granted(state string) url.Values {
	return url.Values{"state": {state}, "code": {"good-code"}, "iss": {"https://acme.example"}, "realm": {"t-1"}}
}
