package retention

import (
	"context"
	"database/sql"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

const day = 24 * time.Hour

// settings are the lifetimes of environments.
type settings map[id.Environment]events.Lifetimes

func (s settings) Lifetimes(_ context.Context, env id.Environment) (events.Lifetimes, error) {
	return s[env], nil
}

// world is a worker over a database of its own, at a time that stands still.
type world struct {
	*Worker
	t     *testing.T
	clk   *clock.Manual
	keeps settings
	// stored is the data that readers of the API read.
	stored *events.Store
}

func newWorld(t *testing.T, s testkit.Store) *world {
	t.Helper()
	w := &world{t: t, clk: clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)), keeps: settings{}}
	w.stored = w.store(s.DB)
	w.Worker = w.process(s.DB)
	return w
}

func (w *world) store(d *db.DB) *events.Store {
	return events.New(events.Config{DB: d, Deliveries: deliveries.Filter{}, Retention: w.keeps, Clock: w.clk})
}

// process returns another worker on the same data, which takes no rest.
func (w *world) process(d *db.DB) *Worker {
	worker := New(Config{DB: d, Deliveries: deliveries.NewStore(deliveries.StoreConfig{DB: d, Events: w.store(d)}),
		Lifetimes: w.keeps, Clock: w.clk, Logger: slog.New(slog.DiscardHandler)})
	worker.pace.rest = func(context.Context, time.Duration) {}
	return worker
}

func (w *world) environment(payloadDays, eventDays int) id.Environment {
	env := id.Environment(id.New(id.PrefixEnvironment))
	w.keep(env, payloadDays, eventDays)
	return env
}

func (w *world) keep(env id.Environment, payloadDays, eventDays int) {
	w.keeps[env] = events.Lifetimes{Payload: time.Duration(payloadDays) * day, Event: time.Duration(eventDays) * day}
}

// event is an event to store, with a delivery in each of the states.
type event struct {
	env       id.Environment
	received  time.Time
	duplicate bool
	body      string
	states    []deliveries.Status
	attempts  int
	key       string
	// bodyKeyUntil is the end of the window of the hash that is kept with the key; zero for none.
	bodyKeyUntil time.Time
}

// add stores an event as ingest and the workers would have left it, and returns it.
func (w *world) add(t require.TestingT, e event) events.Event {
	ctx := context.Background()
	n := events.NewEvent{Event: events.Event{UUID: id.NewUUID(), Environment: e.env, ConnectionUUID: id.NewUUID(),
		ConnectionID: "acme", Provider: "github", ProviderConfigKey: "github", Type: "a.b", IdempotencyKey: e.key,
		IdempotencySource: "header:x-id", Verification: "{}", BodySize: int64(len(e.body)), ReceivedAt: e.received},
		Payload: &events.Payload{Headers: "{}", Body: []byte(e.body), Encoding: events.Text}}
	if e.key == "" {
		n.IdempotencyKey = n.UUID
	}
	if e.duplicate {
		n.DuplicateOf, n.Payload = new(id.NewUUID()), nil
	}
	var list []deliveries.Delivery
	change := events.Change{Environment: e.env, EventUUID: n.UUID, At: e.received, Attempts: int64(e.attempts)}
	for _, s := range e.states {
		list = append(list, deliveries.Delivery{Key: deliveries.Key{EventUUID: n.UUID,
			SubscriptionID: id.New(id.PrefixSubscription)}, ID: id.NewUUID(), Environment: e.env, Status: s, Generation: 1,
			Due: e.received, CreatedAt: e.received, UpdatedAt: e.received})
		switch s {
		case deliveries.Pending:
			change.Pending++
		case deliveries.Sending:
			change.Sending++
		case deliveries.RetryWait:
			change.RetryWait++
		case deliveries.Held:
			change.Held++
		case deliveries.Succeeded:
			change.Succeeded++
		case deliveries.Dead:
			change.Dead++
		case deliveries.Cancelled:
			change.Cancelled++
		}
	}
	require.NoError(t, w.DB.Tx(ctx, func(tx *sql.Tx) error {
		if !e.duplicate {
			keys := []*events.Key{{ConnectionUUID: n.ConnectionUUID, Hash: events.HashID(n.IdempotencyKey), EventUUID: n.UUID,
				ExpiresMillis: events.KeyForever}}
			if !e.bodyKeyUntil.IsZero() {
				keys = append(keys, &events.Key{ConnectionUUID: n.ConnectionUUID, Hash: events.HashBody(n.UUID), EventUUID: n.UUID,
					ExpiresMillis: clock.Millis(e.bodyKeyUntil)})
			}
			if _, err := events.NewKeys(w.DB).Claim(ctx, tx, keys, clock.Millis(e.received)); err != nil {
				return err
			}
		}
		_, counters := events.Apply([]events.Change{change}, &events.Log{})
		if _, err := w.DB.ExecAll(ctx, tx, append(events.Insert([]events.NewEvent{n}), deliveries.Insert(list),
			counters)...); err != nil {
			return err
		}
		for i := range e.attempts {
			if _, err := tx.ExecContext(ctx, `INSERT INTO delivery_attempts (id, event_uuid, subscription_id, environment_id,
				generation, number, outcome, started_ms, dns_us, connect_us, tls_us, first_byte_us, total_us, request_headers,
				response_headers, truncated)
				VALUES ($1, $2, 'sub', $3, 1, $4, 'failed', 0, 0, 0, 0, 0, 0, '{}', '{}', false)`,
				id.NewUUID(), n.UUID, string(e.env), i+1); err != nil {
				return err
			}
		}
		return nil
	}))
	return n.Event
}

// counts returns the number of rows of each table.
func (w *world) counts(t require.TestingT) map[string]int {
	out := map[string]int{}
	for _, table := range []string{"webhook_events", "webhook_event_payloads", "webhook_event_keys", "deliveries",
		"delivery_attempts"} {
		var n int
		require.NoError(t, w.DB.Read().QueryRowContext(context.Background(), "SELECT COUNT(*) FROM "+table).Scan(&n))
		if n > 0 {
			out[table] = n
		}
	}
	return out
}

// run does a round, which must do everything.
func (w *world) run() {
	w.t.Helper()
	require.NoError(w.t, w.removeExpired(w.t.Context()))
}

// seen returns what the environment's list shows, oldest first.
func (w *world) seen(env id.Environment) []events.Event {
	w.t.Helper()
	list, _, err := w.stored.List(w.t.Context(), access.Whole(env), events.Filter{}, page.Request{Limit: page.MaxLimit,
		Ascending: true})
	require.NoError(w.t, err)
	return list
}

// metric returns the value that a metric of this package has for a kind of thing.
func (w *world) metric(name, what string) float64 {
	w.t.Helper()
	return testkit.Metric(w.t, w.Module().Metrics, name, "what", what)
}

func (w *world) removedSoFar(what string) int {
	return int(w.metric("sallyport_retention_removed_total", what))
}

func (w *world) overdueBy(what string) time.Duration {
	return time.Duration(w.metric("sallyport_retention_overdue_seconds", what) * float64(time.Second))
}

// states returns the states of an event's deliveries, sorted.
func (w *world) states(t require.TestingT, e events.Event) []string {
	byEvent, err := w.Deliveries.ByEvents(context.Background(), access.Whole(e.Environment), []string{e.UUID})
	require.NoError(t, err)
	var out []string
	for _, d := range byEvent[e.UUID] {
		s := string(d.Status)
		if d.LastFailure != nil {
			s += " " + d.LastFailure.Code
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}
