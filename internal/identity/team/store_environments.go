package team

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

const selectEnvironments = "SELECT id, team_id, name, type, payload_retention_days, event_retention_days, " +
	"created_ms FROM environments"

// environmentsOf selects the environments of a team that have not been removed.
func environmentsOf(team id.Team) *db.Where {
	return new(db.Where).And("deleted_ms IS NULL").And("team_id = ?", team)
}

// ReadEnvironment returns an environment of a team that has not been removed.
func ReadEnvironment(ctx context.Context, q db.Querier, team id.Team,
	env id.Environment) (e Environment, ok bool, err error) {
	list, err := queryEnvironments(ctx, q, environmentsOf(team).And("id = ?", env), "")
	if err != nil || len(list) == 0 {
		return Environment{}, false, err
	}
	return list[0], true, nil
}

func isLive(ctx context.Context, tx *sql.Tx, env id.Environment) (bool, error) {
	var n int
	err := tx.QueryRowContext(ctx, "SELECT 1 FROM environments WHERE id = $1 AND deleted_ms IS NULL", env).Scan(&n)
	return db.Found("the environment", err)
}

// ReadEnvironments returns the environments of a team, oldest first.
func ReadEnvironments(ctx context.Context, q db.Querier, team id.Team) ([]Environment, error) {
	return queryEnvironments(ctx, q, environmentsOf(team), "ORDER BY id")
}

// ReadTypes returns the types of a team's environments, removed ones included.
func ReadTypes(ctx context.Context, q db.Querier, team id.Team) (map[id.Environment]EnvironmentType, error) {
	rows, err := q.QueryContext(ctx, "SELECT id, type FROM environments WHERE team_id = $1", team)
	if err != nil {
		return nil, fmt.Errorf("read the environments: %w", err)
	}
	types := map[id.Environment]EnvironmentType{}
	err = db.Each(rows, func(r *sql.Rows) error {
		var env id.Environment
		var t EnvironmentType
		err := r.Scan(&env, &t)
		types[env] = t
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the environments: %w", err)
	}
	return types, nil
}

// listEnvironments returns a page of the team's environments, or of those among them that are named.
func listEnvironments(ctx context.Context, q db.Querier, team id.Team, named []id.Environment,
	r page.Request) ([]Environment, error) {
	w := db.AnyOf(environmentsOf(team), "id", named)
	return queryEnvironments(ctx, q, w, w.Page("id", r))
}

func queryEnvironments(ctx context.Context, q db.Querier, w *db.Where, tail string) ([]Environment, error) {
	rows, err := q.QueryContext(ctx, selectEnvironments+w.Text()+" "+tail, w.Args()...)
	if err != nil {
		return nil, fmt.Errorf("read the environments: %w", err)
	}
	var list []Environment
	err = db.Each(rows, func(r *sql.Rows) error {
		var e Environment
		if err := r.Scan(&e.ID, &e.Team, &e.Name, &e.Type, &e.PayloadDays, &e.EventDays, &e.CreatedMillis); err != nil {
			return err
		}
		list = append(list, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the environments: %w", err)
	}
	return list, nil
}

func insertEnvironment(ctx context.Context, tx *sql.Tx, e Environment) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO environments (id, team_id, name, type, payload_retention_days,
			event_retention_days, created_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, e.ID, e.Team, e.Name, e.Type, e.PayloadDays, e.EventDays, e.CreatedMillis)
	if err != nil {
		return fmt.Errorf("store the environment: %w", err)
	}
	return nil
}

func updateEnvironment(ctx context.Context, tx *sql.Tx, team id.Team, env id.Environment, c EnvironmentChange) error {
	_, err := tx.ExecContext(ctx, `UPDATE environments SET name = COALESCE($3, name),
		payload_retention_days = CASE WHEN CAST($4 AS boolean) THEN CAST($5 AS bigint) ELSE payload_retention_days END,
		event_retention_days = CASE WHEN CAST($6 AS boolean) THEN CAST($7 AS bigint) ELSE event_retention_days END
		WHERE id = $1 AND team_id = $2 AND deleted_ms IS NULL`,
		env, team, c.Name, c.PayloadSet, c.PayloadDays, c.EventSet, c.EventDays)
	return err
}

// deleteEnvironment keeps the row, because rows that outlive their resources name it, and frees the name: no
// environment can be called by what the row has instead.
func deleteEnvironment(ctx context.Context, tx *sql.Tx, team id.Team, env id.Environment,
	nowMillis int64) (bool, error) {
	return db.Changed(tx.ExecContext(ctx,
		"UPDATE environments SET deleted_ms = $3, name = id WHERE id = $1 AND team_id = $2 AND deleted_ms IS NULL", env, team,
		nowMillis))
}
