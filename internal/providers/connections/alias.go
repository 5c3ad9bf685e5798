package connections

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
)

// takeAlias gives the alias to the connection if no connection has it and no other environment released it within
// AliasHold. One statement decides, so two environments that request it at the same time cannot both get it.
func takeAlias(ctx context.Context, tx *sql.Tx, env id.Environment, connectionUUID, alias string,
	now time.Time) (taken bool, err error) {
	taken, err = db.Changed(tx.ExecContext(ctx, `
		INSERT INTO webhook_aliases (alias, environment_id, connection_uuid, released_ms)
		VALUES ($1, $2, $3, NULL)
		ON CONFLICT (alias) DO UPDATE SET environment_id = excluded.environment_id,
			connection_uuid = excluded.connection_uuid, released_ms = NULL
		WHERE webhook_aliases.connection_uuid IS NULL
			AND (webhook_aliases.environment_id = excluded.environment_id OR webhook_aliases.released_ms <= $4)`,
		alias, string(env), connectionUUID, clock.Millis(now.Add(-AliasHold))))
	if err != nil {
		return false, fmt.Errorf("take alias: %w", err)
	}
	return taken, nil
}

// releaseAlias releases the connection's alias, if it has one. The row stays for AliasHold and beyond.
func releaseAlias(ctx context.Context, tx *sql.Tx, connectionUUID string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE webhook_aliases SET connection_uuid = NULL, released_ms = $2
		WHERE connection_uuid = $1`,
		connectionUUID, clock.Millis(now))
	if err != nil {
		return fmt.Errorf("release alias: %w", err)
	}
	return nil
}

// moveAlias gives the connection another alias, or none; absent and present ones stay.
func moveAlias(ctx context.Context, tx *sql.Tx, c *Connection, alias patch.Field[string], now time.Time) error {
	if !alias.Set || !alias.Null && c.Alias != nil && *c.Alias == alias.Value {
		return nil
	}
	if err := releaseAlias(ctx, tx, c.UUID, now); err != nil || alias.Null {
		return err
	}
	taken, err := takeAlias(ctx, tx, c.Environment, c.UUID, alias.Value, now)
	if err == nil && !taken {
		return aliasTaken()
	}
	return err
}

func aliasTaken() error {
	return apperr.New(apperr.CodeAliasTaken, "Another connection uses, or recently used, the webhook alias")
}
