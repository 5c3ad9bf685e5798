package operator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"sallyport/internal/app"
	"sallyport/internal/identity"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/secretbox"
)

// Store is opened by every command that uses data: the database, the keyset and the identities.
type Store struct {
	DB       *db.DB
	Box      *secretbox.Box
	Identity *identity.Services
}

// Close closes the database.
func (s *Store) Close() error { return s.DB.Close() }

// OpenStore opens the database and the keyset for a command, next to a server that may be running. It changes no
// schema.
func OpenStore(ctx context.Context, cfg *config.Config, log *slog.Logger) (*Store, error) {
	d, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Store{DB: d}
	if s.Box, err = app.OpenKeyset(cfg, clock.System(), log); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if s.Identity, err = app.OpenIdentity(ctx, cfg, d, s.Box, clock.System()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return s, nil
}

// Errors of opening the database.
var (
	// ErrNoDatabase says that SQLite's file has yet to be made.
	ErrNoDatabase = errors.New("there is no database yet")
	// ErrDatabase says that the database does not let itself be opened.
	ErrDatabase = errors.New("the database cannot be opened")
)

// openDatabase opens the database and checks that its schema is the binary's.
func openDatabase(ctx context.Context, cfg *config.Config) (*db.DB, error) {
	d, err := openExisting(ctx, cfg)
	if err != nil {
		return nil, err
	}
	state, err := migrate.Read(ctx, d)
	if err == nil {
		err = state.Check()
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openExisting opens an existing database with any schema.
func openExisting(ctx context.Context, cfg *config.Config) (*db.DB, error) {
	if cfg.SQLite() {
		_, err := os.Stat(filepath.Join(cfg.Data, db.FileName))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w in %s", ErrNoDatabase, cfg.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDatabase, err)
		}
	}
	return openOrMake(ctx, cfg)
}

// openOrMake opens the database and makes SQLite's file where it is missing.
func openOrMake(ctx context.Context, cfg *config.Config) (*db.DB, error) {
	d, err := db.Open(ctx, cfg.DatabaseURL.Reveal(), cfg.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDatabase, err)
	}
	return d, nil
}
