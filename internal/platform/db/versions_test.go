package db_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
)

// A process learns exactly what has changed since it last looked, and where a version says nothing about itself,
// because another release has raised it or it was too long ago, it learns that anything may have.
func TestChanges(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		bump := func(name string, keys ...string) {
			t.Helper()
			require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
				for _, key := range keys {
					if err := db.Bump(t.Context(), tx, name, key); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		changes := func(since int64) db.Changes {
			t.Helper()
			c, err := s.DB.Changes(t.Context(), "things", since)
			require.NoError(t, err)
			return c
		}
		require.Equal(t, db.Changes{Known: true}, changes(0))
		require.Equal(t, db.Changes{}, changes(-1), "who knows no version knows nothing")
		bump("things", "b", "a")
		bump("others", "x")
		bump("things", "b")
		require.Equal(t, db.Changes{Version: 3, Known: true, Keys: []string{"a", "b"}}, changes(0))
		require.Equal(t, db.Changes{Version: 3, Known: true, Keys: []string{"b"}}, changes(2))
		require.Equal(t, db.Changes{Version: 3, Known: true}, changes(3))
		require.Equal(t, db.Changes{Version: 3}, changes(4), "a version from the future is of another history")

		bump("things", "")
		bump("things", "c")
		require.Equal(t, db.Changes{Version: 5}, changes(3))
		require.Equal(t, db.Changes{Version: 5, Known: true, Keys: []string{"c"}}, changes(4))

		_, err := s.DB.Write().ExecContext(t.Context(), "UPDATE cache_versions SET version = 20000 WHERE name = 'things'")
		require.NoError(t, err)
		bump("things", "d")
		require.Equal(t, db.Changes{Version: 20001, Known: true, Keys: []string{"d"}}, changes(20000))
		require.Equal(t, db.Changes{Version: 20001}, changes(4))
		var kept int
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(),
			"SELECT count(*) FROM cache_changes WHERE name = 'things'").Scan(&kept))
		require.Equal(t, 1, kept, "changes of long ago are not kept")
	})
}

// A refresh that the database does not respond to ends by itself.
func TestInTime(t *testing.T) {
	t.Parallel()
	err := db.InTime(func(ctx context.Context) error {
		_, bounded := ctx.Deadline()
		require.True(t, bounded)
		<-ctx.Done()
		return ctx.Err()
	})(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
