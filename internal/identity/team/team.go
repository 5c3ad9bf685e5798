package team

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"unicode/utf8"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/plaintext"
)

// defaultName is the name of a team that is created without one.
const defaultName = "Default"

// Team owns environments, members and keys. An installation has one.
type Team struct {
	ID   id.Team
	Name string
	// CreatedMillis is in Unix milliseconds.
	CreatedMillis int64
}

// Version identifies what the team shows.
func (t Team) Version() etag.Tag { return etag.Of(t.ID, t.Name) }

// Get returns the actor's team.
func (s *Service) Get(ctx context.Context, actor access.Principal) (Team, error) {
	team, err := s.TeamOf(ctx, actor)
	if err != nil {
		return Team{}, err
	}
	t, ok, err := Read(ctx, s.db.Read(), team)
	if err == nil && !ok {
		err = apperr.NotFound("team")
	}
	return t, err
}

// MaxNameCharacters bounds the names of teams, roles and keys.
const MaxNameCharacters = 100

// CheckName adds the validation errors of a name to f: every engine must be able to store it, and a line to show it.
func CheckName(v *apperr.Violations, location, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		v.Add(location, "required", "must not be blank")
	case utf8.RuneCountInString(name) > MaxNameCharacters:
		v.Add(location, "max_length", fmt.Sprintf("must have at most %d characters", MaxNameCharacters))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, plaintext.IsControl):
		v.Add(location, "pattern", "must not hold control characters")
	}
}

// NameViolations returns the validation errors of a team's name, at the location "name".
func NameViolations(name string) []apperr.Detail {
	var v apperr.Violations
	CheckName(&v, "name", name)
	return v.Details()
}

// Rename gives the actor's team another name and returns it. The name that it has changes nothing. It returns
// validation_error for a name that breaks a rule, and precondition_failed.
func (s *Service) Rename(ctx context.Context, actor access.Principal, name string) (Team, error) {
	if violations := NameViolations(name); violations != nil {
		return Team{}, apperr.Invalid(violations...)
	}
	team, err := s.TeamOf(ctx, actor)
	if err != nil {
		return Team{}, err
	}
	var t Team
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		before, ok, err := lockTeam(ctx, tx, team, s.db.ForUpdate())
		if err != nil {
			return err
		}
		if !ok {
			return apperr.NotFound("team")
		}
		if err := etag.Check(ctx, before.Version()); err != nil {
			return err
		}
		t = before
		if name == before.Name {
			return nil
		}
		t.Name = name
		if err := renameTeam(ctx, tx, t); err != nil {
			return err
		}
		return audit.Record(ctx, tx, s.clock.Now(), audit.Event{
			Team: team, Actor: actor, Action: "team.update", TargetType: "team", TargetID: string(team),
			Before: audit.State{"name": before.Name}, After: audit.State{"name": t.Name},
		})
	})
	return t, err
}

// Create adds the installation's team in tx, with the environments development and production. The caller holds the
// lock of the installation and knows that there is no team.
func (s *Service) Create(ctx context.Context, tx *sql.Tx, actor access.Principal, name string) (Team, error) {
	now := s.clock.Now()
	t := Team{ID: id.Team(id.New(id.PrefixTeam)), Name: cmp.Or(name, defaultName), CreatedMillis: clock.Millis(now)}
	if err := insertTeam(ctx, tx, t); err != nil {
		return Team{}, err
	}
	err := audit.Record(ctx, tx, now, audit.Event{
		Team: t.ID, Actor: actor, Action: "team.create", TargetType: "team", TargetID: string(t.ID),
		After: audit.State{"name": t.Name},
	})
	if err != nil {
		return Team{}, err
	}
	for _, e := range []NewEnvironment{{Name: Development, Type: Test}, {Name: Production, Type: Live}} {
		if _, err := addEnvironment(ctx, tx, actor, t.ID, e, now); err != nil {
			return Team{}, err
		}
	}
	return t, nil
}
