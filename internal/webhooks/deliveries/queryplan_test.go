package deliveries

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// longQueue stores deliveries of a subscription, each of its own event: some due, some not, some leased, most history.
func longQueue(t *testing.T, w *world) (subscription string) {
	t.Helper()
	subscription = w.subscription()
	later := testTime().Add(time.Hour)
	kinds := []Delivery{{Status: Pending, Due: testTime()}, {Status: RetryWait, Due: later},
		{Status: Sending, ClaimID: "other:1", Due: later}, {Status: Held, Due: testTime()}}
	for range 40 {
		var found []events.NewEvent
		var list []Delivery
		for i := range 60 {
			d := Delivery{Status: Succeeded, Due: testTime()}
			if i < 4*len(kinds) {
				d = kinds[i%len(kinds)]
			}
			e, d := w.event(d, subscription)
			found, list = append(found, e), append(list, d)
		}
		w.insert(t, found, list)
	}
	return subscription
}

// On SQLite the statements of the workers use the partial indexes, which are small where the history is long.
func TestSQLitePlans(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		if store.DB.Engine() != db.SQLite {
			t.Skip("PostgreSQL's plans depend on what the tables hold; see TestPostgresReadsNoWholeTable")
		}
		claim, claimArgs := dueQuery(ask{"a", chunk}, testTime(), "")
		open, openArgs := openQuery("a", chunk, "", []Status{Pending, RetryWait, Held})
		selected := "SELECT " + deliveryColumns + " FROM deliveries d WHERE "
		for _, c := range []struct {
			query, index string
			args         []any
		}{
			{claim, "USING INDEX deliveries_open (subscription_id=? AND status=? AND due_ms<?)", claimArgs},
			{selected + whereLeased + " AND d.due_ms <= $1 ORDER BY d.due_ms LIMIT 5",
				"USING INDEX deliveries_queue (status=? AND due_ms<?)", []any{1}},
			{open, "USING INDEX deliveries_open (subscription_id=? AND status=?)", openArgs},
		} {
			rows, err := store.DB.Read().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+c.query, c.args...)
			require.NoError(t, err)
			var plan []string
			require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
				var id, parent, unused int
				var detail string
				plan = append(plan, detail)
				err := r.Scan(&id, &parent, &unused, &detail)
				plan[len(plan)-1] = detail
				return err
			}))
			text := strings.Join(plan, "\n")
			require.Contains(t, text, c.index, c.query)
			subqueries := strings.NewReplacer("SCAN pending", "", "SCAN retry_wait", "", "SCAN held", "")
			require.NotContains(t, subqueries.Replace(text), "SCAN", c.query)
			require.NotContains(t, text, "TEMP B-TREE", "rows that are sorted are all read")
		}
	})
}

// However long the queue and the history, and however old the planner's statistics, PostgreSQL's workers read no table
// from end to end.
func TestPostgresReadsNoWholeTable(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		if store.DB.Engine() != db.Postgres {
			t.Skip("SQLite keeps no such statistics; see TestSQLitePlans")
		}
		// One connection: statements planned while the table was empty are met again, and its statistics are all there are.
		store.DB.Write().SetMaxOpenConns(1)
		ctx := t.Context()
		w := newWorld(t, store)
		work := func(sub string) (leased int) {
			var claimed []Delivery
			for range 9 {
				//nolint:contextcheck // a claim outlives the context of who asks for it
				claimed = append(claimed, w.claim(t, testTime(), 20, sub, "none")...)
			}
			_, err := w.store.renew(ctx, claimed, testTime().Add(time.Minute))
			require.NoError(t, err)
			_, _, err = w.store.recover(ctx, testTime(), "", func(Key) bool { return false })
			require.NoError(t, err)
			_, err = w.store.withOpen(ctx, "")
			require.NoError(t, err)
			require.NoError(t, w.db.Tx(ctx, func(tx *sql.Tx) error {
				_, err := w.store.ofSubscription(ctx, tx, sub, 5, Pending, RetryWait)
				return err
			}))
			_, err = w.store.Depth(ctx, testTime())
			require.NoError(t, err)
			return len(claimed)
		}
		for range 6 {
			require.Zero(t, work("sub"))
		}
		sub := longQueue(t, w)
		before := sequentialReads(ctx, t, store)
		require.Equal(t, 160, work(sub))
		require.Equal(t, before, sequentialReads(ctx, t, store))

		_, err := store.DB.Write().ExecContext(ctx, `SELECT COUNT(*) FROM deliveries WHERE leases_lost = 7`)
		require.NoError(t, err)
		require.Greater(t, sequentialReads(ctx, t, store), before, "what is measured here would show")
	})
}

// sequentialReads returns how many rows of deliveries were read from tables and not through an index.
func sequentialReads(ctx context.Context, t *testing.T, store testkit.Store) (n int64) {
	t.Helper()
	_, err := store.DB.Write().ExecContext(ctx, "SELECT pg_stat_force_next_flush()")
	require.NoError(t, err)
	require.NoError(t, store.DB.Read().QueryRowContext(ctx, "SELECT seq_tup_read FROM pg_stat_user_tables WHERE "+
		"relname = 'deliveries'").Scan(&n))
	return n
}
