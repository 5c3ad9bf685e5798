package team

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

func columns(t *Team) db.Columns {
	return db.Columns{
		db.Col("id", &t.ID),
		db.Col("name", &t.Name),
		db.Col("created_ms", &t.CreatedMillis),
	}
}

// ReadOnly returns the installation's team. There is one at most.
func ReadOnly(ctx context.Context, q db.Querier) (Team, bool, error) {
	return read(ctx, q, new(db.Where), "ORDER BY id LIMIT 1")
}

// Read returns a team by its id.
func Read(ctx context.Context, q db.Querier, team id.Team) (Team, bool, error) {
	return read(ctx, q, new(db.Where).And("id = ?", team), "")
}

// lockTeam is Read with the row held until the transaction ends; lock is what the engine needs for that.
func lockTeam(ctx context.Context, tx *sql.Tx, team id.Team, lock string) (Team, bool, error) {
	return read(ctx, tx, new(db.Where).And("id = ?", team), lock)
}

func read(ctx context.Context, q db.Querier, w *db.Where, tail string) (Team, bool, error) {
	t, ok, err := db.One(ctx, q, columns, "FROM teams", w, tail)
	if err != nil {
		return Team{}, false, fmt.Errorf("read the team: %w", err)
	}
	return t, ok, nil
}

func insertTeam(ctx context.Context, tx *sql.Tx, t Team) error {
	if _, err := db.Insert(ctx, tx, "INSERT INTO teams", columns(&t), ""); err != nil {
		return fmt.Errorf("store the team: %w", err)
	}
	return nil
}

// renameTeam stores the name of a locked team.
func renameTeam(ctx context.Context, tx *sql.Tx, t Team) error {
	if _, err := tx.ExecContext(ctx, "UPDATE teams SET name = $2 WHERE id = $1", t.ID, t.Name); err != nil {
		return fmt.Errorf("store the team: %w", err)
	}
	return nil
}
