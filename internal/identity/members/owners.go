package members

import (
	"context"
	"database/sql"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// AddOwner adds a user with the role owner to a team, as part of a transaction. It returns ErrEmailTaken.
func (s *Service) AddOwner(ctx context.Context, tx *sql.Tx, actor access.Principal, t team.Team, address,
	passwordHash string) (p Profile, err error) {
	p = Profile{User: User{ID: id.New(id.PrefixUser), Email: address}, Team: t, Rights: access.Owner.Rights()}
	if p.Environments, err = team.ReadEnvironments(ctx, tx, t.ID); err != nil {
		return Profile{}, err
	}
	now := s.clock.Now()
	if err := AddUser(ctx, tx, p.User, passwordHash, clock.Millis(now)); err != nil {
		if db.IsUniqueViolation(err) {
			return Profile{}, ErrEmailTaken
		}
		return Profile{}, err
	}
	if err := AddMembership(ctx, tx, p.Team.ID, p.User.ID, clock.Millis(now)); err != nil {
		return Profile{}, err
	}
	b := Binding{
		ID: id.New(id.PrefixBinding), PrincipalKind: access.KindUser, PrincipalID: p.User.ID, Role: access.Owner,
		RoleName: string(access.Owner), CreatedMillis: clock.Millis(now), permissions: access.Owner.Permissions(),
	}
	p.Bindings = []Binding{b}
	if err := insertBinding(ctx, tx, p.Team.ID, b); err != nil {
		return Profile{}, err
	}
	return p, audit.Record(ctx, tx, now, audit.Event{
		Team: p.Team.ID, Actor: actor, Action: "user.create", TargetType: "user", TargetID: p.User.ID,
		After: audit.State{"email": address, "role": access.Owner},
	})
}
