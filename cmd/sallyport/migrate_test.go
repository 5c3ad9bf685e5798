package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
)

func (in installation) open(t *testing.T) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), in.url, in.dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// A command that is interrupted says so, and gives no advice about the database, which is well. A server that is asked
// to stop while it starts stops without an error. The next run continues.
func TestInterruptedMigration(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.do(t, "keyset", "create")
		stopped, stop := context.WithCancel(t.Context())
		stop()
		r := in.call(t, command{ctx: stopped, args: []string{"migrate"}})
		require.Equal(t, exitFailed, r.code)
		require.Regexp(t, `^sallyport: interrupted: .*context canceled\)?\n$`, r.stderr)
		require.Empty(t, r.out)

		r = in.call(t, command{ctx: stopped, args: []string{"serve"}})
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.stderr, "stopped before the server was ready; the next start continues")
		require.Contains(t, r.stderr, "context canceled")

		require.Regexp(t, `^(migrated the schema|the schema is at version)`, in.do(t, "migrate"))
	})
}

// From nothing to the present schema and no further; the state can be asked for without a change, and by exit code.
func TestMigrate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		status := func() result { return in.run(t, "migrate", "--status") }
		if in.url != "" {
			_, err := in.open(t).Write().ExecContext(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
			require.NoError(t, err)
		}
		require.Equal(t, exitPending, status().code)
		if in.url == "" {
			require.NoDirExists(t, in.dir)
		}
		require.Regexp(t, `^migrated the schema from version 0 to \d+\n$`, in.do(t, "migrate"))
		require.Regexp(t, `^the schema is at version \d+, nothing was pending\n$`, in.do(t, "migrate"))
		r := status()
		require.Equal(t, exitOK, r.code)
		require.Regexp(t, `^the schema is at version (\d+) of \d+\n$`, r.out)

		w := in.open(t).Write()
		latest := func() (v int64) {
			require.NoError(t, w.QueryRowContext(t.Context(), "SELECT MAX(version_id) FROM goose_db_version").Scan(&v))
			return v
		}
		exec := func(query string, args ...any) {
			_, err := w.ExecContext(t.Context(), query, args...)
			require.NoError(t, err)
		}
		present := latest()

		// A later release has been here.
		exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, TRUE)", present+1)
		for _, args := range [][]string{{"migrate"}, {"migrate", "--status"}, {"keys", "list"}} {
			r := in.run(t, args...)
			require.Equal(t, exitFailed, r.code, args)
			require.Contains(t, r.stderr, "newer than this binary", args)
		}
		require.Equal(t, present+1, latest())

		// An earlier one has.
		exec("DELETE FROM goose_db_version WHERE version_id >= $1", present)
		require.Equal(t, exitPending, status().code)
		r = in.run(t, "keys", "list")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "sallyport migrate")
	})
}
