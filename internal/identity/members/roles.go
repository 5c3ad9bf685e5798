package members

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/plaintext"
)

const (
	// MaxRoles is how many roles of its own a team has at most.
	MaxRoles = 100
	// MaxRoleDescriptionCharacters bounds the description of a role.
	MaxRoleDescriptionCharacters = 500
)

// Role is a list of permissions under a name: a system role, which is fixed, or one that the team has made.
type Role struct {
	ID access.Role
	// Name is unique in the team without regard to case; a system role is called by its id.
	Name        string
	Description string
	System      bool
	// Permissions are in the order of access.Registry; those of a system role are in that of access.Role.Permissions.
	Permissions []access.Permission
	// Times are in Unix milliseconds, and nil for system roles.
	CreatedMillis, UpdatedMillis *int64
}

// Version identifies what the role shows.
func (r Role) Version() etag.Tag {
	return etag.Of(r.ID, r.Name, r.Description, r.Permissions, r.UpdatedMillis)
}

// NewRole describes a role to create.
type NewRole struct {
	Name        string
	Description string
	// Permissions are at least one of access.Grantable.
	Permissions []access.Permission
}

// RoleChange holds the fields of a role that a caller may write; nil keeps a field.
type RoleChange struct {
	Name        *string
	Description *string
	Permissions []access.Permission
}

func systemRole(r access.Role) Role {
	return Role{ID: r, Name: string(r), Description: r.Meaning(), System: true, Permissions: r.Permissions()}
}

// RoleViolations returns what is wrong with the texts of a role, at the locations "name" and "description"; nil is not
// looked at.
func RoleViolations(name, description *string) []apperr.Detail {
	var v apperr.Violations
	if name != nil {
		team.CheckName(&v, "name", *name)
	}
	if description != nil {
		switch {
		case utf8.RuneCountInString(*description) > MaxRoleDescriptionCharacters:
			v.Add("description", "max_length", fmt.Sprintf("must have at most %d characters", MaxRoleDescriptionCharacters))
		case !utf8.ValidString(*description) || strings.ContainsFunc(*description, plaintext.IsControl):
			v.Add("description", "pattern", "must not hold control characters")
		}
	}
	return v.Details()
}

func permissionViolations(list []access.Permission) []apperr.Detail {
	var v apperr.Violations
	if len(list) == 0 {
		v.Add("permissions", "min_items", "must list at least one permission")
	}
	for i, p := range list {
		if !slices.Contains(access.Grantable(), p) {
			v.Add(fmt.Sprintf("permissions[%d]", i), "enum", "must be a permission that a role can list")
		}
	}
	return v.Details()
}

// ordered returns each permission once, in the order of the registry.
func ordered(list []access.Permission) []access.Permission {
	return slices.DeleteFunc(access.Grantable(), func(p access.Permission) bool { return !slices.Contains(list, p) })
}

// ListRoles returns a page of the system roles and those of the actor's team, which count as newer. It reads
// page.Request.Fetch roles, which shows page.Cut whether more follow.
func (s *Service) ListRoles(ctx context.Context, actor access.Principal, r page.Request) ([]Role, error) {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return nil, err
	}
	custom, err := readRoles(ctx, s.db.Read(), team) // MaxRoles at most
	if err != nil {
		return nil, err
	}
	var all []Role
	for _, role := range access.SystemRoles() {
		all = append(all, systemRole(role))
	}
	slices.Reverse(all) // newest first is strongest first
	all = append(all, custom...)
	if !r.Ascending {
		slices.Reverse(all)
	}
	if r.After != "" {
		i := slices.IndexFunc(all, func(role Role) bool { return listedAfter(role.ID, access.Role(r.After), r.Ascending) })
		if i < 0 {
			return nil, nil
		}
		all = all[i:]
	}
	return all[:min(len(all), r.Fetch())], nil
}

// listedAfter reports whether a role comes after the place of another, which may be gone.
func listedAfter(role, place access.Role, ascending bool) bool {
	rank := func(r access.Role) int { return slices.Index(access.SystemRoles(), r) } // -1 for those of a team
	order := cmp.Or(cmp.Compare(rank(place), rank(role)), cmp.Compare(role, place))
	if !ascending {
		order = -order
	}
	return order > 0
}

// GetRole returns a role, or not_found.
func (s *Service) GetRole(ctx context.Context, actor access.Principal, role access.Role) (Role, error) {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return Role{}, err
	}
	return requireRole(ctx, s.db.Read(), team, role)
}

func errNoRole() error { return apperr.NotFound("role") }

func requireRole(ctx context.Context, q db.Querier, team id.Team, role access.Role) (Role, error) {
	if slices.Contains(access.SystemRoles(), role) {
		return systemRole(role), nil
	}
	if !id.Is(id.PrefixRole, string(role)) {
		return Role{}, errNoRole()
	}
	r, ok, err := readRole(ctx, q, team, role)
	if err == nil && !ok {
		err = errNoRole()
	}
	return r, err
}

// CreateRole adds a role to the actor's team. It returns validation_error, role_exists for a name that is taken,
// roles_limit, and privilege_escalation where the role lists what the actor does not hold in the whole team.
func (s *Service) CreateRole(ctx context.Context, actor access.Principal, n NewRole) (Role, error) {
	if violations := slices.Concat(RoleViolations(&n.Name, &n.Description),
		permissionViolations(n.Permissions)); violations != nil {
		return Role{}, apperr.Invalid(violations...)
	}
	var r Role
	err := s.ChangeRights(ctx, actor, func(tx *sql.Tx, c Change) error {
		if err := c.Require(access.RolesWrite); err != nil {
			return err
		}
		if err := MayGive(c.Actor, "", n.Permissions); err != nil {
			return err
		}
		existing, err := readRoles(ctx, tx, c.Team)
		if err != nil {
			return err
		}
		if len(existing) >= MaxRoles {
			return apperr.New(apperr.CodeRolesLimit, fmt.Sprintf("A team has at most %d roles of its own", MaxRoles))
		}
		ms := clock.Millis(c.Now)
		r = Role{
			ID: access.Role(id.New(id.PrefixRole)), Name: n.Name, Description: n.Description,
			Permissions: ordered(n.Permissions), CreatedMillis: &ms, UpdatedMillis: &ms,
		}
		if err := nameFree(existing, r); err != nil {
			return err
		}
		if err := insertRole(ctx, tx, c.Team, r); err != nil {
			return err
		}
		return audit.Record(ctx, tx, c.Now, roleEvent(c, r.ID, "role.create", nil, roleState(r)))
	})
	return r, err
}

// UpdateRole changes a role of the actor's team and returns it. The change applies to the next requests of everyone
// with the role. A change to the present values changes nothing. UpdateRole returns not_found, validation_error,
// role_exists, forbidden for a system role, and privilege_escalation if the change adds permissions that the actor does
// not hold in the whole team without an end, because others may have the role.
func (s *Service) UpdateRole(ctx context.Context, actor access.Principal, role access.Role,
	change RoleChange) (Role, error) {
	violations := RoleViolations(change.Name, change.Description)
	if change.Permissions != nil {
		violations = append(violations, permissionViolations(change.Permissions)...)
	}
	if violations != nil {
		return Role{}, apperr.Invalid(violations...)
	}
	var r Role
	err := s.ChangeRights(ctx, actor, func(tx *sql.Tx, c Change) error {
		if err := c.Require(access.RolesWrite); err != nil {
			return err
		}
		before, err := requireOwnRole(ctx, tx, c.Team, role)
		if err != nil {
			return err
		}
		if err := etag.Check(ctx, before.Version()); err != nil {
			return err
		}
		r = before
		if change.Name != nil {
			r.Name = *change.Name
		}
		if change.Description != nil {
			r.Description = *change.Description
		}
		if change.Permissions != nil {
			r.Permissions = ordered(change.Permissions)
		}
		added := slices.DeleteFunc(slices.Clone(r.Permissions), func(p access.Permission) bool {
			return slices.Contains(before.Permissions, p)
		})
		if err := c.checkGive("", added, nil); err != nil {
			return err
		}
		if r.Name == before.Name && r.Description == before.Description && slices.Equal(r.Permissions, before.Permissions) {
			return nil
		}
		existing, err := readRoles(ctx, tx, c.Team)
		if err != nil {
			return err
		}
		if err := nameFree(existing, r); err != nil {
			return err
		}
		ms := clock.Millis(c.Now)
		r.UpdatedMillis = &ms
		if err := updateRole(ctx, tx, c.Team, before, r); err != nil {
			return err
		}
		return audit.Record(ctx, tx, c.Now, roleEvent(c, r.ID, "role.update", roleState(before), roleState(r)))
	})
	return r, err
}

// DeleteRole removes a role of the actor's team. It returns not_found, role_in_use while a user has the role, and
// forbidden for a system role.
func (s *Service) DeleteRole(ctx context.Context, actor access.Principal, role access.Role) error {
	return s.ChangeRights(ctx, actor, func(tx *sql.Tx, c Change) error {
		if err := c.Require(access.RolesWrite); err != nil {
			return err
		}
		r, err := requireOwnRole(ctx, tx, c.Team, role)
		if err != nil {
			return err
		}
		if err := etag.Check(ctx, r.Version()); err != nil {
			return err
		}
		used, err := roleInUse(ctx, tx, c.Team, role, c.Now)
		if err != nil {
			return err
		}
		if used {
			return apperr.New(apperr.CodeRoleInUse, "A user has the role; revoke it first")
		}
		if err := deleteRole(ctx, tx, c.Team, role); err != nil {
			return err
		}
		return audit.Record(ctx, tx, c.Now, roleEvent(c, role, "role.delete", roleState(r), nil))
	})
}

// requireOwnRole returns a role that the team has made.
func requireOwnRole(ctx context.Context, tx *sql.Tx, team id.Team, role access.Role) (Role, error) {
	r, err := requireRole(ctx, tx, team, role)
	if err == nil && r.System {
		err = apperr.New(apperr.CodeForbidden, "System roles are fixed")
	}
	return r, err
}

// nameFree returns role_exists when another role has the name, in upper or lower case.
func nameFree(existing []Role, r Role) error {
	taken := slices.ContainsFunc(existing, func(e Role) bool {
		return e.ID != r.ID && strings.EqualFold(e.Name, r.Name)
	}) ||
		slices.ContainsFunc(access.SystemRoles(), func(e access.Role) bool { return strings.EqualFold(string(e), r.Name) })
	if taken {
		return apperr.New(apperr.CodeRoleExists, "The team already has a role with this name")
	}
	return nil
}

func roleEvent(c Change, role access.Role, action string, before, after audit.State) audit.Event {
	return audit.Event{Team: c.Team, Actor: c.Actor, Action: action, TargetType: "role", TargetID: string(role),
		Before: before, After: after}
}

func roleState(r Role) audit.State {
	return audit.State{"name": r.Name, "description": r.Description, "permissions": r.Permissions}
}
