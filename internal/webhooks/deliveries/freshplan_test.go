package deliveries

import (
	"context"
	"database/sql"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// On PostgreSQL the statements of ingest and of the workers find rows by their key or by the queue's own indexes from
// the first event on, before the planner has any statistics, and after it has them.
func TestPostgresPlansWithoutStatistics(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		if store.DB.Engine() != db.Postgres {
			t.Skip("SQLite plans without statistics; see TestSQLitePlans")
		}
		store.DB.Write().SetMaxOpenConns(1) // which remembers every statement
		w := newWorld(t, store)
		sub := w.subscription()
		for range 2 {
			w.everyStatement(t, sub)
			names := plansByKey(t, w.db)
			for _, expected := range []string{"UPDATE webhook_events AS e SET n_sending", "UPDATE deliveries AS d SET status",
				"UPDATE deliveries SET due_ms", "INSERT INTO webhook_event_keys", "INSERT INTO webhook_events",
				"INSERT INTO delivery_attempts", "FOR UPDATE SKIP LOCKED", "DELETE FROM delivery_fanout_parts",
				"expunged_ms IS NOT NULL AND event_uuid IN"} {
				require.Contains(t, names, expected, "no such statement")
			}
			_, err := w.db.Write().ExecContext(t.Context(), "ANALYZE")
			require.NoError(t, err)
		}
	})
}

// everyStatement runs what happens to an event from its receipt to the end of its deliveries, and what the workers ask
// for meanwhile.
func (w *world) everyStatement(t *testing.T, sub string) {
	t.Helper()
	ctx := t.Context()
	keys := events.NewKeys(w.db)
	list := make([]Key, 0, 3)
	for range 3 {
		e, d := w.event(Delivery{Status: Pending, Due: testTime()}, sub)
		e.Payload = &events.Payload{Headers: "{}", Body: []byte("{}"), Encoding: events.JSON}
		_, rest, err := splitFanout(w.env, e.UUID, []subscriptions.Matched{{ID: w.subscription(), Enabled: true}}, 0,
			testTime())
		require.NoError(t, err)
		require.NoError(t, w.db.Tx(ctx, func(tx *sql.Tx) error {
			for range 2 {
				key := &events.Key{ConnectionUUID: sub, Hash: []byte(e.UUID), EventUUID: e.UUID, ExpiresMillis: events.KeyForever}
				if _, err := keys.Claim(ctx, tx, []*events.Key{key}, clock.Millis(testTime())); err != nil {
					return err
				}
			}
			e.Pending += rest.counters.Pending
			_, err := w.db.ExecAll(ctx, tx, append(append(events.Insert([]events.NewEvent{e}), Insert([]Delivery{d})),
				fanoutStatements([]*fanout{rest})...)...)
			return err
		}))
		list = append(list, d.Key)
		part, _, err := w.store.nextPart(ctx, w.env, e.UUID)
		require.NoError(t, err)
		require.NoError(t, w.db.Tx(ctx, func(tx *sql.Tx) error {
			return w.store.storePart(ctx, tx, w.env, e.UUID, part, testTime())
		}))
	}
	claimed := w.claim(t, testTime(), len(list), sub)
	require.Len(t, claimed, len(list))
	_, err := w.store.renew(ctx, claimed, testTime().Add(time.Minute))
	require.NoError(t, err)
	_, _, err = w.store.recover(ctx, testTime(), "", func(Key) bool { return false })
	require.NoError(t, err)
	results := make([]*result, len(claimed))
	for i, d := range claimed {
		status := 200
		o := outcome{At: testTime(), HTTPStatus: &status}
		if i == 0 {
			o.Failure = &Failure{Code: codeUnexpectedStatus, At: testTime()}
		}
		results[i] = &result{delivery: d, next: d.attempted(o, []time.Duration{time.Second}, 0), attempted: true,
			attempt: Attempt{EventUUID: d.EventUUID, SubscriptionID: d.SubscriptionID, Generation: 1, Number: 1,
				StartedAt: testTime(), Outcome: AttemptSucceeded, RequestHeaders: "{}", ResponseHeaders: "{}"}}
	}
	require.NoError(t, w.recorder.storeResults(ctx, results))
}

var scanned = regexp.MustCompile(`(?:Scan using (\w+)|Seq Scan|Bitmap Heap Scan) on (\w+)`)

// plansByKey requires that the write connection's statements read the tables of the hot path by nothing but their keys
// and the indexes of the queue. It returns the statements.
func plansByKey(t *testing.T, d *db.DB) string {
	t.Helper()
	ctx := t.Context()
	conn, err := d.Write().Conn(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	allowed := map[string][]string{
		"webhook_events":        {"webhook_events_pkey"},
		"webhook_event_keys":    {"webhook_event_keys_pkey"},
		"deliveries":            {"deliveries_pkey", "deliveries_by_subscription", "deliveries_open", "deliveries_queue"},
		"delivery_fanouts":      {"delivery_fanouts_pkey", "delivery_fanouts_due"},
		"delivery_fanout_parts": {"delivery_fanout_parts_pkey"},
	}
	var all strings.Builder
	for name, text := range prepared(ctx, t, conn) {
		args := strings.TrimSuffix(strings.Repeat("NULL, ", strings.Count(text.types, ",")+1), ", ")
		if text.types == "" {
			continue
		}
		all.WriteString(text.statement + "\n")
		if !regexp.MustCompile(`(?i)^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)`).MatchString(text.statement) {
			continue
		}
		plan := lines(ctx, t, conn, `EXPLAIN EXECUTE "`+name+`" (`+args+`)`)
		for _, m := range scanned.FindAllStringSubmatch(plan, -1) {
			index, table := m[1], m[2]
			own, hot := allowed[table]
			if !hot {
				continue
			}
			require.Contains(t, own, index, "%s\n%s", text.statement, plan)
			if strings.Contains(text.statement, "UPDATE deliveries") {
				require.NotContains(t, []string{"deliveries_open", "deliveries_queue"}, index, "%s\n%s", text.statement, plan)
			}
		}
	}
	return all.String()
}

type preparedText struct{ statement, types string }

// prepared returns the prepared statements of a connection by their names.
func prepared(ctx context.Context, t *testing.T, conn *sql.Conn) map[string]preparedText {
	t.Helper()
	rows, err := conn.QueryContext(ctx, "SELECT name, statement, array_to_string(parameter_types, ',') "+
		"FROM pg_prepared_statements")
	require.NoError(t, err)
	list := map[string]preparedText{}
	require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
		var name string
		var p preparedText
		err := r.Scan(&name, &p.statement, &p.types)
		list[name] = p
		return err
	}))
	return list
}

// lines returns the rows of a query of one text.
func lines(ctx context.Context, t *testing.T, conn *sql.Conn, query string) string {
	t.Helper()
	rows, err := conn.QueryContext(ctx, query)
	require.NoError(t, err)
	var all []string
	require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
		var line string
		err := r.Scan(&line)
		all = append(all, line)
		return err
	}))
	return strings.Join(all, "\n")
}
