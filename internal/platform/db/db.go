// Package db opens the database and covers the few differences between its two engines. Everything else is one SQL
// text: $n placeholders, bigint milliseconds, JSON as text.
package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the SQLite driver

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/turnstile"
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
	// lists serves List, which gate lets in; reserved serves the gateway's own work.
	lists    *sql.DB
	reserved *sql.DB
	schema   *sql.DB
	gate     *turnstile.Gate
	stmts    statements
	// log is the size of the content of SQLite's write-ahead log in bytes, at the last checkpoint.
	log atomic.Int64
	// file is SQLite's database file, through which checkpoints sync. It stays open until SQLite has closed the file too:
	// on POSIX systems closing any descriptor of a file ends all locks that the process holds on it.
	file *os.File
	// conns holds the connection of every open PostgreSQL transaction, by *sql.Tx: database/sql does not expose it, and
	// only the connection can send several statements at the same time.
	conns sync.Map
	// writer decides who writes next on SQLite.
	writer writer
	// held is for how long write transactions were open, in nanoseconds.
	held atomic.Int64
	clk  clock.Clock
	// notStoring is called with the reason when the database stores nothing.
	notStoring atomic.Pointer[func(reason error)]
	// listen is how Listen connects, on PostgreSQL.
	listen *pgx.ConnConfig
	// guarded is set by Guard.
	guarded atomic.Bool
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

// Read returns the handle for queries by key outside a transaction. Reads whose cost depends on what is stored go
// through List.
func (d *DB) Read() *sql.DB {
	refuseInTx(d, "Read")
	return d.read
}

// Reserved returns the handle for queries that the gateway needs in order to go on: readiness, claims of work, what
// workers send, and the refresh of caches. Clients reach its connections only through caches, by single rows, so they
// cannot take all of them.
func (d *DB) Reserved() *sql.DB {
	refuseInTx(d, "Reserved")
	return d.reserved
}

// ReadAs returns the handle for queries by key on behalf of the context: Reserved for the workers that send, which must
// not wait for clients, and Read for everything else.
func ReadAs(ctx context.Context, d *DB) *sql.DB {
	if turnOf(ctx) == TurnDelivery {
		return d.Reserved()
	}
	return d.Read()
}

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

// writeCache is 16 MiB: random keys of millions of events do not fit into 32 either, and SQLite searches the whole
// cache in every fourth commit (see ADR 43).
const writeCache = "cache_size(-16384)"

// readCache is 2 MiB for each of a dozen connections: queries by key find the pages that they need in the system's
// cache as well, and with millions of rows every connection fills its own.
const readCache = "cache_size(-2048)"

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
	write, err := sql.Open("sqlite", dsn(writeCache))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), f.Close())
	}
	write.SetMaxOpenConns(1)
	write.SetMaxIdleConns(1)
	d := &DB{engine: SQLite, write: write, schema: write, file: f, gate: newGate(SQLite), clk: clock.System()}
	for _, pool := range []struct {
		handle **sql.DB
		limit  int
	}{{&d.read, 4}, {&d.lists, places(SQLite)}, {&d.reserved, 4}} {
		if *pool.handle, err = sql.Open("sqlite", dsn(readCache, "query_only(1)")); err != nil {
			return nil, errors.Join(fmt.Errorf("open the database: %w", err), d.Close())
		}
		(*pool.handle).SetMaxOpenConns(pool.limit)
		(*pool.handle).SetMaxIdleConns(pool.limit)
	}
	if err := d.write.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), d.Close())
	}
	return d, nil
}

// abandonedAfter is when PostgreSQL ends a transaction that its node does not go on with, in milliseconds: one that
// stands still or was cut off would otherwise keep its locks, and the provider resends to other nodes what it has not
// acknowledged. No network call belongs in a transaction, so a node that works goes on within milliseconds. With the
// keepalives, the server ends the connections of a machine that is gone.
const abandonedAfter = "5000"

func openPostgres(ctx context.Context, databaseURL string) (*DB, error) {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		// pgx's text quotes the URL, and with it the password.
		return nil, errors.New("the database URL is not a valid PostgreSQL URL")
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if _, ok := cfg.RuntimeParams["application_name"]; !ok {
		cfg.RuntimeParams["application_name"] = "sallyport"
	}
	if _, ok := cfg.RuntimeParams["jit"]; !ok {
		cfg.RuntimeParams["jit"] = "off"
	}
	cfg.RuntimeParams["statement_timeout"] = strconv.FormatInt(statementTimeout.Milliseconds(), 10)
	cfg.DialFunc = noticeSilence(cfg.DialFunc)
	// Writes go by key. Their plans are made once, because planning a wide insert takes as long as running it, and with
	// everything but index look-ups priced out, because a plan made while a table was empty would scan it for ever.
	write := postgresPool(cfg, 8, map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off",
		"enable_hashjoin": "off", "enable_mergejoin": "off", "idle_in_transaction_session_timeout": abandonedAfter,
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}, stdlib.OptionAfterConnect(
		syncSession))
	// Lists have as many plans as filters: each is planned for the table as it is.
	reader := func(limit int) *sql.DB {
		return postgresPool(cfg, limit, map[string]string{"plan_cache_mode": "force_custom_plan"})
	}
	// Migrations may take their time and plan as they like.
	schema := postgresPool(cfg, 2, map[string]string{"statement_timeout": "0"})
	d := &DB{engine: Postgres, write: write, read: reader(5), lists: reader(places(Postgres)), reserved: reader(5),
		schema: schema, gate: newGate(Postgres), listen: cfg, clk: clock.System()}
	if err := write.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reach the database: %w", err), d.Close())
	}
	return d, nil
}

const (
	// connectTimeout bounds each attempt to connect. A silent address takes two, with TLS and without it, after which a
	// transaction must have time left for another address.
	connectTimeout = 3 * time.Second
	// statementTimeout is when PostgreSQL ends a statement.
	statementTimeout = 30 * time.Second
	// silenceTimeout is for how long after that a statement waits for the server to say so.
	silenceTimeout = 5 * time.Second
)

func postgresPool(cfg *pgx.ConnConfig, limit int, params map[string]string, options ...stdlib.OptionOpenDB) *sql.DB {
	own, longest := cfg.Copy(), statementTimeout+silenceTimeout
	for name, value := range params {
		own.RuntimeParams[name] = value
		if name == "statement_timeout" {
			longest = 0
		}
	}
	pool := sql.OpenDB(connector{stdlib.GetConnector(*own, options...), longest})
	pool.SetMaxOpenConns(limit)
	pool.SetMaxIdleConns(limit)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	return pool
}

// Close closes every connection.
func (d *DB) Close() error {
	err := d.stmts.close()
	closed := map[*sql.DB]bool{nil: true} // a handle of one engine can be that of another kind as well
	for _, pool := range []*sql.DB{d.lists, d.reserved, d.read, d.schema, d.write} {
		if !closed[pool] {
			err = errors.Join(err, pool.Close())
		}
		closed[pool] = true
	}
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
	return d.Reserved().QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

// ErrCommitUnknown says that the connection was lost before the response to a commit: the transaction may be stored or
// not.
var ErrCommitUnknown = errors.New("whether the transaction was stored is not known")

// Tx runs fn in one transaction and commits it, within writeTimeout. That also bounds the statements of fn on
// PostgreSQL, regardless of their contexts. After a deadlock or serialisation failure it runs fn again, at most
// five times in total, so fn must tolerate that. No network call belongs inside. After ErrCommitUnknown, the work of fn
// may be stored or not; after any other error it is not.
func (d *DB) Tx(ctx context.Context, fn func(tx *sql.Tx) error) error {
	refuseInTx(d, "Tx")
	var err error
	for range 5 {
		if err = d.once(ctx, fn); err == nil || !isConflict(err) {
			break
		}
	}
	d.reportNotStoring(err)
	return err
}

// begin begins a transaction, which is rolled back if ctx ends; end must be called with its error when it is over.
// lasting says that ctx only ends with time.
func (d *DB) begin(ctx context.Context, lasting bool) (tx *sql.Tx, end func(error), err error) {
	if d.engine == SQLite && lasting {
		return d.beginLasting(ctx)
	}
	if d.engine == SQLite {
		tx, err = d.write.BeginTx(ctx, nil)
		return tx, func(error) {}, err
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
	return tx, func(err error) {
		d.conns.Delete(tx)
		if errors.Is(NotStoring(err), errReadOnly) {
			// A session stays read-only, or with a server that no longer writes, when new sessions would not.
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close() // gives it back to the pool; a broken one is dropped there
	}, nil
}

// beginLasting is begin on SQLite for a context that only ends with time. The driver starts a goroutine for the BEGIN
// of a context that can end, which wakes a processor for each event that is stored alone; a timer costs nothing.
func (d *DB) beginLasting(ctx context.Context) (tx *sql.Tx, end func(error), err error) {
	conn, err := d.write.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	tx, err = conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = tx.Rollback() }) // the next use of tx reports it
	return tx, func(error) {
		stop()
		_ = conn.Close() // gives it back to the pool
	}, nil
}

func (d *DB) once(ctx context.Context, fn func(tx *sql.Tx) error) (err error) {
	lasting := ctx.Done() == nil
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if d.engine == SQLite {
		if err := d.writer.acquire(ctx, turnOf(ctx), ownerOf(ctx)); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		began := d.clk.Now()
		defer func() { d.writer.release(d.clk.Now().Sub(began)) }()
		d.stmts.prepareWanted(ctx, d.write)
	}
	tx, end, err := d.begin(ctx, lasting)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { end(err) }()
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
