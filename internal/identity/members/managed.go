package members

import (
	"context"
	"database/sql"
	"slices"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// GivenRole is a role and where it holds.
type GivenRole struct {
	Role access.Role
	// Environment is empty for the whole team.
	Environment id.Environment
}

// GiveManaged makes the roles that a provider gives the actor those that it names now, in tx. A role that people gave
// stays as it is.
func (s *Service) GiveManaged(ctx context.Context, tx *sql.Tx, actor access.Principal, provider string,
	roles []GivenRole) error {
	has, err := readManaged(ctx, tx, actor.Team, provider, actor.ID)
	if err != nil {
		return err
	}
	want := map[GivenRole]bool{}
	for _, r := range roles {
		want[r] = true
	}
	for _, b := range has {
		r := GivenRole{Role: b.Role, Environment: b.Environment}
		if want[r] {
			delete(want, r)
			continue
		}
		if err := s.takeManaged(ctx, tx, actor, provider, b); err != nil {
			return err
		}
	}
	now := s.clock.Now()
	if err := forgetExpired(ctx, tx, actor.Team, actor.ID, now); err != nil {
		return err
	}
	for _, r := range roles {
		if !want[r] {
			continue
		}
		// The role or environment of the mapping may be gone by now.
		if ok, err := givable(ctx, tx, actor.Team, r); err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		b := Binding{ID: id.New(id.PrefixBinding), PrincipalKind: access.KindUser, PrincipalID: actor.ID, Role: r.Role,
			Environment: r.Environment, CreatedMillis: clock.Millis(now), ManagedBy: provider}
		added, err := insertManaged(ctx, tx, actor.Team, b)
		if err != nil {
			return err
		}
		if !added {
			continue
		}
		if err := audit.Record(ctx, tx, now, managedEvent(actor, actor.Team, provider, "role_binding.create", b.ID, nil,
			managedState(b))); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) takeManaged(ctx context.Context, tx *sql.Tx, actor access.Principal, provider string,
	b Binding) error {
	if err := deleteManaged(ctx, tx, b.ID); err != nil {
		return err
	}
	return audit.Record(ctx, tx, s.clock.Now(), managedEvent(actor, actor.Team, provider, "role_binding.delete", b.ID,
		managedState(b), nil))
}

// TakeManaged takes away, in tx, every role that a provider of the actor's team gave, but for those to keep.
func (s *Service) TakeManaged(ctx context.Context, tx *sql.Tx, actor access.Principal, provider string,
	keep []GivenRole) error {
	list, err := readManaged(ctx, tx, actor.Team, provider, "")
	if err != nil {
		return err
	}
	for _, b := range list {
		if slices.Contains(keep, GivenRole{Role: b.Role, Environment: b.Environment}) {
			continue
		}
		if err := s.takeManaged(ctx, tx, actor, provider, b); err != nil {
			return err
		}
	}
	return nil
}

func managedEvent(actor access.Principal, team id.Team, provider, action, binding string, before,
	after audit.State) audit.Event {
	return audit.Event{Team: team, Actor: actor, Action: action, TargetType: "role_binding", TargetID: binding,
		Before: before, After: after, Details: audit.State{"sso_provider_id": provider}}
}

func managedState(b Binding) audit.State {
	state := audit.State{"principal": map[string]string{"type": string(b.PrincipalKind), "id": b.PrincipalID},
		"role": b.Role, "environment_id": nil, "expires_at": nil}
	if b.Environment != "" {
		state["environment_id"] = b.Environment
	}
	return state
}

// CheckGivable checks a role that the actor wants to have given to others: validation_error below the location where
// it, or its environment, does not exist for them, and privilege_escalation where it holds what the actor does not have
// there, as things are in tx.
func (s *Service) CheckGivable(ctx context.Context, tx *sql.Tx, actor access.Principal, r GivenRole,
	location string) error {
	at := grantAt{role: location + ".role", environment: location + ".environment_id"}
	return s.checkGrantOf(ctx, tx, actor, RoleGrant{Role: r.Role, Environment: r.Environment}, at)
}
