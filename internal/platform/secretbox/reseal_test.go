package secretbox

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"
)

func secretsColumn() Column { return Column{Table: "secrets", Column: "sealed", IDColumn: "id"} }

func rowID(i int) string { return fmt.Sprintf("row-%05d", i) }

// newTable returns a SQLite database with one connection, as the server's writer is, and n sealed rows.
func newTable(t *testing.T, box *Box, n int) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "test.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE secrets (id text PRIMARY KEY, sealed blob)")
	require.NoError(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
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
	return db
}

// byKey counts the rows by the key that sealed them, and checks that each still opens to its own id.
func byKey(t *testing.T, db *sql.DB, box *Box) map[uint32]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT id, sealed FROM secrets WHERE sealed IS NOT NULL")
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
	path := newFile(t)
	const n = 2*resealBatch + 7
	db := newTable(t, openFile(t, path), n)
	box := rotated(t, path)
	for _, want := range []int{n, 0} {
		got, err := Reseal(t.Context(), db, box, []Column{secretsColumn()})
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, map[uint32]int{box.PrimaryKeyID(): n}, byKey(t, db, box))
	}
}

// A run that was stopped leaves whole batches behind, and the next one does the rest and nothing twice.
func TestResealResumes(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	const n = 3 * resealBatch
	old := openFile(t, path)
	db := newTable(t, old, n)
	box := rotated(t, path)
	// The second batch fails inside its transaction.
	_, err := db.ExecContext(t.Context(), fmt.Sprintf(`CREATE TRIGGER stop BEFORE UPDATE ON secrets
		WHEN NEW.id = '%s' BEGIN SELECT RAISE(ABORT, 'stopped'); END`, rowID(resealBatch+50)))
	require.NoError(t, err)
	done, err := Reseal(t.Context(), db, box, []Column{secretsColumn()})
	require.ErrorContains(t, err, "stopped")
	require.Equal(t, resealBatch, done)
	require.Equal(t, map[uint32]int{box.PrimaryKeyID(): resealBatch, old.PrimaryKeyID(): n - resealBatch}, byKey(t, db, box))

	_, err = db.ExecContext(t.Context(), "DROP TRIGGER stop")
	require.NoError(t, err)
	done, err = Reseal(t.Context(), db, box, []Column{secretsColumn()})
	require.NoError(t, err)
	require.Equal(t, n-resealBatch, done)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Reseal(ctx, db, box, []Column{secretsColumn()})
	require.ErrorIs(t, err, context.Canceled)
}

// A value that somebody changes between reading and writing keeps their change; if they sealed it under the old key, it
// is read again and follows.
func TestResealKeepsConcurrentChanges(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	old := openFile(t, path)
	db := newTable(t, old, 3)
	box := rotated(t, path)
	r := resealer{db: db, box: box, column: secretsColumn()}
	rows, err := r.page(t.Context(), "", box.PrimaryKeyID())
	require.NoError(t, err)
	require.Len(t, rows, 3)
	sealed := r.seal(rows, true)

	// The same plaintext, sealed anew: the stored bytes differ from those read.
	changed, err := old.Seal([]byte(rowID(1)), AD{"secrets", "sealed", rowID(1)})
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE secrets SET sealed = $1 WHERE id = $2", changed, rowID(1))
	require.NoError(t, err)
	done, missed, err := r.write(t.Context(), sealed)
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{done, missed})
	var now []byte
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT sealed FROM secrets WHERE id = $1", rowID(1)).Scan(&now))
	require.Equal(t, changed, now)

	done, err = Reseal(t.Context(), db, box, []Column{secretsColumn()})
	require.NoError(t, err)
	require.Equal(t, 1, done)
	require.Equal(t, map[uint32]int{box.PrimaryKeyID(): 3}, byKey(t, db, box))
}

// Rows that do not open are left as they are and named; the others are done all the same, also when a whole batch fails.
func TestResealNamesRowsThatDoNotOpen(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	const n = resealBatch + 5
	db := newTable(t, openFile(t, path), n)
	box := rotated(t, path)
	stranger := openFile(t, newFile(t))
	for i := range resealBatch {
		sealed, err := stranger.Seal([]byte("x"), AD{"secrets", "sealed", rowID(i)})
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "UPDATE secrets SET sealed = $1 WHERE id = $2", sealed, rowID(i))
		require.NoError(t, err)
	}
	done, err := Reseal(t.Context(), db, box, []Column{secretsColumn()})
	require.Equal(t, 5, done)
	require.ErrorIs(t, err, ErrDecrypt)
	require.ErrorContains(t, err, fmt.Sprintf("%d values", resealBatch))
	require.ErrorContains(t, err, rowID(0))
	require.NotContains(t, err.Error(), rowID(resealErrors))
}

// A column that cannot be read is an error that names it, not a run that found nothing to do.
func TestResealUnknownColumn(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	db := newTable(t, openFile(t, path), 1)
	_, err := Reseal(t.Context(), db, rotated(t, path), []Column{{Table: "secrets", Column: "missing", IDColumn: "id"}})
	require.ErrorContains(t, err, "reseal secrets.missing")
}
