package members

import (
	"context"
	"slices"
	"time"

	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Profile is a user in their team.
type Profile struct {
	User User
	Team team.Team
	// Bindings are the roles that hold now, oldest first, and Rights what they allow together.
	Bindings []Binding
	Rights   access.Rights
	// Environments are those in which the user has any permission, oldest first.
	Environments []team.Environment
}

// ReadProfile returns an active member of a team, or unauthorized.
func ReadProfile(ctx context.Context, q db.Querier, teamID id.Team, user string, now time.Time) (Profile, error) {
	m, ok, err := readMember(ctx, q, teamID, user, now)
	if err != nil {
		return Profile{}, err
	}
	if !ok {
		return Profile{}, apperr.Unauthorized(errNoMember)
	}
	t, _, err := team.Read(ctx, q, teamID)
	if err != nil {
		return Profile{}, err
	}
	environments, err := team.ReadEnvironments(ctx, q, teamID)
	if err != nil {
		return Profile{}, err
	}
	who := m.principal("")
	environments = slices.DeleteFunc(environments, func(e team.Environment) bool { return !who.Enters(e.ID) })
	return Profile{User: m.user, Team: t, Bindings: m.bindings, Rights: who.Rights, Environments: environments}, nil
}
