package connections_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/probes"
)

// A list of the few connections in a state goes by an index of that state, on both engines and even without statistics:
// it reads no row of the others.
func TestListsGoByTheIndexOfTheirFilter(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.create(t, w.a, github("a"))
		for index, f := range map[string]connections.Filter{
			"connections_by_status":       {Statuses: []connections.Status{connections.NeedsReauth}},
			"connections_by_auth_mode":    {AuthModes: []string{"oauth2"}},
			"connection_health_by_status": {Health: []probes.Status{probes.Unhealthy}},
		} {
			query, args, err := connections.ListQuery(access.Whole(w.a.Environment), f, page.Request{Limit: 50})
			require.NoError(t, err)
			require.Contains(t, planOf(t, s, query, args), index)
		}
	})
}

// planOf returns the plan of a query where no table is scanned from end to end only because it is short.
func planOf(t *testing.T, s testkit.Store, query string, args []any) string {
	t.Helper()
	explain, columns := "EXPLAIN QUERY PLAN ", 4
	if s.DB.Engine() == db.Postgres {
		explain, columns = "EXPLAIN ", 1
	}
	var lines []string
	require.NoError(t, s.DB.List(t.Context(), "plan", func(ctx context.Context, q db.Querier) error {
		rows, err := q.QueryContext(ctx, explain+query, args...)
		if err != nil {
			return err
		}
		return db.Each(rows, func(r *sql.Rows) error {
			var detail string
			into := []any{new(int), new(int), new(int), &detail}
			err := r.Scan(into[len(into)-columns:]...)
			lines = append(lines, detail)
			return err
		})
	}))
	return strings.Join(lines, "\n")
}
