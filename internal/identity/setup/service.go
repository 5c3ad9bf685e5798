// Package setup creates the team and first owner of a new installation: by a set-up token, by the command line, or in
// development mode.
package setup

import (
	"sallyport/internal/identity/apikeys"
	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Config configures a Service.
type Config struct {
	DB           *db.DB
	Clock        clock.Clock
	Installation installation.Installation
	Team         *team.Service
	Members      *members.Service
	SignIn       *signin.Service
	Keys         *apikeys.Service
}

// Service is the capability. Its methods are safe for concurrent use.
type Service struct {
	db           *db.DB
	clock        clock.Clock
	installation installation.Installation
	team         *team.Service
	members      *members.Service
	signIn       *signin.Service
	keys         *apikeys.Service
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{db: c.DB, clock: c.Clock, installation: c.Installation, team: c.Team, members: c.Members,
		signIn: c.SignIn, keys: c.Keys}
}
