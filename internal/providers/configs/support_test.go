package configs_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"errors"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/registry"
)

const (
	clientSecret = "a secret of the provider: 9f3a"
	nextSecret   = "the secret that replaces it: 77b2"
	publicKey    = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
	apiURL       = "https://198.51.99.7/api"
)

// world is one database with a team of two environments, and a Service on it. Of the providers, github has an API at
// one address and a mode of OAuth.
type world struct {
	store testkit.Store
	clock *clock.Manual
	box   *secretbox.Box
	reg   *registry.Registry
	svc   *configs.Service
	a, b  access.Principal
	// uses is how many connections each configuration has.
	uses atomic.Int64
	// changes are the changes of clients; failing makes their hook fail.
	changes []configs.AccessChange
	failing bool
}

func newWorld(t *testing.T, s testkit.Store) *world {
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
	w.svc = w.process(t)
	return w
}

func (w *world) principal(t *testing.T, name string) access.Principal {
	t.Helper()
	env := id.New(id.PrefixEnvironment)
	_, err := w.store.DB.Write().ExecContext(t.Context(),
		`INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, 'team_x', $2, 0)`, env, name)
	require.NoError(t, err)
	return access.Principal{Kind: access.KindUser, ID: "usr_" + name, Name: name, Team: "team_x",
		Environment: id.Environment(env), Connections: access.All()}
}

// process returns a Service as another process on the same database would have it.
func (w *world) process(t *testing.T) *configs.Service {
	t.Helper()
	client := egress.New(egress.Policy{}, egress.Options{})
	t.Cleanup(client.Close)
	return configs.New(configs.Options{DB: w.store.DB, Clock: w.clock, Box: w.box, Providers: w.reg,
		Environments: environments{}, Targets: client, Hosts: definitions{}, Clients: definitions{},
		RateLimits: true,
		Connections: func(context.Context, db.Querier, id.Environment, string) (int, error) {
			return int(w.uses.Load()), nil
		},
		OnAccessChange: []configs.AccessHook{func(_ context.Context, _ *sql.Tx, c configs.AccessChange) error {
			if w.failing {
				return errHook
			}
			w.changes = append(w.changes, c)
			return nil
		}}})
}

var errHook = errors.New("the hook fails")

// definitions stand for the outbound halves of definitions, of which only github's has one.
type definitions struct{}

func (definitions) HostsOf(_ id.Environment, slug string) (bool, func(*url.URL) bool) {
	return slug == "github", func(u *url.URL) bool { return u.Host == "198.51.99.7" }
}

func (definitions) UsesClient(_ id.Environment, slug string) bool { return slug == "github" }

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

func ptr[T any](v T) *T { return &v }

// full returns a configuration that sets everything.
func full(key string) configs.NewConfig {
	return configs.NewConfig{Provider: "github", Key: ptr(key), Change: configs.Change{
		DisplayName: patch.To("GitHub of the European unit"), ClientID: patch.To("Iv1.8a61"),
		ClientSecret: patch.To(secretbox.Secret(clientSecret)), PrivateKey: patch.To(secretbox.Secret(privateKey())),
		KeyID:  patch.To("2026-11"),
		Scopes: patch.To([]string{"repo", "read:org"}), BaseURL: patch.To(apiURL),
		RateLimit: patch.To(configs.RateLimitChange{Requests: patch.Some[int64](5000), PerSeconds: patch.Some[int64](3600)}),
	}}
}

func (w *world) create(t *testing.T, who access.Principal, in configs.NewConfig) configs.Config {
	t.Helper()
	c, err := w.svc.Create(t.Context(), who, in)
	require.NoError(t, err)
	return c
}

func privateKey() string {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func requireCode(t require.TestingT, code apperr.Code, err error) {
	require.True(t, apperr.Is(err, code), "wanted %s, got %v", code, err)
}

// requireViolations requires exactly these validation errors, each as its location and rule.
func requireViolations(t *testing.T, want []string, err error) {
	t.Helper()
	requireCode(t, apperr.CodeValidation, err)
	var invalid *apperr.Error
	require.ErrorAs(t, err, &invalid)
	got := []string{}
	for _, d := range invalid.Details {
		got = append(got, d.Location+" "+d.Rule)
	}
	require.ElementsMatch(t, want, got)
}
