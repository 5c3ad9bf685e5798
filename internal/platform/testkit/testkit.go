// Package testkit gives every test the same two real engines: an SQLite file and a PostgreSQL database of its own, each
// a copy of a migrated template.
package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
)

// Variables of the environment that the harness reads.
const (
	// PostgresURL names a server on which the harness may create databases.
	PostgresURL = "SALLYPORT_TEST_POSTGRES_URL"
	// RequireEngines, when set, turns a missing engine from a skip into a failure.
	RequireEngines = "SALLYPORT_REQUIRE_ENGINES"
)

// Store is one engine's empty, migrated database.
type Store struct {
	DB *db.DB
	// URL is the PostgreSQL URL; empty on SQLite.
	URL string
	// Dir is a data folder of the test's own; on SQLite it holds the database.
	Dir string
}

// Each runs fn as one parallel subtest per engine.
func Each(t *testing.T, fn func(t *testing.T, s Store)) {
	t.Helper()
	eachEngine(t, NewPostgres, func(t *testing.T, databaseURL, dir string) {
		t.Helper()
		d, err := db.Open(t.Context(), databaseURL, dir)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		db.Guard(d)
		fn(t, Store{DB: d, URL: databaseURL, Dir: dir})
	})
}

// EachServer is Each without opening the database, for tests of whole servers. On SQLite databaseURL is empty, and dir
// holds the database. On PostgreSQL these tests run only with those that take minutes: what differs between the engines
// is in the stores, whose tests use Each.
func EachServer(t *testing.T, fn func(t *testing.T, databaseURL, dir string)) {
	t.Helper()
	eachEngine(t, func(t *testing.T) string {
		t.Helper()
		NeedLong(t)
		return NewPostgres(t)
	}, fn)
}

func eachEngine(t *testing.T, newPostgres func(t *testing.T) string,
	fn func(t *testing.T, databaseURL, dir string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		NewSQLite(t, dir)
		fn(t, "", dir)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		fn(t, newPostgres(t), t.TempDir())
	})
}
