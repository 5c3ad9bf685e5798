package db_test

import (
	"database/sql"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
)

// Every connection that writes waits for the disk at each commit, as the database itself reports: an acknowledged event
// survives a power failure.
func TestCommitsAreSynced(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		weak, err := s.DB.Weaknesses(t.Context())
		require.NoError(t, err)
		if s.DB.Engine() == db.Postgres {
			require.Equal(t, "on", setting(t, s.DB))
			for _, w := range weak {
				require.Regexp(t, "^(fsync|full_page_writes) is off", w, "the settings of a server for tests")
			}
			return
		}
		require.Empty(t, weak)
		var journal string
		var synchronous int
		require.NoError(t, s.DB.Write().QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&journal))
		require.NoError(t, s.DB.Write().QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&synchronous))
		require.Equal(t, "wal", journal)
		require.Equal(t, 2, synchronous, "FULL: the log is synced at each commit")
		_, err = s.DB.Write().ExecContext(t.Context(), "PRAGMA synchronous = NORMAL")
		require.NoError(t, err)
		weak, err = s.DB.Weaknesses(t.Context())
		require.NoError(t, err)
		require.Len(t, weak, 1)
	})
}

func setting(t *testing.T, d *db.DB) (value string) {
	t.Helper()
	require.NoError(t, d.Write().QueryRowContext(t.Context(), "SELECT current_setting('synchronous_commit')").Scan(&value))
	return value
}

// PostgreSQL ends a transaction that its node does not go on with. Otherwise a node that stands still keeps the locks
// of what it was storing, and no other node can store what the provider resends.
func TestAbandonedTransactionsEnd(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() == db.SQLite {
			t.Skip("SQLite has one process")
		}
		for name, want := range map[string]string{"idle_in_transaction_session_timeout": "5s", "tcp_keepalives_idle": "5",
			"tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"} {
			var value string
			require.NoError(t, s.DB.Write().QueryRowContext(t.Context(), "SELECT current_setting($1)", name).Scan(&value))
			require.Equal(t, want, value, name)
		}
		_, err := s.DB.Write().ExecContext(t.Context(), "CREATE TABLE held (n bigint PRIMARY KEY)")
		require.NoError(t, err)
		abandoned, err := s.DB.Write().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = abandoned.Rollback() })
		_, err = abandoned.ExecContext(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = 100")
		require.NoError(t, err)
		_, err = abandoned.ExecContext(t.Context(), "INSERT INTO held VALUES (1)")
		require.NoError(t, err)
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO held VALUES (1)") // waits for the other
			return err
		}))
		require.Error(t, abandoned.Commit())
	})
}

// A setting of the operator that trades durability for speed does not apply to what the service writes, nor does one
// that is made while it runs; a setting that waits for more than the disk stays.
func TestSynchronousCommitOfTheOperator(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() == db.SQLite {
			t.Skip("the service opens the file itself")
		}
		for operators, want := range map[string]string{"off": "on", "local": "local", "remote_apply": "remote_apply"} {
			u, err := url.Parse(s.URL)
			require.NoError(t, err)
			q := u.Query()
			q.Set("synchronous_commit", operators)
			u.RawQuery = q.Encode()
			d, err := db.Open(t.Context(), u.String(), "")
			require.NoError(t, err)
			require.Equal(t, want, setting(t, d))
			require.NoError(t, d.Close())
		}
		// With asynchronous commits, a commit is hardly ever on the disk when it returns.
		for range 50 {
			var before string
			require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
				if err := db.Bump(t.Context(), tx, "things", ""); err != nil {
					return err
				}
				return tx.QueryRowContext(t.Context(), "SELECT CAST(pg_current_wal_insert_lsn() AS text)").Scan(&before)
			}))
			var flushed bool
			require.NoError(t, s.DB.Read().QueryRowContext(t.Context(),
				"SELECT pg_current_wal_flush_lsn() > CAST(CAST($1 AS text) AS pg_lsn)", before).Scan(&flushed))
			require.True(t, flushed, "the transaction is acknowledged and not on the disk")
		}
	})
}
