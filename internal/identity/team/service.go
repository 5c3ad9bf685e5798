// Package team owns the team and its environments: their names, their settings, and how long each environment keeps
// data.
package team

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/module"
)

// Config configures a Service.
type Config struct {
	DB    *db.DB
	Clock clock.Clock
	// PayloadRetentionDays and EventRetentionDays apply to environments that set nothing; 0 means 30 and 90.
	PayloadRetentionDays, EventRetentionDays int
	// Dev accepts http:// for every host that browsers are sent back to.
	Dev bool
	// Contents returns every kind of resource that keeps an environment from being deleted. It is called when one is to be
	// deleted, once all capabilities are built. Without it no environment can be deleted.
	Contents func() []module.Content
	// Ended are called in the transaction that deletes an environment, once it is known to be empty.
	Ended []EnvironmentEnded
}

// EnvironmentEnded removes, in tx, rows that refer to an environment and do not outlive it.
type EnvironmentEnded func(ctx context.Context, tx *sql.Tx, team id.Team, env id.Environment) error

// The defaults where neither an environment nor the configuration sets a value.
const (
	defaultPayloadDays = 30
	defaultEventDays   = 90
)

// Service is the capability. Its methods are safe for concurrent use.
type Service struct {
	db        *db.DB
	clock     clock.Clock
	dev       bool
	contents  func() []module.Content
	ended     []EnvironmentEnded
	defaults  struct{ payload, event int64 }
	retention cache.Cache[id.Environment, Retention]
}

// New returns a Service.
func New(c Config) *Service {
	s := &Service{db: c.DB, clock: c.Clock, dev: c.Dev, contents: c.Contents, ended: c.Ended}
	s.defaults.payload = int64(cmp.Or(c.PayloadRetentionDays, defaultPayloadDays))
	s.defaults.event = int64(cmp.Or(c.EventRetentionDays, defaultEventDays))
	return s
}

var (
	// ErrNone means that the installation has not been set up yet.
	ErrNone = errors.New("there is no team yet; create its owner first")
	// ErrActor means that an API key acts where only users and the service itself may.
	ErrActor = errors.New("only users and the service itself administer a team")

	errNoContents = errors.New("nothing reports what an environment holds, so none can be deleted")
)

// TeamOf returns the team that the actor administers: a user's own, and for the command line the only one there is.
func (s *Service) TeamOf(ctx context.Context, actor access.Principal) (id.Team, error) {
	switch actor.Kind {
	case access.KindUser:
		return actor.Team, nil
	case access.KindSystem:
		t, ok, err := ReadOnly(ctx, s.db.Read())
		if err != nil {
			return "", err
		}
		if !ok {
			return "", ErrNone
		}
		return t.ID, nil
	case access.KindAPIKey:
		return "", ErrActor
	default:
		return "", ErrActor
	}
}
