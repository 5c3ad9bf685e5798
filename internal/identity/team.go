package identity

import (
	"context"
	"slices"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// The environments that every team begins with.
const (
	Development = "development"
	Production  = "production"
)

// DefaultTeamName is the name of a team that is created without one.
const DefaultTeamName = "Default"

// Team owns environments, members and keys. An installation has one.
type Team struct {
	ID   id.Team
	Name string
}

// Environment separates the data of one purpose from that of others.
type Environment struct {
	ID   id.Environment
	Team id.Team
	// Name is unique in the team.
	Name string
}

// User is a person.
type User struct {
	ID string
	// Email is in lower case and unique in the installation.
	Email string
}

// Profile is a user in their team.
type Profile struct {
	User         User
	Team         Team
	Role         access.Role
	Environments []Environment
}

// FindEnvironment returns the environment of the actor's team with that id or name.
func (s *Service) FindEnvironment(ctx context.Context, actor access.Principal, idOrName string) (Environment, error) {
	list, err := s.Environments(ctx, actor)
	if err != nil {
		return Environment{}, err
	}
	i := slices.IndexFunc(list, func(e Environment) bool { return string(e.ID) == idOrName || e.Name == idOrName })
	if i < 0 {
		return Environment{}, apperr.NotFound("environment")
	}
	return list[i], nil
}

// Environments returns the environments of the actor's team, oldest first.
func (s *Service) Environments(ctx context.Context, actor access.Principal) ([]Environment, error) {
	team, err := s.teamOf(ctx, actor)
	if err != nil {
		return nil, err
	}
	return readEnvironments(ctx, s.db.Read(), team)
}

// Profile returns what a signed-in user is told about themselves.
func (s *Service) Profile(ctx context.Context, actor access.Principal) (Profile, error) {
	m, ok, err := readMember(ctx, s.db.Read(), actor.Team, actor.ID)
	if err != nil {
		return Profile{}, err
	}
	if !ok {
		return Profile{}, errUnauthorized(errNoMember)
	}
	environments, err := readEnvironments(ctx, s.db.Read(), actor.Team)
	if err != nil {
		return Profile{}, err
	}
	return Profile{User: m.user, Team: m.team, Role: m.role, Environments: environments}, nil
}
