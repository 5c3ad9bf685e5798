// Package operator does the work of commands on a database, next to a server that may be running: accounts, API keys,
// the keyset, backups, checks of the installation and of saved webhooks.
package operator

import (
	"context"

	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/secretbox"
)

// CreateOwner adds an owner, and makes the team where there is none: the command line's twin of setting up. An empty
// teamName is the default for a new team, and any for one that exists.
func (s *Store) CreateOwner(ctx context.Context, teamName, email string,
	password secretbox.Secret) (members.Profile, error) {
	return s.Identity.Setup.CreateOwner(ctx, commandLine(), teamName, email, password)
}

// RotateSigningKey adds a key that access tokens will be signed with, or, where the present one is compromised,
// replaces all.
func (s *Store) RotateSigningKey(ctx context.Context, compromised bool) (accesstokens.NewKey, error) {
	return s.Identity.AccessTokens.Rotate(ctx, commandLine(), compromised)
}

// ResetPassword gives a user another password and ends their sessions.
func (s *Store) ResetPassword(ctx context.Context, email string, password secretbox.Secret) error {
	return s.Identity.SignIn.ResetPassword(ctx, commandLine(), email, password)
}

// ResetTOTP removes the authenticator app of a user who has lost it, and ends their sessions.
func (s *Store) ResetTOTP(ctx context.Context, email string) error {
	return s.Identity.SignIn.ResetTOTP(ctx, commandLine(), email)
}
