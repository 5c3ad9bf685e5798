package db

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit/await"
)

// A transaction on SQLite whose time is up is rolled back while it still runs, even where no request can end it, and
// the writer's connection serves the next one.
func TestLastingTransactionEndsInTime(t *testing.T) {
	t.Parallel()
	d, err := openSQLite(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	_, err = d.Write().ExecContext(t.Context(), "CREATE TABLE kept (n bigint)")
	require.NoError(t, err)

	ctx, expire := context.WithCancel(t.Context())
	tx, end, err := d.begin(ctx, true)
	require.NoError(t, err)
	insert := func() error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO kept VALUES (1)")
		return err
	}
	require.NoError(t, insert())
	expire()
	await.Condition(t, "the rollback", func() bool {
		err := insert()
		return err != nil && IsUnavailable(err)
	})
	require.ErrorIs(t, tx.Commit(), sql.ErrTxDone)
	end(nil)

	require.NoError(t, d.Tx(context.WithoutCancel(t.Context()), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO kept VALUES (2)")
		return err
	}))
	var n int
	require.NoError(t, d.Read().QueryRowContext(t.Context(), "SELECT SUM(n) FROM kept").Scan(&n))
	require.Equal(t, 2, n)
}
