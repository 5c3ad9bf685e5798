package identity

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// DefaultTeamName is the name of a team that is created without one.
const DefaultTeamName = "Default"

// Team owns environments, members and keys. An installation has one.
type Team struct {
	ID   id.Team
	Name string
	// CreatedMillis is in Unix milliseconds.
	CreatedMillis int64
}

// User is a person.
type User struct {
	ID string
	// Email is in lower case and unique in the installation.
	Email string
}

// Profile is a user in their team.
type Profile struct {
	User User
	Team Team
	// Bindings are the roles that hold now, oldest first, and Rights what they allow together.
	Bindings []Binding
	Rights   access.Rights
	// Environments are those in which the user has any permission, oldest first.
	Environments []Environment
}

// Profile returns what a signed-in user is told about themselves, and the session of the request.
func (s *Service) Profile(ctx context.Context, actor access.Principal) (Profile, Session, error) {
	p, err := readProfile(ctx, s.db.Read(), actor.Team, actor.ID, s.clock.Now())
	if err != nil {
		return Profile{}, Session{}, err
	}
	current, ok, err := readSession(ctx, s.db.Read(), actor.ID, actor.Session, s.clock.Now())
	if err != nil {
		return Profile{}, Session{}, err
	}
	if !ok {
		return Profile{}, Session{}, apperr.Unauthorized(errSessionEnded)
	}
	return p, current, nil
}

func readProfile(ctx context.Context, q db.Querier, team id.Team, user string, now time.Time) (Profile, error) {
	m, ok, err := readMember(ctx, q, team, user, now)
	if err != nil {
		return Profile{}, err
	}
	if !ok {
		return Profile{}, apperr.Unauthorized(errNoMember)
	}
	environments, err := readEnvironments(ctx, q, team)
	if err != nil {
		return Profile{}, err
	}
	who := m.principal("")
	environments = slices.DeleteFunc(environments, func(e Environment) bool { return !who.Enters(e.ID) })
	return Profile{User: m.user, Team: m.team, Bindings: m.bindings, Rights: who.Rights, Environments: environments}, nil
}

// Team returns the actor's team.
func (s *Service) Team(ctx context.Context, actor access.Principal) (Team, error) {
	team, err := s.teamOf(ctx, actor)
	if err != nil {
		return Team{}, err
	}
	t, ok, err := readTeamByID(ctx, s.db.Read(), team)
	if err == nil && !ok {
		err = apperr.NotFound("team")
	}
	return t, err
}

// NameFaults returns what is wrong with a team's or a key's name, at the location "name".
func NameFaults(name string) []apperr.Detail {
	var f apperr.Faults
	checkName(&f, "name", name)
	return f.Details()
}

// RenameTeam gives the actor's team another name and returns it. The name that it has changes nothing. It returns
// validation_error for a name that breaks a rule.
func (s *Service) RenameTeam(ctx context.Context, actor access.Principal, name string) (Team, error) {
	if faults := NameFaults(name); faults != nil {
		return Team{}, apperr.Invalid(faults...)
	}
	team, err := s.teamOf(ctx, actor)
	if err != nil {
		return Team{}, err
	}
	var t Team
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		before, ok, err := readTeamByID(ctx, tx, team)
		if err != nil {
			return err
		}
		if !ok {
			return apperr.NotFound("team")
		}
		t = before
		t.Name = name
		changed, err := renameTeam(ctx, tx, team, name)
		if err != nil {
			return err
		}
		if !changed {
			return nil
		}
		return audit.Record(ctx, tx, s.clock.Now(), audit.Event{
			Team: team, Actor: actor, Action: "team.update", TargetType: "team", TargetID: string(team),
			Before: audit.State{"name": before.Name}, After: audit.State{"name": name},
		})
	})
	return t, err
}
