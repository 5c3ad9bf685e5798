// Package accesstokens signs and verifies the access tokens of users, and owns the keys that sign them.
package accesstokens

import (
	"context"
	"database/sql"
	"errors"

	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
)

// Config configures a Service.
type Config struct {
	DB    *db.DB
	Box   *secretbox.Box
	Clock clock.Clock
	// Issuer is the URL under which the service is reached, without a path. Tokens are valid only where the issuer is the
	// same.
	Issuer string
	Team   *team.Service
}

// Service is the capability. Its methods are safe for concurrent use.
type Service struct {
	db     *db.DB
	box    *secretbox.Box
	clock  clock.Clock
	issuer string
	team   *team.Service
	keys   cache.Timed[*Keys]
}

var errIssuer = errors.New("access tokens need an issuer")

// New returns a Service; call EnsureKey before anything else.
func New(c Config) (*Service, error) {
	if c.Issuer == "" {
		return nil, errIssuer
	}
	s := &Service{db: c.DB, box: c.Box, clock: c.Clock, issuer: c.Issuer, team: c.Team}
	s.keys = cache.Timed[*Keys]{Clock: c.Clock, Load: s.readKeys, Timeout: signingKeyRead}
	return s, nil
}

// EnsureKey adds a signing key to a database that has none, and keeps the keys that it reads. Several nodes may call it
// at the same time.
func (s *Service) EnsureKey(ctx context.Context) error {
	first, err := s.sealedSigningKey(s.clock.Now())
	if err != nil {
		return err
	}
	var keys []storedSigningKey
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := installation.Lock(ctx, tx, s.db); err != nil {
			return err
		}
		keys, err = readSigningKeys(ctx, tx)
		if err != nil || len(keys) > 0 {
			return err
		}
		keys = []storedSigningKey{first}
		return insertSigningKey(ctx, tx, first, s.clock.Now())
	})
	if err != nil {
		return err
	}
	// A second reading would take a connection of its own, which a process that has just begun must first open.
	ring, err := s.openSigningKeys(keys)
	if err != nil {
		return err
	}
	s.keys.Put("", newKeys(s.issuer, ring))
	return nil
}

// sealedColumns lists the columns that a rotation of the keyset encrypts again.
func sealedColumns() []secretbox.Column {
	return []secretbox.Column{{Table: "signing_keys", Column: "private_key", IDColumn: "id"}}
}
