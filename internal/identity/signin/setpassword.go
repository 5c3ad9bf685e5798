package signin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

// Limits of a password.
const (
	minPasswordCharacters = 12
	maxPasswordCharacters = 256
)

// ErrNoUser means that no user has the e-mail address.
var ErrNoUser = errors.New("no user has this e-mail address")

// ResetPassword gives the user another password, ends all their sessions and forgets the failed sign-ins of strangers.
// It returns ErrNoUser, and validation_error for a password that breaks a rule.
func (s *Service) ResetPassword(ctx context.Context, actor access.Principal, email string,
	password secretbox.Secret) error {
	var v apperr.Violations
	CheckPassword(&v, "password", password, email)
	if err := v.Err(); err != nil {
		return err
	}
	address, ok := members.NormalizeEmail(email)
	if !ok {
		return ErrNoUser
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		a, ok, err := members.ReadAccount(ctx, tx, address)
		if err != nil {
			return err
		}
		if !ok {
			return ErrNoUser
		}
		return s.resetPassword(ctx, tx, actor, a, hash, password)
	})
}

// ReplacePassword gives a user another password, of which hash is the hash, as part of a transaction. It ends the
// user's sessions, of which it returns the number, and forgets the failed sign-ins of strangers.
func (s *Service) ReplacePassword(ctx context.Context, tx *sql.Tx, u members.User, hash string) (ended int64,
	err error) {
	now := s.clock.Now()
	if err := setPassword(ctx, tx, u.ID, hash, clock.Millis(now)); err != nil {
		return 0, err
	}
	if ended, err = endSessions(ctx, tx, u.ID, "", now); err != nil {
		return 0, err
	}
	return ended, forgetFailures(ctx, tx, accountBucket(s.pepper, u.Email, ""))
}

// setPassword stores the hash of another password. Links that were mailed to choose one work no more.
func setPassword(ctx context.Context, tx *sql.Tx, user, hash string, nowMillis int64) error {
	if err := members.SetPasswordHash(ctx, tx, user, hash, nowMillis); err != nil {
		return err
	}
	return deleteResets(ctx, tx, user)
}

// resetPassword is ReplacePassword for an account, with its audit event.
func (s *Service) resetPassword(ctx context.Context, tx *sql.Tx, actor access.Principal, a members.Account,
	hash string, password secretbox.Secret) error {
	now := s.clock.Now()
	ended, err := s.ReplacePassword(ctx, tx, a.User, hash)
	if err != nil {
		return err
	}
	return audit.Record(ctx, tx, now, audit.Event{
		Team: a.Team, Actor: actor, Action: "user.reset_password", TargetType: "user", TargetID: a.User.ID,
		Details: audit.State{"password": password, "sessions_ended": ended},
	})
}

// CheckPassword adds a validation error to f for a password that breaks a rule. It asks for length and for nothing
// else, but refuses the e-mail address, which is the first guess of all.
func CheckPassword(v *apperr.Violations, location string, password secretbox.Secret, email string) {
	p := password.Reveal()
	switch n := utf8.RuneCountInString(p); {
	case n < minPasswordCharacters:
		v.Add(location, "min_length", fmt.Sprintf("must have at least %d characters", minPasswordCharacters))
	case n > maxPasswordCharacters:
		v.Add(location, "max_length", fmt.Sprintf("must have at most %d characters", maxPasswordCharacters))
	case strings.EqualFold(p, email):
		v.Add(location, "not_email", "must not be the e-mail address")
	}
}

// HashPassword returns the hash of a password, to be stored. It waits for its turn, and returns unavailable when many
// wait already.
func (s *Service) HashPassword(ctx context.Context, password secretbox.Secret) (string, error) {
	return s.hasher.hash(ctx, password)
}

// HasPassword reports whether an e-mail address and a password are those of a user.
func (s *Service) HasPassword(ctx context.Context, email string, password secretbox.Secret) (bool, error) {
	_, known, hash, err := s.findAccount(ctx, email)
	if err != nil {
		return false, err
	}
	right, err := s.hasher.verify(ctx, hash, password)
	return known && right, err
}
