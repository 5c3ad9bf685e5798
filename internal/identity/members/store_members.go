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

// The parts of a query that reads a member m: the columns, and the joins that bring the roles that hold at $1. A member
// without any is one row. Every request of a session reads its member, so the row is scanned by hand and not through
// db.Columns.
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
		var b joinedBinding
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

// joinedBinding is a binding with its role, as the outer join of readMember brings them.
type joinedBinding struct {
	id, role, environment, managedBy, name, permissions sql.NullString
	createdMillis                                       sql.NullInt64
	expiresMillis                                       *int64
}

func (b *joinedBinding) targets() []any {
	return []any{&b.id, &b.role, &b.environment, &b.createdMillis, &b.expiresMillis, &b.managedBy, &b.name, &b.permissions}
}

func (b *joinedBinding) addTo(m *member) error {
	if !b.id.Valid {
		return nil
	}
	binding := Binding{
		ID: b.id.String, PrincipalKind: access.KindUser, PrincipalID: m.user.ID, Role: access.Role(b.role.String),
		Environment: id.Environment(b.environment.String), CreatedMillis: b.createdMillis.Int64,
		ExpiresMillis: b.expiresMillis, ManagedBy: b.managedBy.String,
	}
	err := binding.setRole(b.name, b.permissions)
	m.bindings = append(m.bindings, binding)
	return err
}

// setRole sets what the role permits and what it is called. Both are NULL for a system role.
func (b *Binding) setRole(name, permissions sql.NullString) (err error) {
	if !permissions.Valid {
		b.permissions, b.RoleName = b.Role.Permissions(), string(b.Role)
		return nil
	}
	b.RoleName = name.String
	b.permissions, err = decodePermissions(permissions.String)
	return err
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

// isMember reports whether the user is a member of the team, disabled or not.
func isMember(ctx context.Context, q db.Querier, team id.Team, user string) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT 1 FROM memberships WHERE team_id = $1 AND user_id = $2", team, user).Scan(&n)
	return db.Found("the membership", err)
}

func teamMemberColumns(m *Member) db.Columns {
	return db.Columns{
		db.Col("u.id", &m.User.ID),
		db.Col("u.email", &m.User.Email),
		db.Col("m.created_ms", &m.JoinedMillis),
		db.Col("m.disabled_ms", &m.DisabledMillis),
	}
}

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
	list, err := db.All(ctx, q, teamMemberColumns, "FROM memberships m JOIN users u ON u.id = m.user_id", w, tail)
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	users := make([]string, len(list))
	for i := range list {
		users[i] = list[i].User.ID
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
