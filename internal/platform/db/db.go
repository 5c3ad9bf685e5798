// Package db opens the database and covers the few differences between its two engines. Everything else is one SQL
// text: $n placeholders, bigint milliseconds, JSON as text.
package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the SQLite driver

	"sallyport/internal/platform/clock"
)

// Engine names a database engine.
type Engine string

// The engines.
const (
	SQLite   Engine = "sqlite"
	Postgres Engine = "postgres"
)

// FileName is the name of SQLite's file inside the data folder.
const FileName = "sallyport.db"

// writeTimeout bounds one write transaction, so that a store that hangs becomes an error instead of a standstill.
const writeTimeout = 10 * time.Second

// Querier is the common part of *sql.DB and *sql.Tx.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// DB is an open database of either engine.
type DB struct {
	engine Engine
	write  *sql.DB
	read   *sql.DB
	schema *sql.DB
	stmts  statements
	// file is SQLite's database file, through which checkpoints sync. It stays open until SQLite has closed the file too:
	// on POSIX systems closing any descriptor of a file ends all locks that the process holds on it.
	file *os.File
	// conns holds the connection of every open PostgreSQL transaction, by *sql.Tx: database/sql does not expose it, and
	// only the connection can send several statements at the same time.
	conns sync.Map
	// held is for how long write transactions were open, in nanoseconds.
	held atomic.Int64
	clk  clock.Clock
}

// Held returns the total time that write transactions of this process were open. Work that yields to others compares
// two values with the time between them: on SQLite, which has one writer, their share of it is the load of the writer.
func (d *DB) Held() time.Duration { return time.Duration(d.held.Load()) }

type heldKey struct{}

// WithHeld returns a context whose write transactions add the time that they were open to held. It is for one
// goroutine.
func WithHeld(ctx context.Context, held *time.Duration) context.Context {
	return context.WithValue(ctx, heldKey{}, held)
}

func (d *DB) addHeld(ctx context.Context, began time.Time) {
	held := d.clk.Now().Sub(began)
	d.held.Add(int64(held))
	if own, ok := ctx.Value(heldKey{}).(*time.Duration); ok {
		*own += held
	}
}

// Engine returns the engine behind the database.
func (d *DB) Engine() Engine { return d.engine }

// Read returns the handle for queries outside a transaction.
func (d *DB) Read() *sql.DB { return d.read }

// Schema returns the handle for changes of the schema.
func (d *DB) Schema() *sql.DB { return d.schema }

// Write returns the handle that Tx uses; only maintenance needs it directly.
func (d *DB) Write() *sql.DB { return d.write }

// Open opens the PostgreSQL database at databaseURL or, if that is empty, the SQLite file in the data folder, which it
// creates with the folder. It checks that the database responds.
func Open(ctx context.Context, databaseURL, dataDir string) (*DB, error) {
	if databaseURL != "" {
		return openPostgres(ctx, databaseURL)
	}
	return openSQLite(ctx, dataDir)
}

func openSQLite(ctx context.Context, dir string) (*DB, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data folder: %w", err)
	}
	path := filepath.Join(dir, FileName)
	// The file holds what providers send; only the owner may read it. SQLite gives its WAL the same mode.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator chooses the data folder
	if err != nil {
		return nil, fmt.Errorf("open the database file: %w", err)
	}
	// busy_timeout comes first, so that the pragmas after it wait for a lock too. Checkpoints run alongside the commits
	// (see checkpoint.go), because one inside a commit makes every transaction in it wait; the automatic one is the safety
	// net.
	pragmas := []string{
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		"wal_autocheckpoint(50000)", "journal_size_limit(268435456)", "temp_store(MEMORY)",
	}
	dsn := func(extra ...string) string {
		q := url.Values{"_pragma": append(append([]string{}, pragmas...), extra...), "_txlock": {"immediate"}}
		return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode()
	}
	write, err := sql.Open("sqlite", dsn("cache_size(-32768)"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), f.Close())
	}
	write.SetMaxOpenConns(1)
	write.SetMaxIdleConns(1)
	read, err := sql.Open("sqlite", dsn("cache_size(-4096)", "query_only(1)"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), write.Close(), f.Close())
	}
	read.SetMaxOpenConns(4)
	read.SetMaxIdleConns(4)
	d := &DB{engine: SQLite, write: write, read: read, schema: write, file: f, clk: clock.System()}
	if err := d.write.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), d.Close())
	}
	return d, nil
}

func openPostgres(ctx context.Context, databaseURL string) (*DB, error) {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		// pgx's text quotes the URL, and with it the password.
		return nil, errors.New("the database URL is not a valid PostgreSQL URL")
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
	if _, ok := cfg.RuntimeParams["application_name"]; !ok {
		cfg.RuntimeParams["application_name"] = "sallyport"
	}
	if _, ok := cfg.RuntimeParams["jit"]; !ok {
		cfg.RuntimeParams["jit"] = "off"
	}
	cfg.RuntimeParams["statement_timeout"] = "30000"
	// Writes go by key. Their plans are made once, because planning a wide insert takes as long as running it, and with
	// everything but index look-ups priced out, because a plan made while a table was empty would scan it for ever.
	write := postgresPool(cfg, 8, map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off",
		"enable_hashjoin": "off", "enable_mergejoin": "off"})
	// Lists have as many plans as filters: each is planned for the table as it is.
	read := postgresPool(cfg, 12, map[string]string{"plan_cache_mode": "force_custom_plan"})
	// Migrations may take their time and plan as they like.
	schema := postgresPool(cfg, 2, map[string]string{"statement_timeout": "0"})
	d := &DB{engine: Postgres, write: write, read: read, schema: schema, clk: clock.System()}
	if err := write.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reach the database: %w", err), d.Close())
	}
	return d, nil
}

func postgresPool(cfg *pgx.ConnConfig, limit int, params map[string]string) *sql.DB {
	own := cfg.Copy()
	for name, value := range params {
		own.RuntimeParams[name] = value
	}
	pool := stdlib.OpenDB(*own)
	pool.SetMaxOpenConns(limit)
	pool.SetMaxIdleConns(limit)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return pool
}

// Close closes every connection.
func (d *DB) Close() error {
	err := d.stmts.close()
	if d.schema != d.write {
		err = errors.Join(err, d.schema.Close())
	}
	err = errors.Join(err, d.read.Close(), d.write.Close())
	if d.file != nil {
		if closing := d.file.Close(); !errors.Is(closing, os.ErrClosed) { // a pool may be closed twice, and so may this
			err = errors.Join(err, closing)
		}
	}
	return err
}

// Ping reports whether the database responds to a query.
func (d *DB) Ping(ctx context.Context) error {
	var one int
	return d.read.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

// ErrCommitUnknown says that the connection was lost before the response to a commit: the transaction may be stored or
// not.
var ErrCommitUnknown = errors.New("whether the transaction was stored is not known")

// Tx runs fn in one transaction and commits it. After a deadlock or serialisation failure it runs fn again, at most
// five times in total, so fn must tolerate that. No network call belongs inside. After ErrCommitUnknown, the work of fn
// may be stored or not; after any other error it is not.
func (d *DB) Tx(ctx context.Context, fn func(tx *sql.Tx) error) error {
	var err error
	for range 5 {
		if err = d.once(ctx, fn); err == nil || !isConflict(err) {
			return err
		}
	}
	return err
}

// begin begins a transaction; end must be called when it is over.
func (d *DB) begin(ctx context.Context) (tx *sql.Tx, end func(), err error) {
	if d.engine == SQLite {
		tx, err = d.write.BeginTx(ctx, nil)
		return tx, func() {}, err
	}
	conn, err := d.write.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	tx, err = conn.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	d.conns.Store(tx, conn)
	return tx, func() {
		d.conns.Delete(tx)
		_ = conn.Close() // gives it back to the pool; a broken one is dropped there
	}, nil
}

func (d *DB) once(ctx context.Context, fn func(tx *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if d.engine == SQLite {
		d.stmts.prepareWanted(ctx, d.write)
	}
	tx, end, err := d.begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer end()
	defer d.addHeld(ctx, d.clk.Now())
	err = fn(tx)
	if check := CheckOf(ctx); check != nil && err == nil {
		err = check(ctx, tx)
	}
	if err != nil {
		if rerr := tx.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) {
			return errors.Join(err, fmt.Errorf("roll back: %w", rerr))
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		if d.engine == Postgres && !refused(err) {
			err = fmt.Errorf("%w: %w", ErrCommitUnknown, err)
		}
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
