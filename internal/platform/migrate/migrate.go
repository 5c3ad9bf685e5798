// Package migrate migrates the schema of a database to the version of the binary.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"sallyport/internal/platform/db"
	"sallyport/migrations"
)

// ErrNewer is the error for a schema that a newer release has migrated. This release must not use it.
var ErrNewer = errors.New("the database schema is newer than this binary; run the newer release or restore a backup")

// ErrPending is the error for a schema with pending migrations. They must run before the binary can serve.
var ErrPending = errors.New("the database schema is older than this binary; run `sallyport migrate` or `sallyport " +
	"serve --migrate`")

// ErrInterrupted is the error of migrations that were stopped before the last one. Each is complete, or has changed
// nothing, or is completed by the next run.
var ErrInterrupted = errors.New("the migration was interrupted; complete steps stay, and the next run continues")

// ErrBusy is the error of a migration that has not got a table in time. It has changed nothing, and the next run
// continues with it.
var ErrBusy = errors.New("a transaction of a running node, a backup or a query holds a table that the migration " +
	"changes; nothing waits for it any more; run the migration again")

// State is the migration state of a database.
type State struct {
	// Current is the schema's version; 0 for an empty database.
	Current int64
	// Latest is the version that the binary knows.
	Latest int64
}

// Check returns nil if the schema has the binary's version, otherwise ErrNewer or ErrPending.
func (s State) Check() error {
	switch {
	case s.Current > s.Latest:
		return ErrNewer
	case s.Current < s.Latest:
		return ErrPending
	default:
		return nil
	}
}

// Read returns the state of the database without changing it.
func Read(ctx context.Context, d *db.DB) (State, error) {
	p, err := provider(d)
	if err != nil {
		return State{}, err
	}
	current, latest, err := p.GetVersions(ctx)
	if err != nil {
		return State{}, fmt.Errorf("read the schema version: %w", err)
	}
	return State{Current: current, Latest: latest}, nil
}

// Up runs the pending migrations and returns the states before and after. On PostgreSQL an advisory lock admits one
// process at a time.
func Up(ctx context.Context, d *db.DB) (before, after State, err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", ErrInterrupted, err)
		}
	}()
	p, err := provider(d)
	if err != nil {
		return State{}, State{}, err
	}
	current, latest, err := p.GetVersions(ctx)
	if err != nil {
		return State{}, State{}, fmt.Errorf("read the schema version: %w", err)
	}
	before = State{Current: current, Latest: latest}
	if current > latest {
		return before, before, ErrNewer
	}
	_, err = p.Up(ctx)
	switch {
	case db.IsLockTimeout(err):
		return before, before, fmt.Errorf("migrate: %w (%w)", ErrBusy, err)
	case err != nil:
		return before, before, fmt.Errorf("migrate: %w", err)
	}
	return before, State{Current: latest, Latest: latest}, nil
}

// Ensure brings the schema to the version of the binary if the process may migrate; otherwise it checks the version.
func Ensure(ctx context.Context, d *db.DB, mayMigrate bool, log *slog.Logger) error {
	if !mayMigrate {
		state, err := Read(ctx, d)
		if err != nil {
			return err
		}
		return state.Check()
	}
	before, after, err := Up(ctx, d)
	if err == nil && before.Current != after.Current {
		log.InfoContext(ctx, "migrated the database", slog.Int64("from", before.Current), slog.Int64("to", after.Current))
	}
	return err
}

func provider(d *db.DB) (*goose.Provider, error) {
	dialect, own := goose.DialectSQLite3, migrations.SQLite()
	var opts []goose.ProviderOption
	if d.Engine() == db.Postgres {
		dialect, own = goose.DialectPostgres, migrations.Postgres()
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(int64(db.LockMigrations)))
		if err != nil {
			return nil, fmt.Errorf("create the migration lock: %w", err)
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	files, err := merge(migrations.Common(), own)
	if err != nil {
		return nil, err
	}
	if d.Engine() == db.Postgres {
		limitWaits(files)
	}
	p, err := goose.NewProvider(dialect, d.Schema(), files, opts...)
	if err != nil {
		return nil, fmt.Errorf("load the migrations: %w", err)
	}
	return p, nil
}

// firstLimited is the name of the first migration whose wait for a lock is limited.
const firstLimited = "00062"

// limitWaits makes migrations release what they have locked, and fail, when PostgreSQL does not give them another lock
// in time: a statement that waits for its lock makes all later ones on the table wait, those of the nodes, too. Those
// without a transaction build indexes, which wait without holding anyone up.
func limitWaits(files fstest.MapFS) {
	const begin = "-- +goose Up\n"
	for name, file := range files {
		text := string(file.Data)
		if name >= firstLimited && !strings.Contains(text, "+goose NO TRANSACTION") {
			file.Data = []byte(strings.Replace(text, begin, begin+"SET LOCAL lock_timeout = '5s';\n", 1))
		}
	}
}

// merge combines the top-level files of several trees.
func merge(trees ...fs.FS) (fstest.MapFS, error) {
	all := fstest.MapFS{}
	for _, tree := range trees {
		names, err := fs.Glob(tree, "*.sql")
		if err != nil {
			return nil, fmt.Errorf("list the migrations: %w", err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(tree, name)
			if err != nil {
				return nil, fmt.Errorf("read a migration: %w", err)
			}
			if _, ok := all[name]; ok {
				return nil, fmt.Errorf("migration %s exists twice", name)
			}
			all[name] = &fstest.MapFile{Data: text}
		}
	}
	return all, nil
}
