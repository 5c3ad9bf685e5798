// Package identity puts the capabilities of its district together: the team, its people, how they sign in, and API
// keys.
package identity

import (
	"context"

	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/identity/apikeys"
	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/invitations"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/principals"
	"sallyport/internal/identity/setup"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/secretbox"
)

// Config configures the district.
type Config struct {
	DB    *db.DB
	Box   *secretbox.Box
	Clock clock.Clock
	// Installation is that of the database, as installation.Open returned it.
	Installation installation.Installation
	// Issuer is the URL under which the service is reached, without a path: the issuer of access tokens, and the beginning
	// of mailed links.
	Issuer string
	// PayloadRetentionDays and EventRetentionDays apply to environments that set nothing; 0 means 30 and 90.
	PayloadRetentionDays, EventRetentionDays int
	// Dev is development mode.
	Dev bool
	// Mails sends mails; nil means that no mail is sent.
	Mails signin.Mailer
	// Contents returns what keeps environments from being deleted. Without it none can be deleted.
	Contents func() []module.Content
	// Belongings returns what belongs to members; nil if nothing does.
	Belongings func() members.Belongings
	// Derive hashes passwords; nil means Argon2id. Tests take one of less cost.
	Derive signin.DeriveFunc
}

// Services are the capabilities of the district.
type Services struct {
	Team         *team.Service
	Members      *members.Service
	AccessTokens *accesstokens.Service
	SignIn       *signin.Service
	Invitations  *invitations.Service
	Keys         *apikeys.Service
	Setup        *setup.Service
	Principals   *principals.Service
}

// New returns the capabilities. It reads and writes nothing; call EnsureSigningKey before they are used.
func New(c Config) (*Services, error) {
	var err error
	in := c.Installation
	s := &Services{}
	s.Team = team.New(team.Config{DB: c.DB, Clock: c.Clock, PayloadRetentionDays: c.PayloadRetentionDays,
		EventRetentionDays: c.EventRetentionDays, Contents: c.Contents, Dev: c.Dev,
		Ended: []team.EnvironmentEnded{members.ForgetEnvironment}})
	s.Members = members.New(members.Config{DB: c.DB, Clock: c.Clock, Team: s.Team, Sessions: signin.Sessions{},
		Belongings: c.Belongings})
	s.AccessTokens, err = accesstokens.New(accesstokens.Config{DB: c.DB, Box: c.Box, Clock: c.Clock, Issuer: c.Issuer,
		Team: s.Team})
	if err != nil {
		return nil, err
	}
	s.SignIn = signin.New(signin.Config{DB: c.DB, Box: c.Box, Clock: c.Clock, Pepper: in.Pepper, Issuer: c.Issuer,
		Members: s.Members, AccessTokens: s.AccessTokens, Mails: c.Mails, Derive: c.Derive})
	s.Invitations = invitations.New(invitations.Config{DB: c.DB, Clock: c.Clock, Pepper: in.Pepper, Issuer: c.Issuer,
		Team: s.Team, Members: s.Members, SignIn: s.SignIn, Mails: c.Mails})
	s.Keys = apikeys.New(apikeys.Config{DB: c.DB, Clock: c.Clock, Pepper: in.Pepper, Team: s.Team})
	s.Setup = setup.New(setup.Config{DB: c.DB, Clock: c.Clock, Installation: in, Team: s.Team, Members: s.Members,
		SignIn: s.SignIn, Keys: s.Keys})
	s.Principals = principals.New(principals.Config{Team: s.Team, SignIn: s.SignIn, Keys: s.Keys})
	return s, nil
}

// Open opens the installation of a database and returns the capabilities over it, ready for use. dev opens it in
// development mode. Several nodes may call it at the same time.
func Open(ctx context.Context, c Config, dev bool) (*Services, error) {
	var err error
	c.Installation, err = installation.Open(ctx, installation.Config{DB: c.DB, Box: c.Box, Clock: c.Clock, Dev: dev})
	if err != nil {
		return nil, err
	}
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	return s, s.EnsureSigningKey(ctx)
}

// EnsureSigningKey adds a key to sign access tokens with to a database that has none.
func (s *Services) EnsureSigningKey(ctx context.Context) error { return s.AccessTokens.EnsureKey(ctx) }

// MailKinds returns the kind of every mail that the district sends.
func MailKinds() []string { return []string{invitations.MailKind, signin.ResetMail} }
