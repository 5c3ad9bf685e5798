package subscriptions_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
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
	"sallyport/internal/providers/connections"
	"sallyport/internal/webhooks/subscriptions"
)

// world is a service over a database with two environments of one team.
type world struct {
	*subscriptions.Service
	cfg     subscriptions.Config
	store   testkit.Store
	clock   *clock.Manual
	control *control
	p       access.Principal // a developer in the first environment
	other   id.Environment
}

func newWorld(t *testing.T, store testkit.Store) *world {
	t.Helper()
	keyset := filepath.Join(t.TempDir(), "keyset.json")
	require.NoError(t, secretbox.Create(keyset))
	box, err := secretbox.Open(secretbox.Source{Path: keyset})
	require.NoError(t, err)
	client := egress.New(egress.Policy{}, egress.Options{})
	t.Cleanup(client.Close)
	w := &world{
		store: store, clock: clock.NewManual(time.UnixMilli(1_750_000_000_000)), control: &control{},
		p: access.Principal{
			Kind: access.KindUser, ID: id.New(id.PrefixUser), Name: "dev@example.com", Team: id.Team(id.New(id.PrefixTeam)),
			Environment: id.Environment(id.New(id.PrefixEnvironment)), Rights: access.Developer.Rights(),
			RequestID: id.NewUUID(),
		},
		other: id.Environment(id.New(id.PrefixEnvironment)),
	}
	w.cfg = subscriptions.Config{DB: store.DB, Box: box, Clock: w.clock, Targets: client, Connections: directory{},
		Configs:      directory{},
		Environments: environments{}, Deliveries: w.control}
	w.Service = w.process()
	w.exec(t, `INSERT INTO teams (id, name, created_ms) VALUES ($1, 'Acme', 0)`, string(w.p.Team))
	for name, env := range map[string]id.Environment{"one": w.p.Environment, "two": w.other} {
		w.exec(t, `INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, $2, $3, 0)`, string(env),
			string(w.p.Team), name)
	}
	return w
}

// process returns a service as another process over the same database has it.
func (w *world) process() *subscriptions.Service { return subscriptions.New(w.cfg) }

func (w *world) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := w.store.DB.Write().ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

// create stores a subscription with the patterns given.
func (w *world) create(t *testing.T, eventTypes ...string) subscriptions.Subscription {
	t.Helper()
	sub, _, err := w.Create(t.Context(), w.p, change(eventTypes...))
	require.NoError(t, err)
	return sub
}

func (w *world) match(t *testing.T, s *subscriptions.Service, types ...string) []subscriptions.Matched {
	t.Helper()
	found, _, err := s.Match(t.Context(), w.p.Environment, origin("github", "acme"), types)
	require.NoError(t, err)
	return found
}

// audited returns the actions of the subscription's trail, oldest first, and testkit.AuditDiff of each.
func (w *world) audited(t *testing.T, subscriptionID string) (actions, changes []string) {
	t.Helper()
	rows, err := w.store.DB.Read().QueryContext(t.Context(),
		`SELECT action, changes, details FROM audit_events WHERE target_id = $1 ORDER BY id`, subscriptionID)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var action, change, details string
		require.NoError(t, rows.Scan(&action, &change, &details))
		actions, changes = append(actions, action), append(changes, testkit.AuditDiff(t, change, details))
	}
	require.NoError(t, rows.Err())
	return actions, changes
}

// origin returns where an event of a configuration comes from whose key is its provider's slug.
func origin(key, connectionID string) subscriptions.Origin {
	return subscriptions.Origin{Provider: key, ProviderConfigKey: key, ConnectionID: connectionID}
}

func change(eventTypes ...string) subscriptions.Change {
	return subscriptions.Change{
		EventTypes: patch.Some(eventTypes),
		ForwardURL: patch.Some("https://198.51.99.7/hook"),
	}
}

// directory knows the provider configurations github and slack, and github's connection acme. Like PostgreSQL it fails
// on what no text column can hold.
type directory struct{}

func lookUp(connectionID string) (bool, error) {
	if strings.ContainsRune(connectionID, 0) {
		return false, errors.New("invalid byte sequence")
	}
	return connectionID == "acme", nil
}

func (directory) ProviderOf(_ context.Context, _ id.Environment, key string) (string, bool, error) {
	return key, key == "github" || key == "slack", nil
}

func (directory) Suggest(context.Context, id.Environment, string) string { return "" }

func (directory) Exists(_ context.Context, _ db.Querier, _ id.Environment, key, connectionID string) (bool, error) {
	exists, err := lookUp(connectionID)
	return exists && key == "github", err
}

func (directory) OfID(_ context.Context, _ id.Environment, connectionID string) ([]connections.Connection, error) {
	return []connections.Connection{{ProviderConfigKey: "github", ConnectionID: connectionID}}, nil
}

func (directory) ProvidersInUse(context.Context, id.Environment) ([]string, error) { return nil, nil }

func (directory) ExistsUnderAnyKey(_ context.Context, _ db.Querier, _ id.Environment,
	connectionID string) (bool, error) {
	return lookUp(connectionID)
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

// control stands for deliveries. It records its calls, inside the transaction where there is one.
type control struct {
	mu                       sync.Mutex
	held, cancelled, renewed []string
	// health is what it says of the subscriptions.
	health map[string]subscriptions.Health
	woken  atomic.Int64
	fail   error
}

func (c *control) Hold(ctx context.Context, tx *sql.Tx, _ id.Environment, subscriptionID string, _ time.Time) error {
	c.record(&c.held, subscriptionID)
	return c.inside(ctx, tx)
}

func (c *control) Cancel(ctx context.Context, tx *sql.Tx, _ id.Environment, subscriptionID string, _ time.Time) error {
	c.record(&c.cancelled, subscriptionID)
	return c.inside(ctx, tx)
}

// record adds a call to a list. Transactions of PostgreSQL run at the same time.
func (c *control) record(list *[]string, subscriptionID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, subscriptionID)
}

func (c *control) inside(ctx context.Context, tx *sql.Tx) error {
	var one int
	return errors.Join(tx.QueryRowContext(ctx, "SELECT 1").Scan(&one), c.fail)
}

func (c *control) Renewed(ctx context.Context, tx *sql.Tx, _ id.Environment, subscriptionID string, _ time.Time) error {
	c.record(&c.renewed, subscriptionID)
	return c.inside(ctx, tx)
}

func (c *control) Health(context.Context, id.Environment, []string,
	time.Time) (map[string]subscriptions.Health, error) {
	return c.health, nil
}

func (c *control) Changed(string) { c.woken.Add(1) }

// lookups runs before each check of a target, to come between the reading and the writing of a change.
type lookups struct {
	subscriptions.Targets
	before func()
}

func (l lookups) CheckTarget(ctx context.Context, raw string) *egress.TargetError {
	l.before()
	return l.Targets.CheckTarget(ctx, raw)
}

func (l lookups) ParseTarget(raw string) (*url.URL, *egress.TargetError) {
	return l.Targets.ParseTarget(raw)
}
