package subscriptionshttp_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/httpapitest"
	"sallyport/internal/providers/connections"
	"sallyport/internal/webhooks/subscriptions"
	"sallyport/internal/webhooks/subscriptions/subscriptionshttp"
)

const path = "/api/v1/webhook-subscriptions"

// server is the API over a database, as one environment's users and API keys see it.
type server struct{ httpapitest.Client }

func newServer(t *testing.T, store testkit.Store) *server {
	t.Helper()
	keyset := filepath.Join(t.TempDir(), "keyset.json")
	require.NoError(t, secretbox.Create(keyset))
	box, err := secretbox.Open(secretbox.Source{Path: keyset})
	require.NoError(t, err)
	team, env, other := id.New(id.PrefixTeam), id.New(id.PrefixEnvironment), id.New(id.PrefixEnvironment)
	_, err = store.DB.Write().ExecContext(t.Context(), `INSERT INTO teams (id, name, created_ms) VALUES ($1, 'Acme', 0)`,
		team)
	require.NoError(t, err)
	for _, e := range []string{env, other} {
		_, err := store.DB.Write().ExecContext(t.Context(),
			`INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, $2, $3, 0)`, e, team, e)
		require.NoError(t, err)
	}
	client := egress.New(egress.Policy{}, egress.Options{})
	t.Cleanup(client.Close)
	now := clock.NewManual(time.UnixMilli(1_750_000_000_123))
	svc := subscriptions.New(subscriptions.Config{DB: store.DB, Box: box, Clock: now, Targets: client,
		Connections: directory{}, Configs: directory{}, Environments: live{}, Deliveries: noDeliveries{}})
	key := func(env string, route access.Route) httpapitest.Key {
		return httpapitest.Key{Environment: id.Environment(env), Grants: access.Open(route)}
	}
	api := httpapi.New(httpapi.Config{
		Version: "test", Logger: slog.New(slog.DiscardHandler), Clock: now,
		Auth: httpapitest.Callers{Team: id.Team(team), Keys: map[string]httpapitest.Key{
			"key": key(env, access.RouteWebhooks), "foreign": key(other, access.RouteWebhooks),
			"narrow": key(env, access.RouteConnections)}},
	})
	subscriptionshttp.Mount(api, svc)
	return &server{httpapitest.Client{API: api, Environment: id.Environment(env)}}
}

// live takes every environment for one that is there.
type live struct{}

func (live) RequireLive(context.Context, *sql.Tx, id.Environment) error { return nil }

// create makes a subscription and returns its id.
func (s *server) create(t *testing.T, body string) string {
	t.Helper()
	a := s.Do(t, "key", http.MethodPost, path, body)
	require.Equal(t, http.StatusCreated, a.Status, "%s", a.Body)
	subscriptionID, ok := a.Object(t)["id"].(string)
	require.True(t, ok)
	return subscriptionID
}

type directory struct{}

func (directory) ProviderOf(_ context.Context, _ id.Environment, key string) (string, bool, error) {
	return key, key == "github", nil
}

func (directory) Suggest(context.Context, id.Environment, string) string { return "" }

func (directory) Exists(_ context.Context, _ db.Querier, _ id.Environment, key, connectionID string) (bool, error) {
	return key == "github" && connectionID == "acme", nil
}

func (directory) OfID(_ context.Context, _ id.Environment, connectionID string) ([]connections.Connection, error) {
	return []connections.Connection{{ProviderConfigKey: "github", ConnectionID: connectionID}}, nil
}

func (directory) ProvidersInUse(context.Context, id.Environment) ([]string, error) { return nil, nil }

func (directory) ExistsUnderAnyKey(_ context.Context, _ db.Querier, _ id.Environment,
	connectionID string) (bool, error) {
	return connectionID == "acme", nil
}

// noDeliveries stands for deliveries where nothing is to be delivered.
type noDeliveries struct{}

func (noDeliveries) Hold(context.Context, *sql.Tx, id.Environment, string, time.Time) error {
	return nil
}

func (noDeliveries) Cancel(context.Context, *sql.Tx, id.Environment, string, time.Time) error {
	return nil
}

func (noDeliveries) Renewed(context.Context, *sql.Tx, id.Environment, string, time.Time) error {
	return nil
}

func (noDeliveries) Health(context.Context, id.Environment, []string, time.Time) (map[string]subscriptions.Health,
	error) {
	return map[string]subscriptions.Health{}, nil
}

func (noDeliveries) Changed(string) {}
