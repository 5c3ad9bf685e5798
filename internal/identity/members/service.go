// Package members owns the people of a team and their rights: users, who is a member, roles, and who has which role
// where.
package members

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Sessions ends sign-ins of users who lose their place in the team.
type Sessions interface {
	// EndAll ends all sessions of a user in tx, and returns how many.
	EndAll(ctx context.Context, tx *sql.Tx, user string, now time.Time) (int64, error)
}

// State says how a user stands in the team.
type State string

// The states.
const (
	Active   State = "active"
	Disabled State = "disabled"
	Removed  State = "removed"
)

// Belongings are what belongs to members, such as the connections of which they alone use the credentials.
type Belongings interface {
	// Follow makes them follow the state of a member of the actor's team, in the transaction that changes it. It returns
	// what is to be called when that is committed.
	Follow(ctx context.Context, tx *sql.Tx, actor access.Principal, user string, state State) (committed func(), err error)
}

// Config configures a Service.
type Config struct {
	DB       *db.DB
	Clock    clock.Clock
	Team     *team.Service
	Sessions Sessions
	// Belongings returns what belongs to members; nil if nothing does. It is called with each change.
	Belongings func() Belongings
}

// Service is the capability. Its methods are safe for concurrent use.
type Service struct {
	db       *db.DB
	clock    clock.Clock
	team     *team.Service
	sessions Sessions
	owned    func() Belongings
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{db: c.DB, clock: c.Clock, team: c.Team, sessions: c.Sessions, owned: c.Belongings}
}

// follow makes what belongs to a member follow their state.
func (s *Service) follow(ctx context.Context, tx *sql.Tx, actor access.Principal, user string, state State,
	committed *func()) error {
	if s.owned == nil {
		return nil
	}
	done, err := s.owned().Follow(ctx, tx, actor, user, state)
	*committed = done
	return err
}

var errNoMember = errors.New("the user is no member of the team")
