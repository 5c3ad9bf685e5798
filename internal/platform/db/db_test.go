package db_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// One SQL text serves both engines only while $n binds by number on both.
func TestPlaceholdersBindByNumber(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		var a, b, again string
		err := s.DB.Read().QueryRowContext(t.Context(), "SELECT CAST($2 AS text), CAST($1 AS text), CAST($2 AS text)", "one",
			"two").Scan(&a, &b, &again)
		require.NoError(t, err)
		require.Equal(t, []string{"two", "one", "two"}, []string{a, b, again})
	})
}

// A transaction that fails leaves nothing, and its error says why.
func TestTxRollsBack(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		boom := errors.New("boom")
		err := s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			require.NoError(t, db.Bump(t.Context(), tx, "things", ""))
			return boom
		})
		require.ErrorIs(t, err, boom)
		versions, err := s.DB.Versions(t.Context())
		require.NoError(t, err)
		require.Empty(t, versions)
	})
}

// Multi-row statements cover any number of rows exactly once, on the first use and when prepared.
func TestMultiRowCoversEveryRow(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		insert := &db.MultiRow{Before: "INSERT INTO cache_versions (name, version)", Types: []string{"text", "bigint"}}
		total := 0
		for _, n := range []int{1, 2, 3, 63, 64, 65, 200, 200} {
			var args []any
			for i := range n {
				args = append(args, string(rune('a'+total%26))+string(rune(0x4e00+total+i)), int64(i))
			}
			total += n
			require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
				affected, err := s.DB.Exec(t.Context(), tx, insert, args)
				require.EqualValues(t, n, affected)
				return err
			}))
		}
		versions, err := s.DB.Versions(t.Context())
		require.NoError(t, err)
		require.Len(t, versions, total)
	})
}

// A broken rule is distinguished from a store that cannot serve: the first is the caller's, the second is a 503.
func TestErrorsAreClassified(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		insert := func(ctx context.Context) error {
			return s.DB.Tx(ctx, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO cache_versions (name, version) VALUES ('x', 1)")
				return err
			})
		}
		require.NoError(t, insert(t.Context()))
		err := insert(t.Context())
		require.True(t, db.IsUniqueViolation(err), "%v", err)
		require.False(t, db.IsUnavailable(err), "%v", err)
		_, err = s.DB.Write().ExecContext(t.Context(), "SELECT no_such_column FROM cache_versions")
		require.Error(t, err)
		require.False(t, db.IsUnavailable(err), "%v", err)
	})
}

// A long write-ahead log is copied and restarted, so that it cannot grow without end, and nothing in it is lost.
func TestCheckpointRestartsTheLog(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), "", t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	_, err = d.Write().ExecContext(t.Context(), "CREATE TABLE pages (id bigint, content blob)")
	require.NoError(t, err)
	idle, err := d.Checkpoint(t.Context())
	require.NoError(t, err)
	for range 12 {
		_, err = d.Write().ExecContext(t.Context(), `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
			WHERE i < 1000)
			INSERT INTO pages SELECT i, zeroblob(4000) FROM n`)
		require.NoError(t, err)
	}
	next, err := d.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Less(t, next, idle, "a long log is copied again soon")
	_, err = d.Write().ExecContext(t.Context(), "INSERT INTO pages VALUES (0, 'x')")
	require.NoError(t, err)
	next, err = d.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, idle, next, "the log begins again")
	var n int
	require.NoError(t, d.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pages").Scan(&n))
	require.Equal(t, 12_001, n)
}

// A log that overgrows because there is always a reader, each with another snapshot, starts again all the same: readers
// are held back for a moment, and their queries go on after it.
func TestOverlappingReadersDoNotKeepTheLog(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), "", t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	_, err = d.Write().ExecContext(t.Context(), "CREATE TABLE pages (id bigint, content blob)")
	require.NoError(t, err)
	idle, err := d.Checkpoint(t.Context())
	require.NoError(t, err)
	grow := func(rows int) {
		_, err := d.Write().ExecContext(t.Context(), `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
			WHERE i < $1)
			INSERT INTO pages SELECT i, zeroblob(4000) FROM n`, rows)
		require.NoError(t, err)
	}
	grow(1)
	reading, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	reads := make(chan error, 1)
	for range 3 {
		readers.Go(func() {
			for reading.Err() == nil {
				// The snapshot begins with the read of the table, and is kept while the rest is computed.
				var n int64
				err := d.Read().QueryRowContext(reading, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
					WHERE i < 50000) SELECT COUNT(*) + (SELECT MIN(id) FROM pages) FROM n`).Scan(&n)
				if err != nil && reading.Err() == nil {
					reads <- err
					return
				}
			}
		})
	}
	for range 26 {
		grow(1000)
		_, err := d.Write().ExecContext(t.Context(), "DELETE FROM pages WHERE id > 1") // the same pages again
		require.NoError(t, err)
	}
	// A reader that does not end in time, on a busy machine, is waited for by the next checkpoint.
	await.Condition(t, "the overgrown log to be copied", func() bool {
		next, err := d.Checkpoint(t.Context())
		require.NoError(t, err)
		return next < idle
	})
	grow(1)
	next, err := d.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, idle, next, "the log begins again")
	require.Less(t, testkit.Metric(t, d.Metrics(), "sallyport_database_log_bytes"), 1e7)
	require.Empty(t, reads)
}

// While an overgrown log is copied, nothing stands still: a transaction that reads through a connection for reading
// ends, and so does the checkpoint. They once waited for each other.
func TestCheckpointEndsBesideTransactionsThatRead(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), "", t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	_, err = d.Write().ExecContext(t.Context(), "CREATE TABLE pages (id bigint, content blob)")
	require.NoError(t, err)
	for range 26 {
		_, err := d.Write().ExecContext(t.Context(), `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
			WHERE i < 1000)
			INSERT INTO pages SELECT i, zeroblob(4000) FROM n`)
		require.NoError(t, err)
	}
	checkpoint := make(chan error, 1)
	require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO pages VALUES (0, 'x')"); err != nil {
			return err
		}
		go func() {
			_, err := d.Checkpoint(t.Context())
			checkpoint <- err
		}()
		await.Condition(t, "the checkpoint to wait for the transaction, or to hold the readers", func() bool {
			return d.Waiting() > 0 || d.Read().Stats().InUse == d.Read().Stats().MaxOpenConnections
		})
		var n int
		return d.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pages WHERE id = 0").Scan(&n)
	}))
	require.NoError(t, <-checkpoint)
	require.NoError(t, d.Ping(t.Context()))
}

// A lock is one process's at a time, and free again when it is given back or its holder's connection is gone.
func TestTryLock(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		ctx := t.Context()
		other, err := db.Open(ctx, s.URL, s.Dir)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, other.Close()) })
		lock, ok, err := s.DB.TryLock(ctx, 7)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, lock.Check(ctx))
		if s.DB.Engine() == db.Postgres {
			_, ok, err = other.TryLock(ctx, 7)
			require.NoError(t, err)
			require.False(t, ok)
			_, ok, err = s.DB.TryLock(ctx, 7)
			require.NoError(t, err)
			require.False(t, ok, "nor twice by one process")
		}
		free, ok, err := other.TryLock(ctx, 8)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, free.Unlock(ctx))
		require.NoError(t, lock.Unlock(ctx))

		lock, ok, err = other.TryLock(ctx, 7)
		require.NoError(t, err)
		require.True(t, ok)
		if s.DB.Engine() != db.Postgres {
			return
		}
		_, err = s.DB.Write().ExecContext(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
			AND objid = 7
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		require.NoError(t, err)
		require.Error(t, lock.Check(ctx))
		require.Error(t, lock.Unlock(ctx))
		await.Condition(t, "the server to end the connection", func() bool {
			lock, ok, err = s.DB.TryLock(ctx, 7)
			return err == nil && ok
		})
		require.NoError(t, lock.Unlock(ctx))
		for range 20 { // connections that were given back end no sooner than others
			var timeout string
			require.NoError(t, s.DB.Read().QueryRowContext(ctx, "SHOW idle_session_timeout").Scan(&timeout))
			require.Equal(t, "0", timeout)
		}
	})
}

// Held grows by the time of write transactions, and of nothing else.
func TestHeld(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		before := s.DB.Held()
		require.NoError(t, s.DB.Ping(t.Context()))
		require.Equal(t, before, s.DB.Held())
		var own time.Duration
		require.NoError(t, s.DB.Tx(db.WithHeld(t.Context(), &own), func(tx *sql.Tx) error {
			return db.Bump(t.Context(), tx, "things", "")
		}))
		require.Positive(t, own)
		require.Equal(t, before+own, s.DB.Held())
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error { return db.Bump(t.Context(), tx, "things", "") }))
		require.Greater(t, s.DB.Held(), before+own)
	})
}
