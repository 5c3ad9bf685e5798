package members

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Change is a transaction that changes who may do what.
type Change struct {
	Actor access.Principal
	Team  id.Team
	Now   time.Time
	// bindings are the roles of an actor who is a user.
	bindings []Binding
}

// ChangeRights runs fn in a transaction that excludes all others of its kind, with the actor's rights as they are in
// the transaction. They may have changed since the request was authenticated.
func (s *Service) ChangeRights(ctx context.Context, actor access.Principal,
	fn func(tx *sql.Tx, c Change) error) error {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := s.LockRights(ctx, tx); err != nil {
			return err
		}
		now := s.clock.Now()
		c, err := ChangeBy(ctx, tx, actor, team, now)
		if err != nil {
			return err
		}
		return fn(tx, c)
	})
}

// ActorNow returns the actor with the rights that they have now, or in the transaction that q is.
func ActorNow(ctx context.Context, q db.Querier, actor access.Principal, team id.Team,
	now time.Time) (access.Principal, error) {
	c, err := ChangeBy(ctx, q, actor, team, now)
	return c.Actor, err
}

// ChangeBy returns a change by the actor with the rights that they have now, or in the transaction that q is.
func ChangeBy(ctx context.Context, q db.Querier, actor access.Principal, teamID id.Team,
	now time.Time) (Change, error) {
	switch actor.Kind {
	case access.KindSystem:
		return Change{Actor: actor, Team: teamID, Now: now}, nil
	case access.KindUser:
		m, ok, err := readMember(ctx, q, teamID, actor.ID, now)
		if err != nil {
			return Change{}, err
		}
		if !ok {
			return Change{}, apperr.Unauthorized(errNoMember)
		}
		actor.Rights = m.rights()
		return Change{Actor: actor, Team: teamID, Now: now, bindings: m.bindings}, nil
	case access.KindAPIKey:
		return Change{}, team.ErrActor
	default:
		return Change{}, team.ErrActor
	}
}

// Require returns forbidden unless the actor has the permission in the team.
func (c Change) Require(want access.Permission) error {
	if c.Actor.HasIn("", want) {
		return nil
	}
	return apperr.New(apperr.CodeForbidden, "The user does not have the permission "+string(want))
}

// checkGive returns privilege_escalation unless the actor holds all that they would give, in the environment or, where
// env is empty, in the team, for as long as they would give it: until a time in Unix milliseconds, nil for ever.
// Otherwise a role that ends would be the way to one that does not.
func (c Change) checkGive(env id.Environment, list []access.Permission, untilMillis *int64) error {
	if err := MayGive(c.Actor, env, list); err != nil || c.Actor.Kind != access.KindUser {
		return err
	}
	lasting := member{bindings: slices.DeleteFunc(slices.Clone(c.bindings), func(b Binding) bool {
		return b.endsBefore(untilMillis)
	})}.rights()
	missing, found := lasting.Missing(env, list)
	if !found {
		return nil
	}
	return apperr.New(apperr.CodePrivilegeEscalation, "You cannot grant "+string(missing)+scopeName(env)+
		" for longer than you hold it yourself")
}

// MayGive returns privilege_escalation unless the actor holds all of the permissions in the environment or, where env
// is empty, in the team.
func MayGive(actor access.Principal, env id.Environment, list []access.Permission) error {
	i := slices.IndexFunc(list, func(p access.Permission) bool { return !actor.HasIn(env, p) })
	if i < 0 {
		return nil
	}
	return apperr.New(apperr.CodePrivilegeEscalation, "You cannot grant "+string(list[i])+scopeName(env)+
		", which you do not hold yourself")
}

func scopeName(env id.Environment) string {
	if env == "" {
		return " in the team"
	}
	return " in the environment"
}

// CheckHeld returns privilege_escalation unless the actor holds each of the permissions without an end, in the
// environment or, if env is empty, in the team. It is for changes that pass on rights without an end. The rights are
// those that the actor has in the transaction. The service itself holds every permission.
func (s *Service) CheckHeld(ctx context.Context, tx *sql.Tx, actor access.Principal, env id.Environment,
	permissions ...access.Permission) error {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return err
	}
	c, err := ChangeBy(ctx, tx, actor, team, s.clock.Now())
	if err != nil {
		return err
	}
	return c.checkGive(env, permissions, nil)
}

// RoleGrant is a role to be given: by a binding now, or by an invitation or a mapping of groups later.
type RoleGrant struct {
	Role access.Role
	// Environment is where the role is to hold; empty for the whole team.
	Environment id.Environment
	// ExpiresMillis is when it ends, in Unix milliseconds; nil for never.
	ExpiresMillis *int64
}

// CheckGrant returns nil when the actor may give the role, else validation_error for a role or an environment that does
// not exist or that do not go together (at the locations "role", "scope.environment_id" and "expires_at"), and
// privilege_escalation where the role brings what the actor does not hold there, or not for as long. A grant that is
// stored for later, as an invitation, is checked when it is stored, and by Give when it is carried out: its giver may
// have lost their rights in the meantime.
func (c Change) CheckGrant(ctx context.Context, q db.Querier, g RoleGrant) error {
	_, err := checkGrant(ctx, q, c, g, atBinding())
	return err
}

func (s *Service) checkGrantOf(ctx context.Context, q db.Querier, actor access.Principal, g RoleGrant,
	at grantAt) error {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return err
	}
	c, err := ChangeBy(ctx, q, actor, team, s.clock.Now())
	if err != nil {
		return err
	}
	_, err = checkGrant(ctx, q, c, g, at)
	return err
}

// grantAt says where in a request the parts of a RoleGrant are.
type grantAt struct{ role, environment, expiry string }

func atBinding() grantAt {
	return grantAt{role: "role", environment: "scope.environment_id", expiry: "expires_at"}
}
