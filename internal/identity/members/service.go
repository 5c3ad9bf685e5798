// Package members owns the people of a team and their rights: users, who is a member, roles, and who has which role
// where.
package members

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sallyport/internal/identity/team"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Sessions ends sign-ins of users who lose their place in the team.
type Sessions interface {
	// EndAll ends all sessions of a user in tx, and returns how many.
	EndAll(ctx context.Context, tx *sql.Tx, user string, now time.Time) (int64, error)
}

// Config configures a Service.
type Config struct {
	DB       *db.DB
	Clock    clock.Clock
	Team     *team.Service
	Sessions Sessions
}

// Service is the capability. Its methods are safe for concurrent use.
type Service struct {
	db       *db.DB
	clock    clock.Clock
	team     *team.Service
	sessions Sessions
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{db: c.DB, clock: c.Clock, team: c.Team, sessions: c.Sessions}
}

var errNoMember = errors.New("the user is no member of the team")
