package e2e_test

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/platform/db"
)

// snapshot is every row of every table, by table, in an order of their text.
type snapshot map[string][]string

// snapshot reads the whole database, but for what comes and goes with the time.
func (w *world) snapshot() snapshot {
	w.t.Helper()
	out := snapshot{}
	for table, owner := range app.TableOwners() {
		if owner == "platform/ratelimit" || owner == "platform/fleet" {
			continue // no user's data: nodes record there that they live. SQLite has none of it
		}
		rows, err := w.database().Read().QueryContext(w.t.Context(), "SELECT * FROM "+table)
		require.NoError(w.t, err)
		columns, err := rows.Columns()
		require.NoError(w.t, err)
		lines := []string{}
		require.NoError(w.t, db.Each(rows, func(r *sql.Rows) error {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := r.Scan(values...); err != nil {
				return err
			}
			lines = append(lines, line(table, columns, values))
			return nil
		}))
		slices.Sort(lines)
		out[table] = lines
	}
	return out
}

// changedByWorkers are the columns, by table, that workers of connections change whenever the clock has moved: they
// take and test the credentials that are due, and renew tokens.
func changedByWorkers() map[string][]string {
	return map[string][]string{
		"connection_checks": {"due_ms", "claim"},
		"connection_health": {"status", "code", "checks", "latency_ms", "checked_ms", "changed_ms", "refusals"},
		"token_refreshes": {"due_ms", "attempted_ms", "not_before_ms", "lease", "lease_until_ms", "lease_revision",
			"interrupted_revision"},
	}
}

func line(table string, columns []string, values []any) string {
	var b strings.Builder
	workers := changedByWorkers()[table]
	for i, name := range columns {
		if name == "last_matched_ms" || name == "suppressed" || name == "seq" || name == "position" ||
			strings.HasPrefix(name, "last_used_") || slices.Contains(workers, name) {
			continue // a worker stores these some time after the change
		}
		v := *values[i].(*any) //nolint:errcheck,forcetypeassert // made so above
		if bytes, ok := v.([]byte); ok {
			v = string(bytes)
		}
		fmt.Fprintf(&b, "%s=%v ", name, v)
	}
	return b.String()
}

func (s snapshot) String() string {
	var b strings.Builder
	for _, table := range slices.Sorted(maps.Keys(s)) {
		b.WriteString(table + "\n" + strings.Join(s[table], "\n") + "\n")
	}
	return b.String()
}

// unchanged runs fn and requires that no row of any table is other than before. The record of refused requests may
// grow, and so may tickets, which any well-formed request for one makes, and the first results of periodic tests.
func (w *world) unchanged(fn func()) {
	w.t.Helper()
	before := w.snapshot()
	fn()
	after := w.snapshot()
	for _, s := range []snapshot{before, after} {
		delete(s, "delivery_stats") // a worker counts some time after the attempts that it counts
		delete(s, "api_key_usage")  // and after the requests
		delete(s, "store_probes")   // which a server writes to see that it can
	}
	require.Empty(w.t, before.without(after, "- "), "the database has lost something")
	for _, table := range []string{"webhook_rejections", "webhook_stream_tickets", "connection_health"} {
		delete(after, table)
		delete(before, table)
	}
	require.Empty(w.t, slices.Concat(after.without(before, "+ "), before.without(after, "- ")), "the database has changed")
}

// without returns the rows that other does not have, as often as they are missing there.
func (s snapshot) without(other snapshot, mark string) []string {
	var out []string
	for table, rows := range s {
		count := map[string]int{}
		for _, row := range other[table] {
			count[row]++
		}
		for _, row := range rows {
			if count[row]--; count[row] < 0 {
				out = append(out, mark+table+": "+row)
			}
		}
	}
	return out
}
