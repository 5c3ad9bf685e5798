package team

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// ReadOnly returns the installation's team. There is one at most.
func ReadOnly(ctx context.Context, q db.Querier) (t Team, ok bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT id, name, created_ms FROM teams ORDER BY id LIMIT 1").
		Scan(&t.ID, &t.Name, &t.CreatedMillis)
	ok, err = db.Found("the team", err)
	return t, ok, err
}

// Read returns a team by its id.
func Read(ctx context.Context, q db.Querier, team id.Team) (t Team, ok bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT id, name, created_ms FROM teams WHERE id = $1", team).Scan(&t.ID, &t.Name,
		&t.CreatedMillis)
	ok, err = db.Found("the team", err)
	return t, ok, err
}

func insertTeam(ctx context.Context, tx *sql.Tx, t Team) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO teams (id, name, created_ms) VALUES ($1, $2, $3)", t.ID, t.Name,
		t.CreatedMillis)
	if err != nil {
		return fmt.Errorf("store the team: %w", err)
	}
	return nil
}

// renameTeam reports whether the team is there and had another name.
func renameTeam(ctx context.Context, tx *sql.Tx, team id.Team, name string) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, "UPDATE teams SET name = $2 WHERE id = $1 AND name <> $2", team, name))
}
