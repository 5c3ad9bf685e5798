package db_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
)

// A transaction of the product whose function waits for another connection, of any pool or for another transaction, is
// found by every test that runs it. Outside transactions the pools are free to use.
func TestTransactionsUseNoOtherConnection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.NewSQLite(t, dir)
	d, err := db.Open(t.Context(), "", dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	db.Guard(d)
	manual := clock.NewManual(time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC))
	shown := db.NewClock(d, manual, nil)
	for name, use := range map[string]func(ctx context.Context) error{
		"Read": func(ctx context.Context) error {
			return d.Read().PingContext(ctx)
		},
		"Reserved": d.Ping,
		"List": func(ctx context.Context) error {
			return d.List(ctx, "a", func(context.Context, db.Querier) error { return nil })
		},
		"Tx": func(ctx context.Context) error {
			return d.Tx(ctx, func(*sql.Tx) error { return nil })
		},
	} {
		require.NoError(t, use(t.Context()), name)
		require.NoError(t, shown.Sync(t.Context()))
		manual.Set(time.Hour)
		require.PanicsWithValue(t, "the function of a transaction uses "+name+" of the database", func() {
			_ = shown.Follow(t.Context(), func(ctx context.Context, _ *sql.Tx, _ time.Duration) error { return use(ctx) })
		})
	}
}
