package testkit

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the PostgreSQL driver for administration
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/testkit/pgserver"
	"sallyport/migrations"
)

// postgresServer is the PostgreSQL server of the tests.
type postgresServer struct {
	// url is of an administrative database, to which admin connects.
	url   string
	admin *sql.DB
	// template names the migrated database that tests copy, in the way that strategy says.
	template, strategy string
	// origin says in words which server it is.
	origin string
	// held keeps a server that the tests have started.
	held *pgserver.Server
}

// openTimeout bounds how long the start of a server and the making of the template may take on a machine under load.
const openTimeout = 3 * time.Minute

// thePostgres returns the server that PostgresURL names or, without it, one that the tests start.
var thePostgres = sync.OnceValues(func() (*postgresServer, error) { //nolint:gochecknoglobals // one for the process
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout) // outlives the test that needs it first
	defer cancel()
	s := &postgresServer{url: os.Getenv(PostgresURL), origin: "the PostgreSQL server that " + PostgresURL + " names"}
	var err error
	if s.url == "" {
		if s.held, err = pgserver.Join(ctx); err != nil {
			return nil, fmt.Errorf("%s is not set, and no server can be started: %w", PostgresURL, err)
		}
		s.url, s.origin = s.held.URL, "a PostgreSQL "+s.held.Version+" server started for the tests"
	}
	if s.admin, err = sql.Open("pgx", s.url); err != nil {
		return nil, fmt.Errorf("open the administrative database: %w", err)
	}
	var fsync string
	if err = s.admin.QueryRowContext(ctx, "SHOW fsync").Scan(&fsync); err != nil {
		return nil, fmt.Errorf("reach the PostgreSQL server of the tests: %w", err)
	}
	// Copying files needs checkpoints, which cost little where nothing waits for the disk.
	s.strategy = map[bool]string{true: "FILE_COPY", false: "WAL_LOG"}[fsync == "off"]
	if s.template, err = ensureTemplate(ctx, s.admin, s.url); err != nil {
		return nil, fmt.Errorf("make the template: %w", err)
	}
	return s, nil
})

// Engines says in words on which engines the tests run, and whether PostgreSQL is among them. It returns an error when
// PostgreSQL is there and cannot be used.
func Engines() (words string, postgres bool, err error) {
	s, err := thePostgres()
	switch {
	case errors.Is(err, pgserver.ErrNone):
		return "SQLite alone: " + err.Error(), false, nil
	case err != nil:
		return "", false, err
	default:
		return "SQLite and " + s.origin, true, nil
	}
}

// NewPostgres returns the URL of a fresh, migrated database, dropped when the test ends. On a machine without
// PostgreSQL the test is skipped, or fails where engines are required. A server that cannot be used fails it
// everywhere.
func NewPostgres(t *testing.T) string {
	t.Helper()
	s, err := thePostgres()
	if errors.Is(err, pgserver.ErrNone) && os.Getenv(RequireEngines) == "" {
		t.Skipf("tested on SQLite alone: %v", err)
	}
	require.NoError(t, err)
	return s.newDatabase(t, s.template)
}

// newDatabase returns the URL of a copy of a database, dropped when the test ends. A connection to it may take longer
// than in production: the machine may be busy with other tests.
func (s *postgresServer) newDatabase(t *testing.T, template string) string {
	t.Helper()
	name := newName("test")
	require.NoError(t, s.copyDatabase(t.Context(), template, name))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), openTimeout)
		defer cancel()
		require.NoError(t, s.dropDatabase(ctx, name))
	})
	text, err := withDatabase(s.url, name)
	require.NoError(t, err)
	u, err := url.Parse(text)
	require.NoError(t, err)
	q := u.Query()
	q.Set("connect_timeout", "30")
	u.RawQuery = q.Encode()
	return u.String()
}

// copyDatabase creates a database as a copy of another one, to which nothing may be connected.
func (s *postgresServer) copyDatabase(ctx context.Context, template, name string) error {
	_, err := s.admin.ExecContext(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY %s", name, template,
		s.strategy))
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return nil
}

func (s *postgresServer) dropDatabase(ctx context.Context, name string) error {
	if _, err := s.admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop the database: %w", err)
	}
	return nil
}

// ensureTemplate returns the name of a database that holds the schema of the present migrations, which it makes where
// it is missing.
func ensureTemplate(ctx context.Context, admin *sql.DB, server string) (name string, err error) {
	digest, err := migrationsDigest()
	if err != nil {
		return "", err
	}
	name = "sallyport_template_" + digest
	conn, err := admin.Conn(ctx)
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err = conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", int64(db.LockTestTemplate)); err != nil {
		return "", fmt.Errorf("lock the template: %w", err)
	}
	defer func() {
		_, unlocking := conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)",
			int64(db.LockTestTemplate))
		err = errors.Join(err, unlocking)
	}()
	var exists bool
	err = conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	if err != nil || exists {
		return name, err
	}
	building := name + "_building"
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + building + " WITH (FORCE)",
		"CREATE DATABASE " + building} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return "", fmt.Errorf("make the database: %w", err)
		}
	}
	u, err := withDatabase(server, building)
	if err != nil {
		return "", err
	}
	d, err := db.Open(ctx, u, "")
	if err != nil {
		return "", fmt.Errorf("open the database: %w", err)
	}
	_, _, err = migrate.Up(ctx, d)
	if err := errors.Join(err, d.Close()); err != nil {
		return "", fmt.Errorf("migrate the database: %w", err)
	}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", building, name)); err != nil {
		return "", fmt.Errorf("name the database: %w", err)
	}
	return name, nil
}

// migrationsDigest distinguishes sets of migrations.
func migrationsDigest() (string, error) {
	h := sha256.New()
	for _, tree := range []fs.FS{migrations.Common(), migrations.Postgres()} {
		names, err := fs.Glob(tree, "*.sql")
		if err != nil {
			return "", fmt.Errorf("list the migrations: %w", err)
		}
		for _, name := range names {
			b, err := fs.ReadFile(tree, name)
			if err != nil {
				return "", fmt.Errorf("read a migration: %w", err)
			}
			_, _ = h.Write(b) // a hash takes everything
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// withDatabase returns the URL of another database on a server.
func withDatabase(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("read the server's URL: %w", err)
	}
	u.Path = "/" + name
	return u.String(), nil
}
