package secretbox

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
)

func secretsColumn() Column { return Column{Table: "secrets", Column: "sealed", IDColumn: "id"} }

func rowID(i int) string { return fmt.Sprintf("row-%05d", i) }

// newTable makes a table with n sealed rows and one without a value, and returns the pool that writes.
func newTable(t *testing.T, s testkit.Store, box *Box, n int) *sql.DB {
	t.Helper()
	pool := s.DB.Write()
	_, err := pool.ExecContext(t.Context(), "CREATE TABLE secrets (id text PRIMARY KEY, sealed "+blob(s)+")")
	require.NoError(t, err)
	tx, err := pool.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	for i := range n {
		sealed, err := box.Seal([]byte(rowID(i)), AD{"secrets", "sealed", rowID(i)})
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "INSERT INTO secrets VALUES ($1, $2)", rowID(i), sealed)
		require.NoError(t, err)
	}
	_, err = tx.ExecContext(t.Context(), "INSERT INTO secrets VALUES ('without', NULL)")
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	return pool
}

// blob is the engine's type of a sealed column.
func blob(s testkit.Store) string {
	if s.DB.Engine() == db.Postgres {
		return "bytea"
	}
	return "blob"
}

// byKey counts the rows by the key that sealed them, and checks that each still opens to its own id.
func byKey(t *testing.T, pool *sql.DB, box *Box) map[uint32]int {
	t.Helper()
	rows, err := pool.QueryContext(t.Context(), "SELECT id, sealed FROM secrets WHERE sealed IS NOT NULL")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	out := map[uint32]int{}
	for rows.Next() {
		var id string
		var sealed []byte
		require.NoError(t, rows.Scan(&id, &sealed))
		plain, err := box.Open(sealed, AD{"secrets", "sealed", id})
		require.NoError(t, err)
		require.Equal(t, id, string(plain))
		key, _ := KeyID(sealed)
		out[key]++
	}
	require.NoError(t, rows.Err())
	return out
}

func rotated(t *testing.T, path string) *Box {
	t.Helper()
	_, err := Rotate(path)
	require.NoError(t, err)
	return openFile(t, path)
}

// After a rotation every row, over several batches, is sealed under the new key, and a second run finds nothing to do.
func TestResealAllRows(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		path := newFile(t)
		const n = 2*window + 7
		pool := newTable(t, s, openFile(t, path), n)
		box := rotated(t, path)
		for _, want := range []int{n, 0} {
			got, err := Reseal(t.Context(), s.DB, box, []Column{secretsColumn()}, nil)
			require.NoError(t, err)
			require.Equal(t, Progress{Values: n, Changed: want}, got)
			require.Equal(t, map[uint32]int{box.PrimaryKeyID(): n}, byKey(t, pool, box))
		}
	})
}

// A run that was stopped has finished whole batches, and the next one does only the rest.
func TestResealResumes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		path := newFile(t)
		const n = 3 * window
		old := openFile(t, path)
		pool := newTable(t, s, old, n)
		oldKey := old.PrimaryKeyID() // before a look at the file gives the box the key of the rotation
		box := rotated(t, path)
		// The second batch fails inside its transaction: no two of these rows may have the same key, and one has the new.
		marker, err := box.Seal([]byte("marker"), AD{"secrets", "sealed", "marker"})
		require.NoError(t, err)
		_, err = pool.ExecContext(t.Context(), "INSERT INTO secrets VALUES ('marker', $1)", marker)
		require.NoError(t, err)
		_, err = pool.ExecContext(t.Context(), fmt.Sprintf(
			"CREATE UNIQUE INDEX stop ON secrets (substr(sealed, 1, 5)) WHERE id IN ('marker', '%s')", rowID(window+50)))
		require.NoError(t, err)
		done, err := Reseal(t.Context(), s.DB, box, []Column{secretsColumn()}, nil)
		require.True(t, db.IsUniqueViolation(err), "%v", err)
		require.GreaterOrEqual(t, done.Changed, window-1) // with the marker
		require.LessOrEqual(t, done.Changed, window+50)
		_, err = pool.ExecContext(t.Context(), "DELETE FROM secrets WHERE id = 'marker'")
		require.NoError(t, err)
		counts := map[uint32]int{box.PrimaryKeyID(): done.Changed, oldKey: n - done.Changed}
		require.Equal(t, counts, byKey(t, pool, box))
		counted, err := Count(t.Context(), s.DB, []Column{secretsColumn()})
		require.NoError(t, err)
		require.Equal(t, counts, counted)

		_, err = pool.ExecContext(t.Context(), "DROP INDEX stop")
		require.NoError(t, err)
		rest, err := Reseal(t.Context(), s.DB, box, []Column{secretsColumn()}, nil)
		require.NoError(t, err)
		require.Equal(t, Progress{Values: n, Changed: n - done.Changed}, rest)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = Reseal(ctx, s.DB, box, []Column{secretsColumn()}, nil)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// A value that changes between reading and writing keeps the change. If the change was sealed with the old key, it is
// read again and sealed.
func TestResealKeepsConcurrentChanges(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		path := newFile(t)
		old := openFile(t, path)
		pool := newTable(t, s, old, 3)
		box := rotated(t, path)
		r := resealer{db: s.DB, box: box, column: secretsColumn(), rows: firstRows}
		read, err := readPage(t.Context(), s.DB, secretsColumn(), "", box.PrimaryKeyID())
		require.NoError(t, err)
		require.Len(t, read.rows, 3)
		require.Equal(t, 3, read.values)
		sealed := r.seal(read.rows, true)

		// The same plaintext, sealed again: the stored bytes differ from those read.
		changed, err := old.Seal([]byte(rowID(1)), AD{"secrets", "sealed", rowID(1)})
		require.NoError(t, err)
		_, err = pool.ExecContext(t.Context(), "UPDATE secrets SET sealed = $1 WHERE id = $2", changed, rowID(1))
		require.NoError(t, err)
		missed, err := r.store(t.Context(), sealed)
		require.NoError(t, err)
		require.Equal(t, []int{2, 1}, []int{r.progress.Changed, missed})
		var now []byte
		require.NoError(t, pool.QueryRowContext(t.Context(), "SELECT sealed FROM secrets WHERE id = $1", rowID(1)).Scan(&now))
		require.Equal(t, changed, now)

		done, err := Reseal(t.Context(), s.DB, box, []Column{secretsColumn()}, nil)
		require.NoError(t, err)
		require.Equal(t, Progress{Values: 3, Changed: 1}, done)
		require.Equal(t, map[uint32]int{box.PrimaryKeyID(): 3}, byKey(t, pool, box))
	})
}

// Rows that do not open are left unchanged and named. The others are sealed, also if a whole batch fails.
func TestResealNamesRowsThatDoNotOpen(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		path := newFile(t)
		const n = window + 5
		pool := newTable(t, s, openFile(t, path), n)
		box := rotated(t, path)
		stranger := openFile(t, newFile(t))
		for i := range window {
			sealed, err := stranger.Seal([]byte("x"), AD{"secrets", "sealed", rowID(i)})
			require.NoError(t, err)
			_, err = pool.ExecContext(t.Context(), "UPDATE secrets SET sealed = $1 WHERE id = $2", sealed, rowID(i))
			require.NoError(t, err)
		}
		done, err := Reseal(t.Context(), s.DB, box, []Column{secretsColumn()}, nil)
		require.Equal(t, Progress{Values: n, Changed: 5, Left: window}, done)
		require.ErrorIs(t, err, ErrDecrypt)
		require.ErrorContains(t, err, fmt.Sprintf("%d values", window))
		require.ErrorContains(t, err, rowID(0))
		require.NotContains(t, err.Error(), rowID(resealErrors))
	})
}

// A column that cannot be read is an error that names it, not a run that found nothing to do.
func TestResealUnknownColumn(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		path := newFile(t)
		newTable(t, s, openFile(t, path), 1)
		_, err := Reseal(t.Context(), s.DB, rotated(t, path), []Column{{Table: "secrets", Column: "missing",
			IDColumn: "id"}}, nil)
		require.ErrorContains(t, err, "reseal secrets.missing")
	})
}
