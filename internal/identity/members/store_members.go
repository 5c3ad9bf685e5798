package members

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// What reading a member m adds: the columns, and the joins that bring the roles that hold at $1. A member without any
// is one row.
const (
	memberColumns = "u.id, u.email, b.id, b.role, b.environment_id, b.created_ms, b.expires_ms, b.managed_by, r.name, " +
		"r.permissions"
	memberJoins = ` JOIN users u ON u.id = m.user_id
		LEFT JOIN role_bindings b ON b.principal_type = 'user' AND b.principal_id = m.user_id AND b.team_id = m.team_id
			AND (b.expires_ms IS NULL OR b.expires_ms > $1)
		LEFT JOIN roles r ON r.id = b.role AND r.team_id = b.team_id`
)

// readMember returns a member of the team who is not disabled and meets the conditions, with the roles that hold now.
func readMember(ctx context.Context, q db.Querier, team id.Team, user string, now time.Time,
	conditions ...Condition) (m member, ok bool, err error) {
	w := new(db.Where)
	w.Arg(clock.Millis(now)) // $1 of memberJoins
	w.And("m.disabled_ms IS NULL AND m.team_id = ? AND m.user_id = ?", team, user)
	for _, c := range conditions {
		w.And(c.Text, c.Args...)
	}
	rows, err := q.QueryContext(ctx, "SELECT "+memberColumns+" FROM memberships m"+memberJoins+w.Text()+" ORDER BY b.id",
		w.Args()...)
	if err != nil {
		return member{}, false, fmt.Errorf("read the member: %w", err)
	}
	m.team = team

	err = db.Each(rows, func(r *sql.Rows) error {
		var b bindingRow
		if err := r.Scan(append([]any{&m.user.ID, &m.user.Email},
			b.targets()...)...); err != nil {
			return err
		}
		ok = true
		return b.addTo(&m)
	})
	if err != nil {
		return member{}, false, fmt.Errorf("read the member: %w", err)
	}
	return m, ok, nil
}

// bindingRow is a binding with its role, as an outer join brings them.
type bindingRow struct {
	id, role, environment, managedBy, name, permissions sql.NullString
	createdMillis                                       sql.NullInt64
	expiresMillis                                       *int64
}

func (b *bindingRow) targets() []any {
	return []any{&b.id, &b.role, &b.environment, &b.createdMillis, &b.expiresMillis, &b.managedBy, &b.name, &b.permissions}
}

func (b *bindingRow) addTo(m *member) error {
	if !b.id.Valid {
		return nil
	}
	binding, err := b.binding(access.KindUser, m.user.ID)
	m.bindings = append(m.bindings, binding)
	return err
}

func (b *bindingRow) binding(kind access.Kind, principal string) (Binding, error) {
	permissions, name, err := b.rolePermissions()
	return Binding{
		ID: b.id.String, PrincipalKind: kind, PrincipalID: principal, Role: access.Role(b.role.String), RoleName: name,
		Environment: id.Environment(b.environment.String), CreatedMillis: b.createdMillis.Int64,
		ExpiresMillis: b.expiresMillis, ManagedBy: b.managedBy.String, permissions: permissions,
	}, err
}

// rolePermissions returns what the role brings and what it is called.
func (b *bindingRow) rolePermissions() ([]access.Permission, string, error) {
	if !b.permissions.Valid {
		return access.Role(b.role.String).Permissions(), b.role.String, nil
	}
	list, err := decodePermissions(b.permissions.String)
	return list, b.name.String, err
}

// decodePermissions reads the permissions of a stored role. One that is not known here can only come from another
// release and brings nothing.
func decodePermissions(text string) ([]access.Permission, error) {
	var list []access.Permission
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("decode the permissions of a role: %w", err)
	}
	known := access.Grantable()
	return slices.DeleteFunc(list, func(p access.Permission) bool { return !slices.Contains(known, p) }), nil
}

// AddMembership makes a user a member who has no role yet. The previous release, which knows no other roles than the
// one of the membership, allows them nothing.
func AddMembership(ctx context.Context, tx *sql.Tx, team id.Team, user string, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO memberships (team_id, user_id, role, created_ms) VALUES ($1, $2, '', $3)",
		team, user, nowMillis)
	if err != nil {
		return fmt.Errorf("store the membership: %w", err)
	}
	return nil
}

func insertBinding(ctx context.Context, tx *sql.Tx, team id.Team, b Binding) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO role_bindings (id, team_id, principal_type, principal_id, role,
			environment_id, created_ms, expires_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, b.ID, team, b.PrincipalKind, b.PrincipalID, b.Role,
		sql.NullString{String: string(b.Environment), Valid: b.Environment != ""}, b.CreatedMillis, b.ExpiresMillis)
	if err != nil {
		return fmt.Errorf("store the binding: %w", err)
	}
	return nil
}

// isMember reports whether the user is a member of the team, disabled or not.
func isMember(ctx context.Context, q db.Querier, team id.Team, user string) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT 1 FROM memberships WHERE team_id = $1 AND user_id = $2", team, user).Scan(&n)
	return db.Found("the membership", err)
}

const selectMembers = `SELECT u.id, u.email, m.created_ms, m.disabled_ms FROM memberships m
	JOIN users u ON u.id = m.user_id`

func readTeamMember(ctx context.Context, q db.Querier, team id.Team, user string,
	now time.Time) (m Member, ok bool, err error) {
	list, err := queryMembers(ctx, q, team, now, new(db.Where).And("m.team_id = ?", team).And("m.user_id = ?", user), "")
	if err != nil || len(list) == 0 {
		return Member{}, false, err
	}
	return list[0], true, nil
}

func listMembers(ctx context.Context, q db.Querier, team id.Team, f MemberFilter, now time.Time,
	r page.Request) ([]Member, error) {
	w := db.AnyOf(new(db.Where).And("m.team_id = ?", team), "u.email", f.Emails)
	if len(f.Roles) > 0 {
		w.And(`EXISTS (SELECT 1 FROM role_bindings b WHERE b.principal_type = 'user' AND b.principal_id = m.user_id
			AND b.team_id = m.team_id AND (b.expires_ms IS NULL OR b.expires_ms > ` + w.Arg(clock.Millis(now)) + `)
			AND b.role IN ` + db.List(w, f.Roles) + `)`)
	}
	if f.Disabled != nil {
		w.And("(m.disabled_ms IS NOT NULL) = CAST(? AS boolean)", *f.Disabled)
	}
	return queryMembers(ctx, q, team, now, w, w.Page("m.user_id", r))
}

// queryMembers reads members and then, in one more query, the roles that they have now.
func queryMembers(ctx context.Context, q db.Querier, team id.Team, now time.Time, w *db.Where,
	tail string) ([]Member, error) {
	rows, err := q.QueryContext(ctx, selectMembers+w.Text()+" "+tail, w.Args()...)
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	var list []Member
	var users []string
	err = db.Each(rows, func(r *sql.Rows) error {
		var m Member
		if err := r.Scan(&m.User.ID, &m.User.Email, &m.JoinedMillis, &m.DisabledMillis); err != nil {
			return err
		}
		list, users = append(list, m), append(users, m.User.ID)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	bindings, err := queryBindings(ctx, q, db.AnyOf(bindingsOf(team, now), "b.principal_id", users), "ORDER BY b.id")
	if err != nil {
		return nil, err
	}
	for _, b := range bindings {
		if i := slices.Index(users, b.PrincipalID); i >= 0 {
			list[i].Bindings = append(list[i].Bindings, b)
		}
	}
	return list, nil
}

func setMemberDisabled(ctx context.Context, tx *sql.Tx, team id.Team, user string, disabledMillis *int64) error {
	// The previous release does not know that a member can be disabled; without a role it allows them nothing.
	_, err := tx.ExecContext(ctx, "UPDATE memberships SET disabled_ms = $3, role = '' WHERE team_id = $1 AND user_id = $2",
		team, user, disabledMillis)
	if err != nil {
		return fmt.Errorf("store the membership: %w", err)
	}
	return nil
}

// forgetMembershipRole takes from a member what the previous release would allow them.
func forgetMembershipRole(ctx context.Context, tx *sql.Tx, team id.Team, user string) error {
	if _, err := tx.ExecContext(ctx, "UPDATE memberships SET role = '' WHERE team_id = $1 AND user_id = $2", team,
		user); err != nil {
		return fmt.Errorf("store the membership: %w", err)
	}
	return nil
}

// deleteMember removes a membership with the user's roles in the team.
func deleteMember(ctx context.Context, tx *sql.Tx, team id.Team, user string) error {
	for _, text := range []string{
		"DELETE FROM role_bindings WHERE principal_type = 'user' AND principal_id = $2 AND team_id = $1",
		"DELETE FROM memberships WHERE team_id = $1 AND user_id = $2",
	} {
		if _, err := tx.ExecContext(ctx, text, team, user); err != nil {
			return fmt.Errorf("remove the member: %w", err)
		}
	}
	return nil
}
