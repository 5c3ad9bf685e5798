package imports

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
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
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/registry"
)

// world is a database with a team of two environments, and a node that reads documents.
type world struct {
	t     *testing.T
	store testkit.Store
	clock *clock.Manual
	svc   *Service
	a, b  access.Principal
	// connections and configs are how many there are of each provider.
	connections, configs atomic.Int64
	keys                 map[string]string
	// moved are the providers whose credentials go elsewhere.
	moved []string
}

func newWorld(t *testing.T, store testkit.Store) *world {
	t.Helper()
	w := &world{t: t, store: store, clock: clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)),
		keys: map[string]string{}}
	w.exec(`INSERT INTO teams (id, name, created_ms) VALUES ('team_x', 'x', 0)`)
	w.a, w.b = w.principal("a"), w.principal("b")
	w.svc = w.process("node")
	return w
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.store.DB.Write().ExecContext(w.t.Context(), query, args...)
	require.NoError(w.t, err)
}

func (w *world) principal(name string) access.Principal {
	env := id.New(id.PrefixEnvironment)
	w.exec(`INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, 'team_x', $2, 0)`, env, name)
	return access.Principal{Kind: access.KindUser, ID: "usr_" + name, Name: name, Team: "team_x",
		Environment: id.Environment(env), Connections: access.All()}
}

// process returns a Service as another process on the same database would have it. Its queue is not started.
func (w *world) process(node string) *Service {
	w.t.Helper()
	builtin, err := registry.Builtin()
	require.NoError(w.t, err)
	client := egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{})
	w.t.Cleanup(client.Close)
	log := slog.New(slog.DiscardHandler)
	s := New(Config{DB: w.store.DB, Clock: w.clock, Logger: log, Definitions: NewDefinitions(builtin, w.store.DB, log),
		Environments: live{}, Keys: func() Keys { return keys(w.keys) }, Targets: client, Client: client, Node: node,
		OnAccessChange: func(_ context.Context, _ *sql.Tx, _ id.Environment, slug string) error {
			w.moved = append(w.moved, slug)
			return nil
		},
		Users: func(context.Context, db.Querier, id.Environment, string) (int, int, error) {
			return int(w.connections.Load()), int(w.configs.Load()), nil
		}})
	s.pause = func(context.Context, time.Duration) {}
	require.NoError(w.t, s.cfg.Definitions.Refresh(w.t.Context()))
	return s
}

type live struct{}

func (live) RequireLive(context.Context, *sql.Tx, id.Environment) error { return nil }

// keys are keys of provider configurations, with the slugs of their providers.
type keys map[string]string

func (k keys) ProviderOf(_ context.Context, _ id.Environment, key string) (string, bool, error) {
	slug, ok := k[key]
	return slug, ok, nil
}

// start runs the queue of a service until the test ends.
func (w *world) start(s *Service) {
	w.t.Helper()
	require.NoError(w.t, s.queue.Start(w.t.Context()))
	w.t.Cleanup(func() { _ = s.queue.Stop(context.Background()) })
}

// create orders an import in environment A.
func (w *world) create(slug, document string) Import {
	w.t.Helper()
	m, err := w.svc.Create(w.t.Context(), w.a, Order{Slug: slug}, strings.NewReader(document))
	require.NoError(w.t, err)
	return m
}

// wait returns an import once it has ended.
func (w *world) wait(m Import) Import {
	w.t.Helper()
	var got Import
	await.Condition(w.t, "the end of the import", func() bool {
		var err error
		got, err = w.svc.Get(w.t.Context(), m.Environment, m.ID)
		require.NoError(w.t, err)
		w.clock.Advance(time.Second)
		return got.FinishedAt != nil
	})
	return got
}

// activate activates an import by its preview.
func (w *world) activate(m Import) Import {
	w.t.Helper()
	_, preview, err := w.svc.Preview(w.t.Context(), m.Environment, m.ID)
	require.NoError(w.t, err)
	m, err = w.svc.Activate(w.t.Context(), w.a, m.ID, preview.Digest)
	require.NoError(w.t, err)
	return m
}

func requireCode(t *testing.T, code apperr.Code, err error) {
	t.Helper()
	var e *apperr.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, e.Message)
}

// document describes an API at a host with operations given as "METHOD /path id".
func document(host string, operations ...string) string {
	paths := map[string][]string{}
	var order []string
	for _, o := range operations {
		method, rest, _ := strings.Cut(o, " ")
		path, id, _ := strings.Cut(rest, " ")
		if paths[path] == nil {
			order = append(order, path)
		}
		paths[path] = append(paths[path], fmt.Sprintf(`%q: {"operationId": %q, "responses": {}}`, strings.ToLower(method),
			id))
	}
	var b strings.Builder
	for i, path := range order {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "%q: {%s}", path, strings.Join(paths[path], ","))
	}
	return fmt.Sprintf(`{"openapi": "3.0.3", "info": {"title": "Acme", "version": "1"},
		"servers": [{"url": "https://%s/v1"}],
		"components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}, "security": [{"token": []}],
		"paths": {%s}}`, host, b.String())
}
