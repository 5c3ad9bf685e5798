package members

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// LockRights serialises the transactions that change who may do what: the last owner is counted over several rows.
func (s *Service) LockRights(ctx context.Context, tx *sql.Tx) error {
	if err := s.db.AdvisoryLock(ctx, tx, db.LockRights); err != nil {
		return fmt.Errorf("wait for another change of rights: %w", err)
	}
	return nil
}

func roleColumns(r *Role) db.Columns {
	return db.Columns{
		db.Col("id", &r.ID),
		db.Col("name", &r.Name),
		db.Col("description", &r.Description),
		db.Col("permissions", db.Text(func() (string, error) { return db.EncodeJSON(r.Permissions) },
			func(text string) (err error) {
				r.Permissions, err = decodePermissions(text)
				return err
			})),
		db.Col("created_ms", &r.CreatedMillis),
		db.Col("updated_ms", &r.UpdatedMillis),
	}
}

func rolesOf(team id.Team) *db.Where { return new(db.Where).And("team_id = ?", string(team)) }

// readRoles returns the roles that the team has made, oldest first.
func readRoles(ctx context.Context, q db.Querier, team id.Team) ([]Role, error) {
	list, err := db.All(ctx, q, roleColumns, "FROM roles", rolesOf(team), "ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("read roles: %w", err)
	}
	return list, nil
}

func readRole(ctx context.Context, q db.Querier, team id.Team, role access.Role) (Role, bool, error) {
	r, ok, err := db.One(ctx, q, roleColumns, "FROM roles", rolesOf(team).And("id = ?", string(role)), "")
	if err != nil {
		return Role{}, false, fmt.Errorf("read the role: %w", err)
	}
	return r, ok, nil
}

func insertRole(ctx context.Context, tx *sql.Tx, team id.Team, r Role) error {
	if _, err := db.Insert(ctx, tx, "INSERT INTO roles", append(roleColumns(&r), db.Col("team_id", &team)),
		""); err != nil {
		return fmt.Errorf("store the role: %w", err)
	}
	return nil
}

// updateRole writes what differs of a role from before.
func updateRole(ctx context.Context, tx *sql.Tx, team id.Team, before, after Role) error {
	changed, err := roleColumns(&after).Changed(roleColumns(&before))
	if err == nil {
		_, err = db.Update(ctx, tx, "UPDATE roles", changed, rolesOf(team).And("id = ?", string(after.ID)))
	}
	if err != nil {
		return fmt.Errorf("store the role: %w", err)
	}
	return nil
}

// deleteRole removes a role with its bindings, which have all expired.
func deleteRole(ctx context.Context, tx *sql.Tx, team id.Team, role access.Role) error {
	for _, text := range []string{"DELETE FROM role_bindings WHERE team_id = $1 AND role = $2",
		"DELETE FROM roles WHERE team_id = $1 AND id = $2"} {
		if _, err := tx.ExecContext(ctx, text, team, role); err != nil {
			return fmt.Errorf("delete the role: %w", err)
		}
	}
	return nil
}

func roleInUse(ctx context.Context, tx *sql.Tx, team id.Team, role access.Role, now time.Time) (bool, error) {
	var n int
	err := tx.QueryRowContext(ctx,
		"SELECT 1 FROM role_bindings WHERE team_id = $1 AND role = $2 AND (expires_ms IS NULL OR expires_ms > $3) LIMIT 1",
		team, role, clock.Millis(now)).Scan(&n)
	return db.Found("the role's bindings", err)
}

// bindingColumns binds the columns of a binding, but for its team.
func bindingColumns(b *Binding) db.Columns {
	return db.Columns{
		db.Col("id", &b.ID),
		db.Col("principal_type", &b.PrincipalKind),
		db.Col("principal_id", &b.PrincipalID),
		db.Col("role", &b.Role),
		db.Col("environment_id", db.Null(&b.Environment)),
		db.Col("created_ms", &b.CreatedMillis),
		db.Col("expires_ms", &b.ExpiresMillis),
		db.Col("managed_by", db.Null(&b.ManagedBy)),
	}
}

// bindingRow is a binding with what is stored of its role.
type bindingRow struct {
	Binding
	roleName, permissions sql.NullString
}

func bindingRowColumns(r *bindingRow) db.Columns {
	return append(bindingColumns(&r.Binding), db.Col("role_name", &r.roleName), db.Col("permissions", &r.permissions))
}

const bindingsWithRoles = `FROM (SELECT b.*, r.name AS role_name, r.permissions
	FROM role_bindings b LEFT JOIN roles r ON r.id = b.role AND r.team_id = b.team_id) b`

func insertBinding(ctx context.Context, tx *sql.Tx, team id.Team, b Binding) error {
	_, err := db.Insert(ctx, tx, "INSERT INTO role_bindings", append(bindingColumns(&b), db.Col("team_id", &team)), "")
	if err != nil {
		return fmt.Errorf("store the binding: %w", err)
	}
	return nil
}

// bindingsOf selects the team's bindings that have not expired.
func bindingsOf(team id.Team, now time.Time) *db.Where {
	return new(db.Where).And("(b.expires_ms IS NULL OR b.expires_ms > ?)", clock.Millis(now)).And("b.team_id = ?", team)
}

func readBinding(ctx context.Context, q db.Querier, team id.Team, bindingID string,
	now time.Time) (b Binding, ok bool, err error) {
	list, err := queryBindings(ctx, q, bindingsOf(team, now).And("b.id = ?", bindingID), "")
	if err != nil || len(list) == 0 {
		return Binding{}, false, err
	}
	return list[0], true, nil
}

func listBindings(ctx context.Context, q db.Querier, team id.Team, f BindingFilter, now time.Time,
	r page.Request) ([]Binding, error) {
	w := bindingsOf(team, now)
	db.AnyOf(w, "b.principal_id", f.PrincipalIDs)
	db.AnyOf(w, "b.role", f.Roles)
	db.AnyOf(w, "b.environment_id", f.Environments)
	return queryBindings(ctx, q, w, w.Page("b.id", r))
}

func queryBindings(ctx context.Context, q db.Querier, w *db.Where, tail string) ([]Binding, error) {
	rows, err := db.All(ctx, q, bindingRowColumns, bindingsWithRoles, w, tail)
	if err != nil {
		return nil, fmt.Errorf("read role bindings: %w", err)
	}
	list := make([]Binding, len(rows))
	for i := range rows {
		list[i] = rows[i].Binding
		if err := list[i].setRole(rows[i].roleName, rows[i].permissions); err != nil {
			return nil, fmt.Errorf("read role bindings: %w", err)
		}
	}
	return list, nil
}

func setBindingExpiry(ctx context.Context, tx *sql.Tx, team id.Team, bindingID string, expiresMillis *int64) error {
	_, err := tx.ExecContext(ctx, "UPDATE role_bindings SET expires_ms = $3 WHERE team_id = $1 AND id = $2", team,
		bindingID, expiresMillis)
	if err != nil {
		return fmt.Errorf("store the binding's expiry: %w", err)
	}
	return nil
}

func deleteBinding(ctx context.Context, tx *sql.Tx, team id.Team, bindingID string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM role_bindings WHERE team_id = $1 AND id = $2", team,
		bindingID); err != nil {
		return fmt.Errorf("delete the binding: %w", err)
	}
	return nil
}

// ForgetEnvironment removes, in tx, the roles that were given in an environment that is deleted. It is a
// team.EnvironmentEnded.
func ForgetEnvironment(ctx context.Context, tx *sql.Tx, team id.Team, env id.Environment) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM role_bindings WHERE team_id = $1 AND environment_id = $2", team,
		env); err != nil {
		return fmt.Errorf("delete the environment's role bindings: %w", err)
	}
	return nil
}

// forgetExpired removes the bindings of a user that have expired, so that the same roles can be given again.
func forgetExpired(ctx context.Context, tx *sql.Tx, team id.Team, user string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM role_bindings WHERE principal_type = 'user' AND principal_id = $1
		AND team_id = $2 AND expires_ms <= $3`,
		user, team, clock.Millis(now))
	if err != nil {
		return fmt.Errorf("delete expired role bindings: %w", err)
	}
	return nil
}

// hasLastingOwner reports whether the team has an owner who is not disabled and whose role neither ends by itself nor
// is an identity provider's to take.
func hasLastingOwner(ctx context.Context, tx *sql.Tx, team id.Team) (bool, error) {
	var n int
	err := tx.QueryRowContext(ctx, `SELECT 1 FROM role_bindings b
		JOIN memberships m ON m.team_id = b.team_id AND m.user_id = b.principal_id AND m.disabled_ms IS NULL
		WHERE b.team_id = $1 AND b.role = $2 AND b.principal_type = 'user' AND b.environment_id IS NULL
		AND b.expires_ms IS NULL AND b.managed_by IS NULL LIMIT 1`,
		team, access.Owner).Scan(&n)
	return db.Found("the owners", err)
}
