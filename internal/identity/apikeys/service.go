// Package apikeys owns API keys: their secrets, grants, limits and lives, and how they are used.
package apikeys

import (
	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Config configures a Service.
type Config struct {
	DB     *db.DB
	Clock  clock.Clock
	Pepper installation.Pepper
	Team   *team.Service
}

// Service is the capability. Its methods are safe for concurrent use.
type Service struct {
	db     *db.DB
	clock  clock.Clock
	pepper installation.Pepper
	team   *team.Service

	keys      keyCache
	uses      keyUses
	verifying verifications
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{db: c.DB, clock: c.Clock, pepper: c.Pepper, team: c.Team}
}
