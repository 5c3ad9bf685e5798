package main

import (
	"context"
	"errors"
	"fmt"

	"sallyport/internal/operator"
	"sallyport/internal/platform/migrate"
)

type migrateCommand struct {
	Status bool `help:"Only show the schema's version; exit with 3 if migrations are pending."`
}

// Run migrates. Servers of the previous release may be running.
func (c migrateCommand) Run(ctx context.Context, e *env) error {
	if c.Status {
		return c.status(ctx, e)
	}
	before, after, err := operator.Migrate(ctx, e.cfg)
	if err != nil {
		return err
	}
	if before.Current == after.Current {
		_, err = fmt.Fprintf(e.stdout, "the schema is at version %d, nothing was pending\n", after.Current)
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "migrated the schema from version %d to %d\n", before.Current, after.Current)
	return err
}

func (migrateCommand) status(ctx context.Context, e *env) error {
	state, err := operator.SchemaState(ctx, e.cfg)
	if errors.Is(err, operator.ErrNoDatabase) {
		_, err := fmt.Fprintln(e.stdout, err)
		return errors.Join(err, exitError(exitPending))
	}
	if err != nil {
		return err
	}
	check := state.Check()
	if check != nil && !errors.Is(check, migrate.ErrPending) {
		return check
	}
	if _, err := fmt.Fprintf(e.stdout, "the schema is at version %d of %d\n", state.Current, state.Latest); err != nil {
		return err
	}
	if check != nil {
		return exitError(exitPending)
	}
	return nil
}
