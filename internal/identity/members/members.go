package members

import (
	"context"
	"database/sql"
	"slices"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// Member is a user in a team, with the roles that hold now.
type Member struct {
	User     User
	Bindings []Binding
	// JoinedMillis and DisabledMillis are in Unix milliseconds; the latter is nil for a member who is not disabled.
	JoinedMillis   int64
	DisabledMillis *int64
}

// Version identifies what the member shows: their address, whether they are disabled, and their roles.
func (m Member) Version() etag.Tag {
	roles := make([]etag.Tag, len(m.Bindings))
	for i, b := range m.Bindings {
		roles[i] = b.Version()
	}
	return etag.Of(m.User.Email, m.DisabledMillis, roles)
}

// MemberFilter selects members. Values of one field are alternatives; fields restrict together. Empty fields do not
// restrict.
type MemberFilter struct {
	// Emails are whole addresses, in lower case.
	Emails []string
	// Roles are those that a member has now, anywhere.
	Roles    []access.Role
	Disabled *bool
}

// ListMembers returns a page of the members of the actor's team. It reads page.Request.Fetch rows, which shows page.Cut
// whether more follow.
func (s *Service) ListMembers(ctx context.Context, actor access.Principal, f MemberFilter,
	r page.Request) ([]Member, error) {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return nil, err
	}
	return listMembers(ctx, s.db.Read(), team, f, s.clock.Now(), r)
}

// GetMember returns a member of the actor's team, or not_found.
func (s *Service) GetMember(ctx context.Context, actor access.Principal, user string) (Member, error) {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return Member{}, err
	}
	return s.requireMember(ctx, s.db.Read(), team, user)
}

func (s *Service) requireMember(ctx context.Context, q db.Querier, team id.Team, user string) (Member, error) {
	if !id.Is(id.PrefixUser, user) {
		return Member{}, apperr.NotFound("member")
	}
	m, ok, err := readTeamMember(ctx, q, team, user, s.clock.Now())
	if err == nil && !ok {
		err = apperr.NotFound("member")
	}
	return m, err
}

// SetMemberDisabled disables or enables a member of the actor's team and returns them. Disabling ends their sessions
// immediately and keeps their roles. Enabling gives the roles again, with the errors of that. SetMemberDisabled returns
// not_found, precondition_failed, last_owner, privilege_escalation, and forbidden if the actor may not decide about
// owners.
func (s *Service) SetMemberDisabled(ctx context.Context, actor access.Principal, user string,
	disabled bool) (Member, error) {
	var m Member
	committed := func() {}
	defer func() { committed() }()
	err := s.ChangeRights(ctx, actor, func(tx *sql.Tx, c Change) error {
		before, err := s.removable(ctx, tx, c, user)
		if err != nil {
			return err
		}
		m = before
		if disabled == (before.DisabledMillis != nil) {
			return nil
		}
		m.DisabledMillis = nil
		state := Active
		if disabled {
			state = Disabled
			m.DisabledMillis = new(clock.Millis(c.Now))
		} else if err := c.givesAgain(before); err != nil {
			return err
		}
		if err := setMemberDisabled(ctx, tx, c.Team, user, m.DisabledMillis); err != nil {
			return err
		}
		ended := int64(0)
		if disabled {
			if ended, err = s.sessions.EndAll(ctx, tx, user, c.Now); err != nil {
				return err
			}
			if err := keepsOwnerWithout(ctx, tx, c.Team, before); err != nil {
				return err
			}
		}
		if err := s.follow(ctx, tx, c.Actor, user, state, &committed); err != nil {
			return err
		}
		return audit.Record(ctx, tx, c.Now, memberEvent(c, user, "member.update", memberState(before), memberState(m), ended))
	})
	return m, err
}

// RemoveMember removes a user and all their roles from the actor's team, and ends their sessions immediately. Resources
// that they created stay; the credentials of connections that belong to them are removed. It returns not_found,
// last_owner, and forbidden if the actor may not decide about owners.
func (s *Service) RemoveMember(ctx context.Context, actor access.Principal, user string) error {
	committed := func() {}
	defer func() { committed() }()
	return s.ChangeRights(ctx, actor, func(tx *sql.Tx, c Change) error {
		m, err := s.removable(ctx, tx, c, user)
		if err != nil {
			return err
		}
		if err := deleteMember(ctx, tx, c.Team, user); err != nil {
			return err
		}
		ended, err := s.sessions.EndAll(ctx, tx, user, c.Now)
		if err != nil {
			return err
		}
		if err := keepsOwnerWithout(ctx, tx, c.Team, m); err != nil {
			return err
		}
		if err := s.follow(ctx, tx, c.Actor, user, Removed, &committed); err != nil {
			return err
		}
		return audit.Record(ctx, tx, c.Now, memberEvent(c, user, "member.delete", memberState(m), nil, ended))
	})
}

// removable returns a member whom the actor may disable and remove, in the version that the request is for.
func (s *Service) removable(ctx context.Context, tx *sql.Tx, c Change, user string) (Member, error) {
	if err := c.Require(access.MembersWrite); err != nil {
		return Member{}, err
	}
	// A sign-in through an identity provider gives roles without the lock of changes of rights.
	if id.Is(id.PrefixUser, user) {
		if err := LockUser(ctx, tx, user); err != nil {
			return Member{}, err
		}
	}
	m, err := s.requireMember(ctx, tx, c.Team, user)
	if err != nil {
		return Member{}, err
	}
	if m.owns() {
		if err := c.Require(access.OwnersWrite); err != nil {
			return Member{}, err
		}
	}
	return m, etag.Check(ctx, m.Version())
}

// givesAgain returns privilege_escalation unless the actor may give all that the member's roles bring, for as long as
// they last.
func (c Change) givesAgain(m Member) error {
	for _, b := range m.Bindings {
		if err := c.checkGive(b.Environment, b.permissionsInScope(), b.ExpiresMillis); err != nil {
			return err
		}
	}
	return nil
}

func (m Member) owns() bool {
	return slices.ContainsFunc(m.Bindings, func(b Binding) bool { return b.Role == access.Owner && b.Environment == "" })
}

// keepsOwnerWithout is requireLastingOwner after a member was disabled or removed.
func keepsOwnerWithout(ctx context.Context, tx *sql.Tx, team id.Team, m Member) error {
	if !m.owns() {
		return nil
	}
	return requireLastingOwner(ctx, tx, team)
}

func memberEvent(c Change, user, action string, before, after audit.State, ended int64) audit.Event {
	return audit.Event{
		Team: c.Team, Actor: c.Actor, Action: action, TargetType: "user", TargetID: user, Before: before, After: after,
		Details: audit.State{"sessions_ended": ended},
	}
}

func memberState(m Member) audit.State {
	roles := make([]audit.State, 0, len(m.Bindings))
	for _, b := range m.Bindings {
		roles = append(roles, bindingState(b))
	}
	return audit.State{"email": m.User.Email, "disabled": m.DisabledMillis != nil, "roles": roles}
}
