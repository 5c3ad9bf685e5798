package connections_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/tokens"
	"sallyport/internal/providers/verification"
)

const githubSecret = "a secret that GitHub knows: 4f1c"

// world is one database with a team of two environments, and a Service on it.
type world struct {
	store testkit.Store
	clock *clock.Manual
	box   *secretbox.Box
	reg   *registry.Registry
	svc   *connections.Service
	a, b  access.Principal
	// limits are the limiters of the services, in the order in which they were made.
	limits []*limiter.Limiter
	// hooks are those of services that are made from now on.
	hooks []connections.ChangeHook
	// configs are those of svc in a world with tokens; watch follows their changes.
	configs *configs.Service
	watch   *connections.ConfigWatch
	// log is that of the services.
	log logged
}

func newWorld(t testing.TB, s testkit.Store) *world {
	t.Helper()
	keyset := filepath.Join(s.Dir, "keyset.json")
	require.NoError(t, secretbox.Create(keyset))
	box, err := secretbox.Open(secretbox.Source{Path: keyset})
	require.NoError(t, err)
	reg, err := registry.Builtin()
	require.NoError(t, err)
	w := &world{store: s, clock: clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)), box: box, reg: reg}
	_, err = s.DB.Write().ExecContext(t.Context(), `INSERT INTO teams (id, name, created_ms) VALUES ('team_x', 'x', 0)`)
	require.NoError(t, err)
	w.a, w.b = w.principal(t, "a"), w.principal(t, "b")
	w.watch = &connections.ConfigWatch{Clock: w.clock, ClientModes: func(id.Environment, string) []string {
		return []string{"oauth2"}
	},
		OnChange: func() []connections.ChangeHook { return w.hooks }}
	w.svc = w.newService(t)
	return w
}

// environments takes every environment for live but those whose row says that they were removed.
type environments struct{}

func (environments) RequireLive(ctx context.Context, tx *sql.Tx, env id.Environment) error {
	var live bool
	if err := tx.QueryRowContext(ctx, `SELECT deleted_ms IS NULL FROM environments WHERE id = $1`,
		string(env)).Scan(&live); err != nil {
		return err
	}
	if !live {
		return apperr.NotFound("environment")
	}
	return nil
}

// principal returns who acts in an environment of its own.
func (w *world) principal(t testing.TB, name string) access.Principal {
	t.Helper()
	env := id.New(id.PrefixEnvironment)
	_, err := w.store.DB.Write().ExecContext(t.Context(),
		`INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, 'team_x', $2, 0)`, env, name)
	require.NoError(t, err)
	return access.Principal{Kind: access.KindAPIKey, ID: "key_" + name, Name: name, Team: "team_x",
		Environment: id.Environment(env), Connections: access.All()}
}

// newService returns a Service as another process on the same database would have it.
func (w *world) newService(t testing.TB) *connections.Service {
	t.Helper()
	svc, err := connections.New(connections.Config{
		Limits: w.newLimits(t),
		Vault: credentials.NewVault(credentials.Config{DB: w.store.DB, Clock: w.clock, Box: w.box,
			Pepper: installation.Pepper("a pepper of the tests")}),
		Prober: probes.New(probes.Config{Clock: w.clock,
			Client: egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{})}),
		Protocol: tokens.NewProtocol(egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{}),
			w.clock),
		Addresses: egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{}),
		AllowHTTP: true,
		DB:        w.store.DB, Clock: w.clock, Box: w.box, Providers: w.reg, Environments: environments{},
		Configs: w.newConfigs(w.reg), Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	require.NoError(t, err)
	return svc
}

// logged keeps what is logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns the lines that contain the text.
func (l *logged) lines(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// newLimits returns a limiter as another process on the same database would have it.
func (w *world) newLimits(t testing.TB) *limiter.Limiter {
	t.Helper()
	budgets, err := ratelimit.New(ratelimit.Options{Clock: w.clock})
	require.NoError(t, err)
	w.limits = append(w.limits, limiter.New(limiter.Config{DB: w.store.DB, Clock: w.clock, Budgets: budgets}))
	return w.limits[len(w.limits)-1]
}

// newConfigs returns provider configurations as another process on the same database would have them.
func (w *world) newConfigs(providers configs.Providers) *configs.Service {
	return configs.New(configs.Options{DB: w.store.DB, Clock: w.clock, Box: w.box, Providers: providers,
		Environments: environments{}, Connections: connections.CountOfConfig, Clients: everyProvider{},
		Hosts: definitions{providers}, OnAccessChange: []configs.AccessHook{
			func(ctx context.Context, tx *sql.Tx, c configs.AccessChange) error {
				return w.watch.Changed(ctx, tx, c)
			}},
		Targets: egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{})})
}

// definitions knows the hosts of providers.
type definitions struct{ providers configs.Providers }

func (d definitions) HostsOf(env id.Environment, slug string) (bool, func(*url.URL) bool) {
	p, ok := d.providers.Find(env, slug)
	if !ok || p.Outbound == nil {
		return false, nil
	}
	return true, func(u *url.URL) bool { return p.Outbound.AllowsURL(u, true) }
}

func github(connectionID string) connections.NewConnection {
	provider, secret := "github", secretbox.Secret(githubSecret)
	return connections.NewConnection{Provider: &provider, ConnectionID: &connectionID,
		Change: connections.Change{Secret: patch.To(secret)}}
}

func (w *world) create(t testing.TB, who access.Principal, in connections.NewConnection) connections.Connection {
	t.Helper()
	c, created, err := w.svc.Create(t.Context(), who, in)
	require.NoError(t, err)
	require.True(t, created)
	return c
}

// accepts reports whether a webhook that GitHub signed with the secret passes.
func accepts(in *connections.Inbound, secret string) bool {
	body := []byte(`{"zen":"Keep it logically awesome."}`)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write(body)
	header := http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}
	if in.Verifier.Precheck(header) != nil {
		return false
	}
	_, refusal := in.Verifier.Verify(context.Background(), &verification.Request{Method: http.MethodPost, Header: header,
		Body: body})
	return refusal == nil
}

func requireCode(t require.TestingT, code apperr.Code, err error) {
	require.True(t, apperr.Is(err, code), "wanted %s, got %v", code, err)
}

func count(t *testing.T, w *world, query string, args ...any) int {
	t.Helper()
	var n int
	require.NoError(t, w.store.DB.Read().QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

func ptr[T any](v T) *T { return &v }
