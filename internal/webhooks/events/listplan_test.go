package events_test

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
	"sallyport/internal/webhooks/events"
)

// A list whose filter few events match goes by an index of those events, in both orders and on both engines, even
// without statistics.
func TestListsGoByTheIndexOfTheirFilter(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, env := newStore(store.DB), newEnvironment()
		event := newEvent(env)
		run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{event})...)
		for _, c := range []struct {
			filter  events.Filter
			indexes []string
		}{
			{events.Filter{Statuses: []events.Status{events.Failed}}, []string{"webhook_events_by_failure"}},
			{events.Filter{Duplicate: new(true)}, []string{"webhook_events_duplicates"}},
			{events.Filter{Control: new(true), Providers: []string{"x"}}, []string{"webhook_events_controls"}},
			{events.Filter{DeliveryCriteria: events.DeliveryCriteria{ErrorCodes: []string{"timeout"}}},
				[]string{"webhook_events_after_failures"}},
			{events.Filter{DeliveryCriteria: events.DeliveryCriteria{HTTPStatuses: []int{503}}},
				[]string{"webhook_events_after_failures"}},
			{events.Filter{ConnectionIDs: []string{"x"}}, []string{"webhook_events_by_connection"}},
			{events.Filter{Types: []string{"a.b"}}, []string{"webhook_events_by_type", "webhook_events_batches"}},
			{events.Filter{Search: event.Type[:3]}, []string{"webhook_events_by_type"}},
		} {
			for _, ascending := range []bool{false, true} {
				texts, args, err := s.ListQueries(t.Context(), access.Whole(env), c.filter, page.Request{Limit: 50,
					Ascending: ascending, After: event.UUID})
				require.NoError(t, err)
				require.NotEmpty(t, texts)
				for i := range texts {
					found := planOf(t, store, texts[i], args[i]...)
					for _, index := range c.indexes {
						require.Contains(t, found, index, "%+v\n%s", c.filter, texts[i])
					}
				}
			}
		}
	})
}

// planOf returns the plan of a query with arguments, as lists are planned. A table without statistics is not scanned
// from end to end only because it might be short.
func planOf(t *testing.T, store testkit.Store, query string, args ...any) string {
	t.Helper()
	explain, columns := "EXPLAIN QUERY PLAN ", 4
	if store.DB.Engine() == db.Postgres {
		explain, columns = "EXPLAIN ", 1
	}
	var lines []string
	require.NoError(t, store.DB.List(t.Context(), "plan", func(ctx context.Context, q db.Querier) error {
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
