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

// readManaged returns the bindings that a provider gave to a user, or to any user where user is empty.
func readManaged(ctx context.Context, q db.Querier, team id.Team, provider, user string) ([]Binding, error) {
	w := new(db.Where).And("managed_by = ?", provider).And("team_id = ?", string(team))
	if user != "" {
		w.And("principal_type = 'user' AND principal_id = ?", user)
	}
	list, err := db.All(ctx, q, bindingColumns, "FROM role_bindings", w, "ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("read the roles of a provider: %w", err)
	}
	return list, nil
}

// insertManaged stores a binding that a provider gives, and reports false where a user gave it before.
func insertManaged(ctx context.Context, tx *sql.Tx, team id.Team, b Binding) (bool, error) {
	added, err := db.Insert(ctx, tx, "INSERT INTO role_bindings", append(bindingColumns(&b), db.Col("team_id", &team)),
		"ON CONFLICT DO NOTHING")
	if err != nil {
		return false, fmt.Errorf("store a role of a provider: %w", err)
	}
	return added, nil
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
	// A text that is not an id may hold characters that an engine's text cannot.
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
