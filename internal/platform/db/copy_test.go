package db_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
)

// A copy is the database as one transaction saw it: a concurrent transaction is in it whole or not at all, and it can
// be read where nothing can be written.
func TestCopyOfADatabaseInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := db.Open(t.Context(), "", dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	// Each transaction adds a pair; a copy between the two of one would have an odd number.
	_, err = d.Write().ExecContext(t.Context(), "CREATE TABLE pairs (n INTEGER NOT NULL, filler TEXT NOT NULL)")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	other, err := db.Open(t.Context(), "", dir) // as another process would
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	wrote := make(chan struct{}, 1)
	go func() {
		for n := 0; ; n++ {
			_, err := other.Write().ExecContext(ctx,
				"INSERT INTO pairs SELECT $1, hex(randomblob(500)) UNION ALL SELECT $1, hex(randomblob(500))", n)
			if err != nil {
				ended <- err
				return
			}
			select {
			case wrote <- struct{}{}:
			default:
			}
		}
	}()
	for i := range 20 {
		<-wrote
		path := filepath.Join(t.TempDir(), "copy.db")
		require.NoError(t, d.CopyTo(t.Context(), path))
		require.NoError(t, os.Chmod(path, 0o400))
		c, err := db.OpenCopy(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, c.CheckIntegrity(t.Context()))
		var rows, pairs int
		require.NoError(t, c.Read().QueryRowContext(t.Context(), "SELECT COUNT(*), 2 * COUNT(DISTINCT n) FROM pairs").Scan(
			&rows, &pairs))
		require.Equal(t, pairs, rows)
		require.GreaterOrEqual(t, rows, 2*i)
		_, err = c.Write().ExecContext(t.Context(), "DELETE FROM pairs")
		require.Error(t, err)
		require.NoError(t, c.Close())
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, entries, 1, "nothing beside it")
	}
	stop()
	require.Error(t, <-ended)
	size, err := d.Size(t.Context())
	require.NoError(t, err)
	require.Positive(t, size)
}

// Damage is found: of a page, and of a reference that leads nowhere.
func TestCheckIntegrity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := db.Open(t.Context(), "", dir)
	require.NoError(t, err)
	for _, q := range []string{"CREATE TABLE a (id TEXT PRIMARY KEY)", "CREATE TABLE b (a_id TEXT REFERENCES a (id))",
		"INSERT INTO a VALUES ('x')", "INSERT INTO b VALUES ('x')"} {
		_, err := d.Write().ExecContext(t.Context(), q)
		require.NoError(t, err)
	}
	require.NoError(t, d.CheckIntegrity(t.Context()))
	for _, q := range []string{"PRAGMA foreign_keys = 0", "DELETE FROM a"} {
		_, err := d.Write().ExecContext(t.Context(), q)
		require.NoError(t, err)
	}
	require.ErrorIs(t, d.CheckIntegrity(t.Context()), db.ErrDamaged)
	require.NoError(t, d.Close())

	path := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(path, []byte("this is no database, and long enough to look at"), 0o600))
	_, err = db.OpenCopy(t.Context(), path)
	require.ErrorIs(t, err, db.ErrDamaged)
	_, err = db.OpenCopy(t.Context(), path+".none")
	require.Error(t, err)
	require.NoFileExists(t, path+".none")
}
