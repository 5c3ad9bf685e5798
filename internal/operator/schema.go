package operator

import (
	"context"
	"errors"

	"sallyport/internal/platform/config"
	"sallyport/internal/platform/migrate"
)

// SchemaState returns where the database's schema stands. It makes no database: without one it returns ErrNoDatabase.
func SchemaState(ctx context.Context, cfg *config.Config) (migrate.State, error) {
	d, err := openExisting(ctx, cfg)
	if err != nil {
		return migrate.State{}, err
	}
	state, err := migrate.Read(ctx, d)
	return state, errors.Join(err, d.Close())
}

// Migrate brings the schema to the binary's version, and returns the state before and after. It makes a SQLite database
// that is not there. A newer schema is migrate.ErrNewer.
func Migrate(ctx context.Context, cfg *config.Config) (before, after migrate.State, err error) {
	d, err := openOrMake(ctx, cfg)
	if err != nil {
		return before, after, err
	}
	before, after, err = migrate.Up(ctx, d)
	return before, after, errors.Join(err, d.Close())
}
