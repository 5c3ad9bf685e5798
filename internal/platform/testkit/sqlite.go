package testkit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
)

// sqliteTemplate returns the content of a migrated, empty SQLite file. Running the migrations takes some fifty times as
// long as copying their result.
var sqliteTemplate = sync.OnceValues(func() ([]byte, error) { //nolint:gochecknoglobals // a constant
	dir, err := os.MkdirTemp("", "sallyport-template-*")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the template: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // the system's folder for temporary files
	ctx := context.Background()              // outlives the test that needs it first
	d, err := db.Open(ctx, "", dir)
	if err != nil {
		return nil, fmt.Errorf("open the template: %w", err)
	}
	if _, _, err := migrate.Up(ctx, d); err != nil {
		_ = d.Close() // the error before says more
		return nil, fmt.Errorf("migrate the template: %w", err)
	}
	if err := d.Close(); err != nil { // moves what is in the write-ahead log into the file
		return nil, fmt.Errorf("close the template: %w", err)
	}
	content, err := os.ReadFile(filepath.Join(dir, db.FileName))
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	return content, nil
})

// NewSQLite puts a migrated, empty database into a data folder.
func NewSQLite(t *testing.T, dir string) {
	t.Helper()
	content, err := sqliteTemplate()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, db.FileName), content, 0o600))
}
