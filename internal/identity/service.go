// Package identity knows who asks: the team, its environments and people, sign-in, and API keys with their grants. Its
// Service is the httpapi.Authenticator.
//
// What decides about a request is at most a few seconds old: a user's session and role are read for each, and a key
// that is used is read again every other second. This process's own changes are in force for the next request.
package identity

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// Options are the settings of the capability.
type Options struct {
	// Issuer is the issuer of access tokens: the URL under which the service is reached, without a path. Tokens are
	// valid only where the issuer is the same.
	Issuer string
	// PayloadRetentionDays and EventRetentionDays hold for environments that set nothing; 0 means 30 and 90.
	PayloadRetentionDays, EventRetentionDays int
}

// What holds where neither an environment nor the configuration sets anything.
const (
	defaultPayloadDays = 30
	defaultEventDays   = 90
)

// Service is the capability. Its methods are safe for concurrent use once Init has returned.
type Service struct {
	db     *db.DB
	box    *secretbox.Box
	clock  clock.Clock
	issuer string
	hasher *hasher
	ready  atomic.Pointer[material]

	keys      keyCache
	uses      keyUses
	verifying verifications
	signing   signingCache
	contents  Contents
	mailer    Mailer
	defaults  struct{ payload, event int64 }
	retention retentionCache
}

// material is what Init reads: the same for the life of the database.
type material struct {
	dev    bool
	pepper []byte
}

var (
	errIssuer  = errors.New("identity needs an issuer")
	errNotInit = errors.New("identity: Init has not succeeded yet")
)

// Issuer is the issuer of access tokens, which is also the origin of the service's own pages.
func (s *Service) Issuer() string { return s.issuer }

// New returns a Service; call Init before anything else.
func New(d *db.DB, box *secretbox.Box, clk clock.Clock, o Options) (*Service, error) {
	if o.Issuer == "" {
		return nil, errIssuer
	}
	s := &Service{db: d, box: box, clock: clk, issuer: o.Issuer, hasher: newHasher()}
	s.defaults.payload = int64(cmp.Or(o.PayloadRetentionDays, defaultPayloadDays))
	s.defaults.event = int64(cmp.Or(o.EventRetentionDays, defaultEventDays))
	return s, nil
}

func (s *Service) material() (*material, error) {
	m := s.ready.Load()
	if m == nil {
		return nil, errNotInit
	}
	return m, nil
}

// ErrNoTeam says that nobody has set the installation up yet.
var ErrNoTeam = errors.New("there is no team yet; create its owner first")

var errActor = errors.New("identity: only users and the service itself administer a team")

// teamOf returns the team that the actor administers: a user's own, and for the command line the only one there is.
func (s *Service) teamOf(ctx context.Context, actor access.Principal) (id.Team, error) {
	switch actor.Kind {
	case access.KindUser:
		return actor.Team, nil
	case access.KindSystem:
		t, ok, err := readTeam(ctx, s.db.Read())
		if err != nil {
			return "", err
		}
		if !ok {
			return "", ErrNoTeam
		}
		return t.ID, nil
	case access.KindAPIKey:
		return "", errActor
	default:
		return "", errActor
	}
}

// lockSetup serialises the transactions that make what exists once.
func (s *Service) lockSetup(ctx context.Context, tx *sql.Tx) error {
	if err := s.db.AdvisoryLock(ctx, tx, db.LockSetup); err != nil {
		return fmt.Errorf("wait for another set-up: %w", err)
	}
	return nil
}
