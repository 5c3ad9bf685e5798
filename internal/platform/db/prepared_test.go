package db_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
)

// Statements that stay prepared see what other transactions have written, and return rows as others do.
func TestPreparedStatements(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		exec := func(text string) {
			_, err := s.DB.Write().ExecContext(t.Context(), text)
			require.NoError(t, err)
		}
		exec("CREATE TABLE things (id text PRIMARY KEY, n bigint NOT NULL)")
		for round := range 4 { // the first notes what the second has prepared
			require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
				q := db.Prepared(s.DB, tx)
				_, err := q.ExecContext(t.Context(), `INSERT INTO things (id, n) VALUES ($1, $2)
					ON CONFLICT (id) DO UPDATE SET n = excluded.n`, "a", round)
				require.NoError(t, err)
				var n int
				require.NoError(t, q.QueryRowContext(t.Context(), "SELECT n FROM things WHERE id = $1", "a").Scan(&n))
				require.Equal(t, round, n)
				require.ErrorIs(t, q.QueryRowContext(t.Context(), "SELECT n FROM things WHERE id = $1", "b").Scan(&n),
					sql.ErrNoRows)
				rows, err := q.QueryContext(t.Context(), "SELECT n FROM things ORDER BY id")
				require.NoError(t, err)
				seen := 0
				require.NoError(t, db.Each(rows, func(r *sql.Rows) error { seen++; return r.Scan(&n) }))
				require.Equal(t, 1, seen)
				return nil
			}))
			exec("UPDATE things SET n = -1")
		}
	})
}
