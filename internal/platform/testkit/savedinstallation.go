package testkit

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Saved is the state of an installation in which many tests begin: the files of its data folder and, on PostgreSQL, a
// copy of its database.
type Saved struct {
	files map[string][]byte
	// database names the copy; empty on SQLite.
	database string
}

// Save saves an installation. Nothing may be using it. On SQLite databaseURL is empty, and dir holds the database.
func Save(t *testing.T, databaseURL, dir string) *Saved {
	t.Helper()
	s := &Saved{files: map[string][]byte{}}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Type().IsRegular() {
			s.files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
		}
	}
	if databaseURL == "" {
		return s
	}
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	server, err := thePostgres()
	require.NoError(t, err)
	s.database = newName("saved")
	require.NoError(t, server.copyDatabase(t.Context(), strings.TrimPrefix(u.Path, "/"), s.database))
	return s
}

// Restore returns a copy of the installation, which is removed when the test ends.
func (s *Saved) Restore(t *testing.T) (databaseURL, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range s.files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	if s.database == "" {
		return "", dir
	}
	server, err := thePostgres()
	require.NoError(t, err)
	return server.newDatabase(t, s.database), dir
}

// Delete deletes what is saved. A test's end does not, because other tests begin there.
func (s *Saved) Delete() error {
	if s.database == "" {
		return nil
	}
	server, err := thePostgres()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout) // after the tests
	defer cancel()
	return server.dropDatabase(ctx, s.database)
}

// newName returns a name for a database.
func newName(kind string) string {
	return fmt.Sprintf("sallyport_%s_%s", kind, strings.ToLower(rand.Text()))
}
