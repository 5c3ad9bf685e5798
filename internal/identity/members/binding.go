package members

import (
	"context"
	"slices"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
)

// Binding gives a role to a principal, in one environment or in the whole team.
type Binding struct {
	ID string
	// PrincipalKind and PrincipalID say who has the role. Only users can have one.
	PrincipalKind access.Kind
	PrincipalID   string
	Role          access.Role
	// RoleName is the role's name for people; a system role is called by its id.
	RoleName string
	// Environment is where the role holds; empty for the whole team.
	Environment id.Environment
	// Times are in Unix milliseconds. ExpiresMillis is when the role holds no longer; nil for never.
	CreatedMillis int64
	ExpiresMillis *int64
	// ManagedBy is the identity provider whose groups gave the role, and take it again; empty for what people gave.
	ManagedBy string
	// permissions are those of the role.
	permissions []access.Permission
}

// Version identifies what the binding shows.
func (b Binding) Version() etag.Tag {
	return etag.Of(b.ID, b.RoleName, b.ExpiresMillis, b.ManagedBy)
}

// permissionsInScope returns what the role permits where it holds.
func (b Binding) permissionsInScope() []access.Permission {
	if b.Environment == "" {
		return b.permissions
	}
	return slices.DeleteFunc(access.InEnvironments(), func(p access.Permission) bool {
		return !slices.Contains(b.permissions, p)
	})
}

// endsBefore reports whether the role ends before a time in Unix milliseconds, nil for never.
func (b Binding) endsBefore(millis *int64) bool {
	return b.ExpiresMillis != nil && (millis == nil || *b.ExpiresMillis < *millis)
}

// member is a user in a team, with the roles that hold now.
type member struct {
	user     User
	team     id.Team
	bindings []Binding
}

// rights are the union of the rights of the member's roles.
func (m member) rights() access.Rights {
	var r access.Rights
	for _, b := range m.bindings {
		r.Add(b.Environment, b.permissions)
	}
	return r
}

// principal is the member as the one who asks, in a session of theirs.
func (m member) principal(session string) access.Principal {
	return access.Principal{
		Kind: access.KindUser, ID: m.user.ID, Name: m.user.Email, Team: m.team, Rights: m.rights(), Session: session,
	}
}

// Condition restricts a query of members by tables of the caller, so that one query reads both. Each ? in Text stands
// for the next of Args.
type Condition struct {
	Text string
	Args []any
}

// ReadPrincipal returns an active member of a team as the principal of a request in a session, with the roles that they
// have now. It reports false for a user who is not a member, is disabled, or does not meet the conditions. It is one
// query.
func ReadPrincipal(ctx context.Context, q db.Querier, team id.Team, user, session string, now time.Time,
	conditions ...Condition) (access.Principal, bool, error) {
	m, ok, err := readMember(ctx, q, team, user, now, conditions...)
	if err != nil || !ok {
		return access.Principal{}, false, err
	}
	return m.principal(session), true, nil
}
