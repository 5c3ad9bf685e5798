package team

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

func environmentColumns(e *Environment) db.Columns {
	return append(db.Columns{
		db.Col("id", &e.ID),
		db.Col("team_id", &e.Team),
		db.Col("name", &e.Name),
		db.Col("type", &e.Type),
		db.Col("created_ms", &e.CreatedMillis),
		db.Col("connect_redirect_urls", db.JSON(&e.RedirectURLs)),
	}, retentionColumns(&e.Retention)...)
}

func retentionColumns(r *Retention) db.Columns {
	return db.Columns{
		db.Col("payload_retention_days", &r.PayloadDays),
		db.Col("event_retention_days", &r.EventDays),
	}
}

const environmentTable = "FROM environments"

// environmentsOf selects the environments of a team that have not been removed.
func environmentsOf(team id.Team) *db.Where {
	return new(db.Where).And("deleted_ms IS NULL").And("team_id = ?", team)
}

// ReadEnvironment returns an environment of a team that has not been removed.
func ReadEnvironment(ctx context.Context, q db.Querier, team id.Team,
	env id.Environment) (e Environment, ok bool, err error) {
	return readEnvironment(ctx, q, team, env, "")
}

// readEnvironment is ReadEnvironment with what the engine needs to lock the row, if anything.
func readEnvironment(ctx context.Context, q db.Querier, team id.Team, env id.Environment,
	lock string) (e Environment, ok bool, err error) {
	e, ok, err = db.One(ctx, q, environmentColumns, environmentTable, environmentsOf(team).And("id = ?", env), lock)
	if err != nil {
		return Environment{}, false, fmt.Errorf("read the environment: %w", err)
	}
	return e, ok, nil
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
	list, err := db.All(ctx, q, environmentColumns, environmentTable, new(db.Where).And("team_id = ?", team), "")
	if err != nil {
		return nil, fmt.Errorf("read the environments: %w", err)
	}
	types := make(map[id.Environment]EnvironmentType, len(list))
	for _, e := range list {
		types[e.ID] = e.Type
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
	list, err := db.All(ctx, q, environmentColumns, environmentTable, w, tail)
	if err != nil {
		return nil, fmt.Errorf("read the environments: %w", err)
	}
	return list, nil
}

func insertEnvironment(ctx context.Context, tx *sql.Tx, e Environment) error {
	if _, err := db.Insert(ctx, tx, "INSERT INTO environments", environmentColumns(&e), ""); err != nil {
		return fmt.Errorf("store the environment: %w", err)
	}
	return nil
}

// updateEnvironment writes what the change sets of a locked environment.
func updateEnvironment(ctx context.Context, tx *sql.Tx, team id.Team, env id.Environment, c EnvironmentChange) error {
	var set db.Columns
	if c.Name != nil {
		set = append(set, db.Col("name", c.Name))
	}
	if c.RedirectURLs != nil {
		urls := append([]string{}, *c.RedirectURLs...)
		set = append(set, db.Col("connect_redirect_urls", db.JSON(&urls)))
	}
	retention := retentionColumns(&c.Retention)
	if c.PayloadSet {
		set = append(set, retention.Only("payload_retention_days")...)
	}
	if c.EventSet {
		set = append(set, retention.Only("event_retention_days")...)
	}
	if len(set) == 0 {
		return nil
	}
	_, err := db.Update(ctx, tx, "UPDATE environments", set, environmentsOf(team).And("id = ?", env))
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
