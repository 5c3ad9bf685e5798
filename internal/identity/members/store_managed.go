package members

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// readManaged returns the bindings that a provider gave to a user, or to anybody where user is empty.
func readManaged(ctx context.Context, q db.Querier, team id.Team, provider, user string) ([]Binding, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, principal_type, principal_id, role, COALESCE(environment_id, ''),
			created_ms FROM role_bindings
		WHERE managed_by = $1 AND team_id = $2 AND ($3 = '' OR principal_type = 'user' AND principal_id = $3) ORDER BY id`,
		provider, team, user)
	if err != nil {
		return nil, fmt.Errorf("read the roles of a provider: %w", err)
	}
	var list []Binding
	err = db.Each(rows, func(r *sql.Rows) error {
		var b Binding
		err := r.Scan(&b.ID, &b.PrincipalKind, &b.PrincipalID, &b.Role, &b.Environment, &b.CreatedMillis)
		list = append(list, b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the roles of a provider: %w", err)
	}
	return list, nil
}

// insertManaged stores a binding that a provider gives, and reports false where somebody gave it before.
func insertManaged(ctx context.Context, tx *sql.Tx, team id.Team, provider string, b Binding) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, `INSERT INTO role_bindings (id, team_id, principal_type, principal_id, role,
			environment_id, created_ms, expires_ms, managed_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, $8) ON CONFLICT DO NOTHING`,
		b.ID, team, b.PrincipalKind, b.PrincipalID, b.Role,
		sql.NullString{String: string(b.Environment), Valid: b.Environment != ""}, b.CreatedMillis, provider))
}

func deleteManaged(ctx context.Context, tx *sql.Tx, binding string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM role_bindings WHERE id = $1 AND managed_by IS NOT NULL",
		binding); err != nil {
		return fmt.Errorf("take a role of a provider: %w", err)
	}
	return nil
}

// readPermissions returns what a role of the team brings, and whether there is such a role.
func readPermissions(ctx context.Context, q db.Querier, team id.Team,
	role access.Role) ([]access.Permission, bool, error) {
	if slices.Contains(access.SystemRoles(), role) {
		return role.Permissions(), true, nil
	}
	// What is no id can hold what an engine's text cannot.
	if !id.Is(id.PrefixRole, string(role)) {
		return nil, false, nil
	}
	var text string
	err := q.QueryRowContext(ctx, "SELECT permissions FROM roles WHERE team_id = $1 AND id = $2", team, role).Scan(&text)
	ok, err := db.Found("the role", err)
	if err != nil || !ok {
		return nil, false, err
	}
	list, err := decodePermissions(text)
	return list, err == nil, err
}

// givable reports whether role and environment are there.
func givable(ctx context.Context, tx *sql.Tx, teamID id.Team, r GivenRole) (bool, error) {
	_, ok, err := readPermissions(ctx, tx, teamID, r.Role)
	if err != nil || !ok || r.Environment == "" {
		return ok, err
	}
	_, ok, err = team.ReadEnvironment(ctx, tx, teamID, r.Environment)
	return ok, err
}
