// Package signin signs users in and keeps them signed in: by password, with an authenticator app, or by an identity
// provider that vouches for them. It owns sessions, and how passwords are checked, replaced and reset.
package signin

import (
	"context"
	"database/sql"
	"errors"

	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/mails"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
)

// Mailer queues mails.
type Mailer interface {
	// Enabled reports whether there is a mail server.
	Enabled() bool
	// Queue queues a mail in tx, to be sent when that is committed.
	Queue(ctx context.Context, tx *sql.Tx, m mails.Mail) error
	// Drop removes the mails about something that have not been sent.
	Drop(ctx context.Context, tx *sql.Tx, about string) error
}

// ResetMail is the kind of the mails that carry a link to reset a password.
const ResetMail = "password_reset"

// Config configures a Service.
type Config struct {
	DB     *db.DB
	Box    *secretbox.Box
	Clock  clock.Clock
	Pepper installation.Pepper
	// Issuer is the URL under which the service is reached, without a path; mailed links begin with it.
	Issuer       string
	Members      *members.Service
	AccessTokens *accesstokens.Service
	// Mails sends mails; nil means that no mail is sent.
	Mails Mailer
	// Derive hashes passwords; nil means argon2.IDKey. Tests take one of less cost.
	Derive DeriveFunc
}

// Service is the capability. Its methods are safe for concurrent use.
type Service struct {
	db       *db.DB
	box      *secretbox.Box
	clock    clock.Clock
	pepper   installation.Pepper
	issuer   string
	members  *members.Service
	tokens   *accesstokens.Service
	mails    Mailer
	hasher   *hasher
	throttle *throttle
	sessions *sessions
}

// New returns a Service.
func New(c Config) *Service {
	h := newHasher(c.Derive)
	return &Service{db: c.DB, box: c.Box, clock: c.Clock, pepper: c.Pepper, issuer: c.Issuer, members: c.Members,
		tokens: c.AccessTokens, mails: c.Mails, hasher: h,
		throttle: &throttle{db: c.DB, clock: c.Clock, pepper: c.Pepper, hasher: h},
		sessions: &sessions{db: c.DB, clock: c.Clock, pepper: c.Pepper}}
}

// Issuer returns the URL of the service, which is the origin of its own pages.
func (s *Service) Issuer() string { return s.issuer }

func (s *Service) mailsEnabled() bool { return s.mails != nil && s.mails.Enabled() }

var errNoMail = errors.New("no mail server is configured")

func errMailDisabled() error {
	return apperr.Wrap(apperr.CodeMailNotConfigured,
		"This installation sends no mail; ask an operator for another password", errNoMail)
}

// sealedColumns lists the columns that a rotation of the keyset encrypts again.
func sealedColumns() []secretbox.Column {
	return []secretbox.Column{
		{Table: "password_reset_requests", Column: "request", IDColumn: "id"},
		{Table: "user_totp", Column: "secret", IDColumn: "user_id"},
	}
}
