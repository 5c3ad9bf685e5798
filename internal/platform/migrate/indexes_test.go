package migrate_test

import (
	"database/sql"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/migrations"
)

// firstOnline is the name of the first migration that must not block the nodes of the previous release on PostgreSQL.
const firstOnline = "00035"

// Migrations of PostgreSQL build no index of a table that may be large while writes to it wait.
func TestMigrationsBlockNoWrites(t *testing.T) {
	t.Parallel()
	index := regexp.MustCompile(`(?s)CREATE INDEX (\S+)( \S+)? ON (\S+) `)
	for _, tree := range []fs.FS{migrations.Common(), migrations.Postgres()} {
		names, err := fs.Glob(tree, "*.sql")
		require.NoError(t, err)
		for _, name := range names {
			text, err := fs.ReadFile(tree, name)
			require.NoError(t, err)
			up, _, _ := strings.Cut(string(text), "-- +goose Down")
			for _, found := range index.FindAllStringSubmatch(up, -1) {
				if name >= firstOnline && found[1] != "CONCURRENTLY" {
					require.Contains(t, up, "CREATE TABLE "+found[3]+" ", "%s builds %s in a transaction", name, found[1])
				}
			}
		}
	}
}

// A migration that builds indexes can be interrupted after each of its statements, and in the middle of a build, and
// run again: then all indexes are valid, and the same as without the interruption.
func TestInterruptedMigrationsRunAgain(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() != db.Postgres {
			t.Skip("SQLite's migrations are transactions")
		}
		indexes := func() []string {
			rows, err := s.DB.Schema().QueryContext(t.Context(), `SELECT d.indexdef ||
				CASE WHEN i.indisvalid THEN '' ELSE ' INVALID' END
				FROM pg_indexes d JOIN pg_index i ON i.indexrelid = CAST(d.indexname AS regclass)
				WHERE d.tablename IN ('deliveries', 'webhook_events') ORDER BY 1`)
			require.NoError(t, err)
			var list []string
			require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
				var def string
				err := r.Scan(&def)
				list = append(list, def)
				return err
			}))
			return list
		}
		run := func(statements []string) {
			for _, text := range statements {
				_, err := s.DB.Schema().ExecContext(t.Context(), text)
				require.NoError(t, err, text)
			}
		}
		names, err := fs.Glob(migrations.Postgres(), "*.sql")
		require.NoError(t, err)
		for _, name := range names {
			text, err := fs.ReadFile(migrations.Postgres(), name)
			require.NoError(t, err)
			up, _, _ := strings.Cut(string(text), "-- +goose Down")
			if !strings.Contains(up, "NO TRANSACTION") {
				continue
			}
			statements := strings.SplitAfter(strings.TrimSpace(up), ";\n")
			want := indexes()
			for n := range statements {
				run(statements[:n])
				_, err := s.DB.Schema().ExecContext(t.Context(), `UPDATE pg_index SET indisvalid = false
					WHERE indexrelid IN (SELECT CAST(indexname AS regclass) FROM pg_indexes WHERE indexname LIKE '%\_new')`)
				require.NoError(t, err)
				run(statements)
				require.Equal(t, want, indexes(), "%s, interrupted after %d statements", name, n)
			}
		}
	})
}
