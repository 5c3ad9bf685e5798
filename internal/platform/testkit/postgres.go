package testkit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the PostgreSQL driver for administration
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
	"sallyport/migrations"
)

// NewPostgres returns the URL of a fresh, migrated database, dropped when the test ends. Without a server the test is
// skipped, or fails where engines are required.
func NewPostgres(t *testing.T) string {
	t.Helper()
	server := os.Getenv(PostgresURL)
	if server == "" {
		if os.Getenv(RequireEngines) != "" {
			t.Fatalf("%s is not set, and %s asks for every engine", PostgresURL, RequireEngines)
		}
		t.Skipf("no PostgreSQL: set %s to run this test on it", PostgresURL)
	}
	admin, err := sql.Open("pgx", server)
	require.NoError(t, err)
	template := ensureTemplate(t, admin, server)
	name := "sallyport_test_" + randomHex(t)
	_, err = admin.ExecContext(t.Context(), fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template))
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		require.NoError(t, err)
		require.NoError(t, admin.Close())
	})
	return withDatabase(t, server, name)
}

// ensureTemplate returns a database that holds the schema of the present migrations; the first test to need it makes
// it.
func ensureTemplate(t *testing.T, admin *sql.DB, server string) string {
	t.Helper()
	name := "sallyport_template_" + migrationsDigest(t)
	conn, err := admin.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = conn.ExecContext(t.Context(), "SELECT pg_advisory_lock($1)", int64(db.LockTestTemplate))
	require.NoError(t, err)
	defer func() {
		_, err := conn.ExecContext(context.WithoutCancel(t.Context()), "SELECT pg_advisory_unlock($1)",
			int64(db.LockTestTemplate))
		require.NoError(t, err)
	}()
	var exists bool
	require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)",
		name).Scan(&exists))
	if exists {
		return name
	}
	building := name + "_building"
	_, err = conn.ExecContext(t.Context(), "DROP DATABASE IF EXISTS "+building+" WITH (FORCE)")
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "CREATE DATABASE "+building)
	require.NoError(t, err)
	d, err := db.Open(t.Context(), withDatabase(t, server, building), "")
	require.NoError(t, err)
	_, _, err = migrate.Up(t.Context(), d)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	_, err = conn.ExecContext(t.Context(), fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", building, name))
	require.NoError(t, err)
	return name
}

func migrationsDigest(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	for _, tree := range []fs.FS{migrations.Common(), migrations.Postgres()} {
		names, err := fs.Glob(tree, "*.sql")
		require.NoError(t, err)
		for _, name := range names {
			b, err := fs.ReadFile(tree, name)
			require.NoError(t, err)
			_, err = h.Write(b)
			require.NoError(t, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func withDatabase(t *testing.T, server, name string) string {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

func randomHex(t *testing.T) string {
	t.Helper()
	var b [8]byte
	_, err := rand.Read(b[:])
	require.NoError(t, err)
	return hex.EncodeToString(b[:])
}
