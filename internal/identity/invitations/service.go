// Package invitations asks people into a team by a link, and makes members of those who accept.
package invitations

import (
	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// MailKind is the kind of the mails that carry an invitation.
const MailKind = "invitation"

// Config configures a Service.
type Config struct {
	DB     *db.DB
	Clock  clock.Clock
	Pepper installation.Pepper
	// Issuer is the URL under which the service is reached, without a path; links begin with it.
	Issuer  string
	Team    *team.Service
	Members *members.Service
	SignIn  *signin.Service
	// Mails sends links by mail; nil means that no mail is sent.
	Mails signin.Mailer
}

// Service is the capability. Its methods are safe for concurrent use.
type Service struct {
	db      *db.DB
	clock   clock.Clock
	pepper  installation.Pepper
	issuer  string
	team    *team.Service
	members *members.Service
	signIn  *signin.Service
	mails   signin.Mailer
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{db: c.DB, clock: c.Clock, pepper: c.Pepper, issuer: c.Issuer, team: c.Team, members: c.Members,
		signIn: c.SignIn, mails: c.Mails}
}

func (s *Service) mailsEnabled() bool { return s.mails != nil && s.mails.Enabled() }
