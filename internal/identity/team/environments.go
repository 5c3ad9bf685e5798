package team

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// The environments that every team begins with.
const (
	Development = "development"
	Production  = "production"
)

// EnvironmentType says what is at stake in an environment. The text of its keys shows it; nothing is decided by it.
type EnvironmentType string

// The types.
const (
	Live EnvironmentType = "live"
	Test EnvironmentType = "test"
)

// EnvironmentTypes returns every type.
func EnvironmentTypes() []EnvironmentType { return []EnvironmentType{Live, Test} }

// Schema returns the schema with the types, for the API.
func (EnvironmentType) Schema(oas.Registry) *oas.Schema { return oas.Enum(EnvironmentTypes()) }

// Environment separates the data of one purpose from that of others.
type Environment struct {
	ID   id.Environment
	Team id.Team
	// Name is unique in the team.
	Name string
	// Type is fixed: the keys that the environment has given out show it.
	Type EnvironmentType
	Retention
	// RedirectURLs are those to which the connect page may send browsers back, compared as a whole.
	RedirectURLs []string
	// CreatedMillis is in Unix milliseconds.
	CreatedMillis int64
}

// Version identifies what the environment shows.
func (e Environment) Version() etag.Tag {
	return etag.Of(e.ID, e.Name, e.PayloadDays, e.EventDays, strings.Join(e.RedirectURLs, "\n"))
}

// NewEnvironment describes an environment to create.
type NewEnvironment struct {
	Name string
	Type EnvironmentType
	Retention
}

// EnvironmentChange holds the fields of an environment that a caller may write.
type EnvironmentChange struct {
	// Name is its new name; nil keeps the one it has.
	Name *string
	// RedirectURLs are its new ones; nil keeps those it has.
	RedirectURLs *[]string
	RetentionChange
}

// environmentName is the form of an environment's name, which goes on command lines and into scripts. No id of an
// environment has it, so that a name and an id are never taken for each other.
var environmentName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

func environmentNameViolations(name string) []apperr.Detail {
	if environmentName.MatchString(name) {
		return nil
	}
	return []apperr.Detail{{Location: "name", Rule: "pattern",
		Message: "must be lower-case letters, digits and hyphens, 63 at most, beginning with a letter"}}
}

// FindEnvironment returns the environment of the actor's team with that id or name.
func (s *Service) FindEnvironment(ctx context.Context, actor access.Principal, idOrName string) (Environment, error) {
	list, err := s.Environments(ctx, actor)
	if err != nil {
		return Environment{}, err
	}
	i := slices.IndexFunc(list, func(e Environment) bool { return string(e.ID) == idOrName || e.Name == idOrName })
	if i < 0 {
		return Environment{}, ErrNoEnvironment()
	}
	return list[i], nil
}

// Environments returns the environments of the actor's team, oldest first.
func (s *Service) Environments(ctx context.Context, actor access.Principal) ([]Environment, error) {
	team, err := s.TeamOf(ctx, actor)
	if err != nil {
		return nil, err
	}
	return ReadEnvironments(ctx, s.db.Read(), team)
}

// ListEnvironments returns a page of those environments of the actor's team that they may see. It reads
// page.Request.Fetch rows, which shows page.Cut whether more follow.
func (s *Service) ListEnvironments(ctx context.Context, actor access.Principal, r page.Request) ([]Environment, error) {
	team, err := s.TeamOf(ctx, actor)
	if err != nil {
		return nil, err
	}
	if actor.HasIn("", access.EnvironmentsRead) {
		return listEnvironments(ctx, s.db.Read(), team, nil, r)
	}
	var seen []id.Environment
	for env := range actor.Rights.Environments {
		if actor.HasIn(env, access.EnvironmentsRead) {
			seen = append(seen, env)
		}
	}
	if len(seen) == 0 {
		return nil, nil
	}
	return listEnvironments(ctx, s.db.Read(), team, seen, r)
}

// GetEnvironment returns an environment of the actor's team, not_found, or forbidden for one that the actor may enter
// and not see.
func (s *Service) GetEnvironment(ctx context.Context, actor access.Principal, env id.Environment) (Environment, error) {
	team, err := s.teamOfEnvironment(ctx, actor, env, access.EnvironmentsRead)
	if err != nil {
		return Environment{}, err
	}
	return RequireEnvironment(ctx, s.db.Read(), team, env)
}

// Enter returns the environment if it belongs to the user's team and they have any permission in it, else
// not_found.
func (s *Service) Enter(ctx context.Context, p access.Principal, environment string) (id.Environment, error) {
	if !id.Is(id.PrefixEnvironment, environment) || !p.Enters(id.Environment(environment)) {
		return "", ErrNoEnvironment()
	}
	e, ok, err := ReadEnvironment(ctx, s.db.Read(), p.Team, id.Environment(environment))
	if err != nil {
		return "", err
	}
	if !ok {
		return "", ErrNoEnvironment()
	}
	return e.ID, nil
}

// HadEnvironment returns nil for an environment that belongs to the team, also after its deletion, and otherwise
// not_found. Its audit trail outlives it.
func (s *Service) HadEnvironment(ctx context.Context, team id.Team, env id.Environment) error {
	if !id.Is(id.PrefixEnvironment, string(env)) {
		return ErrNoEnvironment()
	}
	var one int
	err := s.db.Read().QueryRowContext(ctx, `SELECT 1 FROM environments WHERE team_id = $1 AND id = $2`, string(team),
		string(env)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNoEnvironment()
	}
	if err != nil {
		return fmt.Errorf("look for an environment: %w", err)
	}
	return nil
}

// CreateEnvironment adds an environment to the actor's team. It returns validation_error, and environment_exists for a
// name that is taken.
func (s *Service) CreateEnvironment(ctx context.Context, actor access.Principal,
	n NewEnvironment) (Environment, error) {
	violations := environmentNameViolations(n.Name)
	if !slices.Contains(EnvironmentTypes(), n.Type) {
		violations = append(violations, apperr.Detail{Location: "type", Rule: "enum", Message: "must be live or test"})
	}
	violations = append(violations, s.retentionViolations(n.Retention)...)
	if violations != nil {
		return Environment{}, apperr.Invalid(violations...)
	}
	team, err := s.TeamOf(ctx, actor)
	if err != nil {
		return Environment{}, err
	}
	var e Environment
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		e, err = addEnvironment(ctx, tx, actor, team, n, s.clock.Now())
		return err
	})
	return e, err
}

func addEnvironment(ctx context.Context, tx *sql.Tx, actor access.Principal, team id.Team, n NewEnvironment,
	now time.Time) (Environment, error) {
	e := Environment{
		ID: id.Environment(id.New(id.PrefixEnvironment)), Team: team, Name: n.Name, Type: n.Type, Retention: n.Retention,
		RedirectURLs: []string{}, CreatedMillis: clock.Millis(now),
	}
	if err := insertEnvironment(ctx, tx, e); err != nil {
		return Environment{}, orNameTaken(err)
	}
	return e, audit.Record(ctx, tx, now, environmentEvent(actor, e, "environment.create", nil, environmentState(e)))
}

// UpdateEnvironment changes an environment of the actor's team and returns it. A change to the present values changes
// nothing. A changed retention applies to stored data too; removed data does not return. UpdateEnvironment returns
// not_found, validation_error, precondition_failed, and environment_exists for a name that is taken.
func (s *Service) UpdateEnvironment(ctx context.Context, actor access.Principal, env id.Environment,
	c EnvironmentChange) (Environment, error) {
	team, err := s.teamOfEnvironment(ctx, actor, env, access.EnvironmentsWrite)
	if err != nil {
		return Environment{}, err
	}
	var violations []apperr.Detail
	if c.Name != nil {
		violations = environmentNameViolations(*c.Name)
	}
	violations = append(violations, s.redirectViolations(c.RedirectURLs)...)
	var e Environment
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		before, err := s.lockEnvironment(ctx, tx, team, env)
		if err != nil {
			return err
		}
		e = before
		if c == (EnvironmentChange{}) {
			return nil
		}
		if all := slices.Concat(violations, s.retentionViolations(c.apply(before.Retention))); all != nil {
			return apperr.Invalid(all...)
		}
		if err := updateEnvironment(ctx, tx, team, env, c); err != nil {
			return orNameTaken(err)
		}
		if e, err = RequireEnvironment(ctx, tx, team, env); err != nil {
			return err
		}
		if !reflect.DeepEqual(e.Retention, before.Retention) {
			if err := db.Bump(ctx, tx, collection, ""); err != nil {
				return err
			}
		}
		if reflect.DeepEqual(e, before) {
			return nil
		}
		return audit.Record(ctx, tx, s.clock.Now(), environmentEvent(actor, e, "environment.update", environmentState(before),
			environmentState(e)))
	})
	s.retention.Drop(env) // also if the response to a commit was lost
	return e, err
}

// DeleteEnvironment removes an empty environment of the actor's team. It returns not_found, and environment_not_empty
// with the kinds of what it holds. Revoked and expired API keys count until they are deleted.
func (s *Service) DeleteEnvironment(ctx context.Context, actor access.Principal, env id.Environment) error {
	if s.contents == nil {
		return errNoContents
	}
	team, err := s.teamOfEnvironment(ctx, actor, env, access.EnvironmentsWrite)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		now := s.clock.Now()
		e, err := s.lockEnvironment(ctx, tx, team, env)
		if err != nil {
			return err
		}
		// The row is written before anything is counted, so that PostgreSQL makes it wait for those who are adding something
		// that refers to it.
		deleted, err := deleteEnvironment(ctx, tx, team, env, clock.Millis(now))
		if err != nil {
			return err
		}
		if !deleted {
			return ErrNoEnvironment()
		}
		var held []string
		for _, c := range s.contents() {
			has, err := c.Held(ctx, tx, env)
			if err != nil {
				return err
			}
			if has {
				held = append(held, c.Name)
			}
		}
		if len(held) > 0 {
			return apperr.New(apperr.CodeEnvironmentNotEmpty, "The environment still has "+enumerate(held))
		}
		for _, ended := range s.ended {
			if err := ended(ctx, tx, team, env); err != nil {
				return err
			}
		}
		return audit.Record(ctx, tx, now, environmentEvent(actor, e, "environment.delete", environmentState(e), nil))
	})
}

// RequireLive returns not_found for an environment that does not exist or was deleted. The caller calls it after the
// insert of a row that refers to the environment, in the same transaction. On PostgreSQL the insert waits for a
// deletion in progress, and a later deletion waits for the insert and counts the row. SQLite has one writer at a time.
func (*Service) RequireLive(ctx context.Context, tx *sql.Tx, env id.Environment) error {
	live, err := isLive(ctx, tx, env)
	if err == nil && !live {
		err = ErrNoEnvironment()
	}
	return err
}

// teamOfEnvironment is TeamOf for an environment's id, which it checks first, with what the actor may do there: an id
// that cannot exist costs no query.
func (s *Service) teamOfEnvironment(ctx context.Context, actor access.Principal, env id.Environment,
	want access.Permission) (id.Team, error) {
	if !id.Is(id.PrefixEnvironment, string(env)) {
		return "", ErrNoEnvironment()
	}
	if err := actor.RequireIn(env, want); err != nil {
		return "", err
	}
	return s.TeamOf(ctx, actor)
}

// RequireEnvironment returns an environment of a team, or not_found.
func RequireEnvironment(ctx context.Context, q db.Querier, team id.Team, env id.Environment) (Environment, error) {
	e, ok, err := ReadEnvironment(ctx, q, team, env)
	if err == nil && !ok {
		err = ErrNoEnvironment()
	}
	return e, err
}

// lockEnvironment is RequireEnvironment with the row held until the transaction ends. It returns precondition_failed if
// the request is for another version.
func (s *Service) lockEnvironment(ctx context.Context, tx *sql.Tx, team id.Team,
	env id.Environment) (Environment, error) {
	e, ok, err := readEnvironment(ctx, tx, team, env, s.db.ForUpdate())
	switch {
	case err != nil:
		return Environment{}, err
	case !ok:
		return Environment{}, ErrNoEnvironment()
	default:
		return e, etag.Check(ctx, e.Version())
	}
}

// ErrNoEnvironment returns the not_found of an environment.
func ErrNoEnvironment() error { return apperr.NotFound("environment") }

func orNameTaken(err error) error {
	if db.IsUniqueViolation(err) {
		return apperr.New(apperr.CodeEnvironmentExists, "The team already has an environment with this name")
	}
	return err
}

func environmentEvent(actor access.Principal, e Environment, action string, before, after audit.State) audit.Event {
	return audit.Event{
		Team: e.Team, Environment: e.ID, Actor: actor, Action: action, TargetType: "environment", TargetID: string(e.ID),
		Before: before, After: after,
	}
}

func environmentState(e Environment) audit.State {
	return audit.State{"name": e.Name, "type": e.Type, "payload_retention_days": e.PayloadDays,
		"event_retention_days": e.EventDays, "connect_redirect_urls": e.RedirectURLs}
}

// enumerate joins names as in a sentence.
func enumerate(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
