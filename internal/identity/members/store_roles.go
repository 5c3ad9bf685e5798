package members

import (
	"context"
	"database/sql"
	"encoding/json"
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

const selectRoles = "SELECT id, name, description, permissions, created_ms, updated_ms FROM roles WHERE team_id = $1"

// readRoles returns the roles that the team has made, oldest first.
func readRoles(ctx context.Context, q db.Querier, team id.Team) ([]Role, error) {
	return queryRoles(ctx, q, selectRoles+" ORDER BY id", team)
}

func readRole(ctx context.Context, q db.Querier, team id.Team, role access.Role) (r Role, ok bool, err error) {
	list, err := queryRoles(ctx, q, selectRoles+" AND id = $2", team, role)
	if err != nil || len(list) == 0 {
		return Role{}, false, err
	}
	return list[0], true, nil
}

func queryRoles(ctx context.Context, q db.Querier, text string, args ...any) ([]Role, error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, fmt.Errorf("read roles: %w", err)
	}
	var list []Role
	err = db.Each(rows, func(row *sql.Rows) error {
		var r Role
		var permissions string
		if err := row.Scan(&r.ID, &r.Name, &r.Description, &permissions, &r.CreatedMillis, &r.UpdatedMillis); err != nil {
			return err
		}
		var err error
		r.Permissions, err = decodePermissions(permissions)
		list = append(list, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read roles: %w", err)
	}
	return list, nil
}

func encodePermissions(list []access.Permission) (string, error) {
	b, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encode the permissions of a role: %w", err)
	}
	return string(b), nil
}

func insertRole(ctx context.Context, tx *sql.Tx, team id.Team, r Role) error {
	permissions, err := encodePermissions(r.Permissions)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO roles (id, team_id, name, description, permissions, created_ms, updated_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		r.ID, team, r.Name, r.Description, permissions, r.CreatedMillis, r.UpdatedMillis)
	if err != nil {
		return fmt.Errorf("store the role: %w", err)
	}
	return nil
}

func updateRole(ctx context.Context, tx *sql.Tx, team id.Team, r Role) error {
	permissions, err := encodePermissions(r.Permissions)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE roles SET name = $3, description = $4, permissions = $5, updated_ms = $6
		WHERE team_id = $1 AND id = $2`,
		team, r.ID, r.Name, r.Description, permissions, r.UpdatedMillis)
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

const selectBindings = `SELECT b.principal_type, b.principal_id, b.id, b.role, b.environment_id, b.created_ms,
		b.expires_ms, b.managed_by, r.name, r.permissions
	FROM role_bindings b LEFT JOIN roles r ON r.id = b.role AND r.team_id = b.team_id`

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
	rows, err := q.QueryContext(ctx, selectBindings+w.Text()+" "+tail, w.Args()...)
	if err != nil {
		return nil, fmt.Errorf("read role bindings: %w", err)
	}
	var list []Binding
	err = db.Each(rows, func(r *sql.Rows) error {
		var b bindingRow
		var kind access.Kind
		var principal string
		if err := r.Scan(append([]any{&kind, &principal}, b.targets()...)...); err != nil {
			return err
		}
		binding, err := b.binding(kind, principal)
		list = append(list, binding)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read role bindings: %w", err)
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
