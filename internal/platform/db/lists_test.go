package db_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// busy fills every place for lists with reads of owner a that last until the test ends them, and queues as many again.
func busy(t *testing.T, d *db.DB) (end func()) {
	t.Helper()
	var running sync.WaitGroup
	ending := make(chan struct{})
	before := testkit.Metric(t, d.Metrics(), "sallyport_database_lists_waiting")
	for range 12 {
		running.Go(func() {
			_ = d.List(context.WithoutCancel(t.Context()), "a", func(ctx context.Context, q db.Querier) error {
				rows, err := q.QueryContext(ctx, "SELECT 1 UNION ALL SELECT 2")
				if err != nil {
					return err
				}
				return db.Each(rows, func(*sql.Rows) error {
					<-ending // the connection is in use
					return nil
				})
			})
		})
	}
	await.Condition(t, "the places to be taken", func() bool {
		return testkit.Metric(t, d.Metrics(), "sallyport_database_lists_waiting") > before+6
	})
	var once sync.Once
	end = func() { once.Do(func() { close(ending); running.Wait() }) }
	t.Cleanup(end)
	return end
}

// One owner's lists, however many, take no connection from readiness, reads by key, the gateway's own work or writes,
// and delay another owner's list only until one of them ends.
func TestListsDelayNothingElse(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		end := busy(t, s.DB)
		require.NoError(t, s.DB.Ping(t.Context()))
		_, err := s.DB.Versions(t.Context())
		require.NoError(t, err)
		var one int
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), "SELECT 1").Scan(&one))
		require.NoError(t, s.DB.Reserved().QueryRowContext(t.Context(), "SELECT 1").Scan(&one))
		require.NoError(t, s.DB.Tx(t.Context(), func(*sql.Tx) error { return nil }))
		served := make(chan error, 1)
		go func() {
			served <- s.DB.List(t.Context(), "b", func(ctx context.Context, q db.Querier) error {
				return q.QueryRowContext(ctx, "SELECT 1").Scan(&one)
			})
		}()
		if s.DB.Engine() == db.Postgres {
			require.NoError(t, <-served, "one of the places is not for a")
		}
		end()
		if s.DB.Engine() == db.SQLite { // may have a single place
			require.NoError(t, <-served)
		}
	})
}
