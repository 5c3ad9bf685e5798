package members

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// MaxBindings is how many roles one user has at most, each scope counted.
const MaxBindings = 100

// BindingFilter selects bindings. Values of one field are alternatives; fields restrict together. Empty fields do not
// restrict.
type BindingFilter struct {
	PrincipalIDs []string
	Roles        []access.Role
	Environments []id.Environment
}

// ListBindings returns a page of the bindings of the actor's team that have not expired. It reads page.Request.Fetch
// rows, which shows page.Cut whether more follow.
func (s *Service) ListBindings(ctx context.Context, actor access.Principal, f BindingFilter,
	r page.Request) ([]Binding, error) {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return nil, err
	}
	return listBindings(ctx, s.db.Read(), team, f, s.clock.Now(), r)
}

// GetBinding returns a binding of the actor's team that has not expired, or not_found.
func (s *Service) GetBinding(ctx context.Context, actor access.Principal, bindingID string) (Binding, error) {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return Binding{}, err
	}
	return s.requireBinding(ctx, s.db.Read(), team, bindingID)
}

func (s *Service) requireBinding(ctx context.Context, q db.Querier, team id.Team, bindingID string) (Binding, error) {
	if !id.Is(id.PrefixBinding, bindingID) {
		return Binding{}, errNoBinding()
	}
	b, ok, err := readBinding(ctx, q, team, bindingID, s.clock.Now())
	if err == nil && !ok {
		err = errNoBinding()
	}
	return b, err
}

func errNoBinding() error { return apperr.NotFound("role binding") }

// CreateBinding gives a role to a member of the actor's team. It returns what Give returns, and forbidden for an actor
// who may give no roles.
func (s *Service) CreateBinding(ctx context.Context, actor access.Principal, user string,
	g RoleGrant) (Binding, error) {
	var b Binding
	err := s.ChangeRights(ctx, actor, func(tx *sql.Tx, c Change) error {
		if err := c.Require(access.RolesWrite); err != nil {
			return err
		}
		var err error
		b, err = s.Give(ctx, tx, c, user, g)
		return err
	})
	return b, err
}

// Give gives a role to a member as part of a change of rights, with its audit event. It returns validation_error for
// what does not exist or does not go together (at "principal.id" and where CheckGrant puts it), privilege_escalation,
// role_binding_exists and roles_limit. Whether the actor may give roles at all is for the caller to check.
func (s *Service) Give(ctx context.Context, tx *sql.Tx, c Change, user string, g RoleGrant) (Binding, error) {
	member := false
	if id.Is(id.PrefixUser, user) {
		var err error
		if member, err = isMember(ctx, tx, c.Team, user); err != nil {
			return Binding{}, err
		}
	}
	var v apperr.Violations
	if !member {
		v.Add("principal.id", "exists", "must be a member of the team")
	}
	role, err := checkGrant(ctx, tx, c, g, atBinding())
	if err := WithViolations(v.Details(), err); err != nil {
		return Binding{}, err
	}
	b := Binding{
		ID: id.New(id.PrefixBinding), PrincipalKind: access.KindUser, PrincipalID: user, Role: role.ID, RoleName: role.Name,
		Environment: g.Environment, CreatedMillis: clock.Millis(c.Now), ExpiresMillis: g.ExpiresMillis,
		permissions: role.Permissions,
	}
	if err := forgetExpired(ctx, tx, c.Team, user, c.Now); err != nil {
		return Binding{}, err
	}
	has, err := listBindings(ctx, tx, c.Team, BindingFilter{PrincipalIDs: []string{user}}, c.Now,
		page.Request{Limit: MaxBindings})
	if err != nil {
		return Binding{}, err
	}
	if slices.ContainsFunc(has, func(h Binding) bool { return h.Role == b.Role && h.Environment == b.Environment }) {
		return Binding{}, apperr.New(apperr.CodeRoleBindingExists, "The principal already has the role there")
	}
	if len(has) >= MaxBindings {
		return Binding{}, apperr.New(apperr.CodeRolesLimit, fmt.Sprintf("A principal has at most %d role bindings",
			MaxBindings))
	}
	if err := insertBinding(ctx, tx, c.Team, b); err != nil {
		return Binding{}, err
	}
	if b.Environment != "" {
		if err := s.team.RequireLive(ctx, tx, b.Environment); err != nil {
			return Binding{}, err
		}
	}
	return b, audit.Record(ctx, tx, c.Now, bindingEvent(c, b.ID, "role_binding.create", nil, bindingState(b)))
}

// WithViolations adds validation errors to those of a rule that was checked after them. Without any it returns err.
func WithViolations(violations []apperr.Detail, err error) error {
	if len(violations) == 0 {
		return err
	}
	var e *apperr.Error
	if errors.As(err, &e) && e.Code == apperr.CodeValidation {
		violations = append(violations, e.Details...)
	}
	return apperr.Invalid(violations...)
}

// checkGrant returns the role that the grant gives, if the actor may give it.
func checkGrant(ctx context.Context, q db.Querier, c Change, g RoleGrant, at grantAt) (Role, error) {
	var v apperr.Violations
	role, err := requireRole(ctx, q, c.Team, g.Role)
	switch {
	case apperr.Is(err, apperr.CodeNotFound):
		v.Add(at.role, "exists", "must be the id of a role")
	case err != nil:
		return Role{}, err
	}
	brings := Binding{Environment: g.Environment, permissions: role.Permissions}.permissionsInScope()
	if g.Environment != "" {
		exists := false
		if id.Is(id.PrefixEnvironment, string(g.Environment)) {
			if _, exists, err = team.ReadEnvironment(ctx, q, c.Team, g.Environment); err != nil {
				return Role{}, err
			}
		}
		switch {
		case !exists:
			v.Add(at.environment, "exists", "must be an environment of the team")
		case role.ID == access.Owner:
			v.Add(at.environment, "team", "an owner is one of the whole team")
		case role.ID != "" && len(brings) == 0:
			v.Add(at.environment, "team", "none of the role's permissions can hold in one environment")
		}
	}
	if g.ExpiresMillis != nil {
		endViolation(&v, at.expiry, *g.ExpiresMillis, c.Now)
	}
	if err := v.Err(); err != nil {
		return Role{}, err
	}
	return role, c.checkGive(g.Environment, brings, g.ExpiresMillis)
}

func endViolation(v *apperr.Violations, at string, expiresMillis int64, now time.Time) {
	if expiresMillis <= clock.Millis(now) {
		v.Add(at, "future", "must be in the future")
	}
}

// BindingExpiryViolations returns what is wrong at the time now with the time at which a binding is to end, at the
// location "expires_at".
func BindingExpiryViolations(expiresMillis int64, now time.Time) []apperr.Detail {
	var v apperr.Violations
	endViolation(&v, atBinding().expiry, expiresMillis, now)
	return v.Details()
}

// UpdateBinding changes when a binding of the actor's team ends, nil for never, and returns it. Making it last longer
// is giving the role again, with the errors that has. It returns not_found, precondition_failed, last_owner,
// role_binding_managed for what an identity provider gave, and forbidden where the actor may not decide about owners.
func (s *Service) UpdateBinding(ctx context.Context, actor access.Principal, bindingID string,
	expiresMillis *int64) (Binding, error) {
	var b Binding
	err := s.ChangeRights(ctx, actor, func(tx *sql.Tx, c Change) error {
		before, err := s.changeable(ctx, tx, c, bindingID)
		if err != nil {
			return err
		}
		if before.ManagedBy != "" {
			return apperr.New(apperr.CodeRoleBindingManaged,
				"An identity provider gives the role for as long as the user's groups say so")
		}
		b = before
		b.ExpiresMillis = expiresMillis
		if expiresMillis != nil {
			if violations := BindingExpiryViolations(*expiresMillis, c.Now); violations != nil {
				return apperr.Invalid(violations...)
			}
		}
		longer := before.ExpiresMillis != nil && (expiresMillis == nil || *expiresMillis > *before.ExpiresMillis)
		if longer {
			if _, err := checkGrant(ctx, tx, c, RoleGrant{Role: b.Role, Environment: b.Environment,
				ExpiresMillis: expiresMillis}, atBinding()); err != nil {
				return err
			}
		}
		if !longer && (expiresMillis == nil || before.ExpiresMillis != nil && *expiresMillis == *before.ExpiresMillis) {
			return nil
		}
		if err := setBindingExpiry(ctx, tx, c.Team, b.ID, expiresMillis); err != nil {
			return err
		}
		if err := afterBindingEnded(ctx, tx, c.Team, b); err != nil {
			return err
		}
		return audit.Record(ctx, tx, c.Now, bindingEvent(c, b.ID, "role_binding.update", bindingState(before),
			bindingState(b)))
	})
	return b, err
}

// DeleteBinding revokes a role of a member of the actor's team, from their next request on. An identity provider that
// gave the role gives it again at their next sign-in if their groups still map to it. DeleteBinding returns not_found,
// last_owner, and forbidden if the actor may not decide about owners.
func (s *Service) DeleteBinding(ctx context.Context, actor access.Principal, bindingID string) error {
	return s.ChangeRights(ctx, actor, func(tx *sql.Tx, c Change) error {
		b, err := s.changeable(ctx, tx, c, bindingID)
		if err != nil {
			return err
		}
		if err := deleteBinding(ctx, tx, c.Team, b.ID); err != nil {
			return err
		}
		if err := afterBindingEnded(ctx, tx, c.Team, b); err != nil {
			return err
		}
		return audit.Record(ctx, tx, c.Now, bindingEvent(c, b.ID, "role_binding.delete", bindingState(b), nil))
	})
}

// changeable returns a binding that the actor may change or remove, in the version that the request is for.
func (s *Service) changeable(ctx context.Context, tx *sql.Tx, c Change, bindingID string) (Binding, error) {
	if err := c.Require(access.RolesWrite); err != nil {
		return Binding{}, err
	}
	b, err := s.requireBinding(ctx, tx, c.Team, bindingID)
	if err != nil {
		return b, err
	}
	if b.Role == access.Owner {
		if err := c.Require(access.OwnersWrite); err != nil {
			return b, err
		}
	}
	return b, etag.Check(ctx, b.Version())
}

// afterBindingEnded is called after a binding was made to end: the previous release must not go on allowing what its
// membership says, and the team must keep an owner.
func afterBindingEnded(ctx context.Context, tx *sql.Tx, team id.Team, b Binding) error {
	if err := forgetMembershipRole(ctx, tx, team, b.PrincipalID); err != nil || b.Role != access.Owner {
		return err
	}
	return requireLastingOwner(ctx, tx, team)
}

// requireLastingOwner returns last_owner where the transaction leaves no owner whom hasLastingOwner finds.
func requireLastingOwner(ctx context.Context, tx *sql.Tx, team id.Team) error {
	kept, err := hasLastingOwner(ctx, tx, team)
	if err == nil && !kept {
		err = apperr.New(apperr.CodeLastOwner, "The team would be left without a permanent owner")
	}
	return err
}

func bindingEvent(c Change, bindingID, action string, before, after audit.State) audit.Event {
	return audit.Event{
		Team: c.Team, Actor: c.Actor, Action: action, TargetType: "role_binding", TargetID: bindingID, Before: before,
		After: after,
	}
}

func bindingState(b Binding) audit.State {
	s := audit.State{"principal_type": b.PrincipalKind, "principal_id": b.PrincipalID, "role": b.Role,
		"environment_id": nil, "expires_at": nil}
	if b.Environment != "" {
		s["environment_id"] = b.Environment
	}
	if b.ExpiresMillis != nil {
		s["expires_at"] = clock.FromMillis(*b.ExpiresMillis)
	}
	return s
}
