package target

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"sallyport/bench/internal/procstat"
)

// dropTimeout bounds the removal of a database, which also happens when the run has been cancelled.
const dropTimeout = 30 * time.Second

// ErrDatabaseURL reports a PostgreSQL URL that the bench does not use.
var ErrDatabaseURL = errors.New("PostgreSQL URL")

// Database is a PostgreSQL database made for one run.
type Database struct {
	// URL is the admin URL with this database in it.
	URL string
	// Settings are the server's version and the settings that decide what a commit costs.
	Settings map[string]string

	admin, name string
}

// CreateDatabase makes an empty database on the server of adminURL, a postgres:// URL of a role that may create
// databases. The server has to be on this machine: the figures compare engines, not networks.
func CreateDatabase(ctx context.Context, adminURL string) (*Database, error) {
	own, err := url.Parse(adminURL)
	if err != nil || (own.Scheme != "postgres" && own.Scheme != "postgresql") {
		// The parser's own text quotes the URL, which may hold a password.
		return nil, fmt.Errorf("%w: not a postgres:// URL", ErrDatabaseURL)
	}
	cfg, err := pgx.ParseConfig(adminURL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDatabaseURL, err)
	}
	hosts := []string{cfg.Host}
	for _, fallback := range cfg.Fallbacks {
		hosts = append(hosts, fallback.Host)
	}
	for _, host := range hosts {
		if !isLocal(host) {
			return nil, fmt.Errorf("%w: host %q is not on this machine", ErrDatabaseURL, host)
		}
	}
	random := make([]byte, 6)
	_, _ = rand.Read(random) // never fails: it ends the process when the system has no randomness
	db := &Database{admin: adminURL, name: "sallyport_bench_" + hex.EncodeToString(random), Settings: map[string]string{}}
	own.Path = "/" + db.name
	db.URL = own.String()
	err = withConn(ctx, adminURL, func(conn *pgx.Conn) error {
		for _, setting := range []string{"server_version", "fsync", "synchronous_commit", "full_page_writes",
			"shared_buffers"} {
			var value string
			if err := conn.QueryRow(ctx, "SELECT current_setting($1)", setting).Scan(&value); err != nil {
				return fmt.Errorf("read setting %s: %w", setting, err)
			}
			db.Settings[setting] = value
		}
		_, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{db.name}.Sanitize())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create database: %w", err)
	}
	return db, nil
}

// Checkpoint makes the server write its unwritten pages, so that the next measurement does not pay for the previous
// one. The role needs the right to checkpoint.
func (d *Database) Checkpoint(ctx context.Context) error {
	err := withConn(ctx, d.admin, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CHECKPOINT")
		return err
	})
	if err != nil {
		return fmt.Errorf("checkpoint the server: %w", err)
	}
	return nil
}

// Drop removes the database, also when ctx has ended.
func (d *Database) Drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	err := withConn(ctx, d.admin, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{d.name}.Sanitize()+" WITH (FORCE)")
		return err
	})
	if err != nil {
		return fmt.Errorf("drop database %s: %w", d.name, err)
	}
	return nil
}

// Exec carries statements out in this database, one after the other and each by itself.
func (d *Database) Exec(ctx context.Context, statements ...string) error {
	return withConn(ctx, d.URL, func(conn *pgx.Conn) error {
		for _, text := range statements {
			if _, err := conn.Exec(ctx, text); err != nil {
				return fmt.Errorf("%.60s: %w", text, err)
			}
		}
		return nil
	})
}

// Process returns the server's first process, whose children do the work.
func (d *Database) Process(ctx context.Context) (server procstat.Proc, err error) {
	err = withConn(ctx, d.admin, func(conn *pgx.Conn) error {
		var own int
		if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&own); err != nil {
			return err
		}
		var err error
		server, err = procstat.Of(own).Parent()
		return err
	})
	if err != nil {
		return server, fmt.Errorf("find the server's processes: %w", err)
	}
	return server, nil
}

// Work is what the server has done so far.
type Work struct {
	// WALBytes is the size of its log; Syncs is how often it has waited until that was on the disk.
	WALBytes, Syncs int64
	// Commits and the rows are those of this database.
	Commits, Inserted, Updated, Deleted int64
	// Size is that of the database on the disk.
	Size int64
}

// Work reads the server's statistics, which it updates about every second.
func (d *Database) Work(ctx context.Context) (w Work, err error) {
	err = withConn(ctx, d.URL, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT wal_bytes::bigint, wal_sync, xact_commit, tup_inserted, tup_updated, tup_deleted,
			pg_database_size(current_database()) FROM pg_stat_wal, pg_stat_database WHERE datname = current_database()`).
			Scan(&w.WALBytes, &w.Syncs, &w.Commits, &w.Inserted, &w.Updated, &w.Deleted, &w.Size)
	})
	if err != nil {
		return w, fmt.Errorf("read the server's statistics: %w", err)
	}
	return w, nil
}

func withConn(ctx context.Context, dsn string, use func(*pgx.Conn) error) (err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return use(conn)
}

// isLocal reports whether a host of a PostgreSQL URL is a socket folder, a loopback address or the name of one.
func isLocal(host string) bool {
	if strings.HasPrefix(host, "/") || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
