package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sallyport/internal/platform/secretbox"
)

// Session is the result of a sign-in.
type Session struct {
	Profile
	// Token is the access token; it works for TokenLifetime.
	Token secretbox.Secret
}

var errLogin = errors.New("wrong e-mail address or password")

// Login signs a user in by password. An unknown address and a wrong password get the same answer, unauthorized, after the
// same work. When many sign in at once it returns unavailable.
func (s *Service) Login(ctx context.Context, email string, password secretbox.Secret) (Session, error) {
	m, err := s.material()
	if err != nil {
		return Session{}, err
	}
	a, ok, err := s.authenticate(ctx, email, password)
	if err != nil {
		return Session{}, err
	}
	if !ok {
		return Session{}, errUnauthorized(errLogin)
	}
	member, ok, err := readMember(ctx, s.db.Read(), a.team, a.user.ID)
	if err != nil {
		return Session{}, err
	}
	if !ok {
		return Session{}, errUnauthorized(errNoMember)
	}
	environments, err := readEnvironments(ctx, s.db.Read(), member.team.ID)
	if err != nil {
		return Session{}, err
	}
	token, err := m.tokens.sign(s.clock.Now(), member.user.ID, member.team.ID)
	if err != nil {
		return Session{}, err
	}
	return Session{
		Profile: Profile{User: member.user, Team: member.team, Role: member.role, Environments: environments},
		Token:   secretbox.Secret(token),
	}, nil
}

// authenticate returns the account if the password is its own. A hash made with other costs than today's is replaced.
func (s *Service) authenticate(ctx context.Context, email string, password secretbox.Secret) (account, bool, error) {
	var a account
	known := false
	hash := unknownUser()
	if address, ok := normalizeEmail(email); ok {
		var err error
		if a, known, err = readAccount(ctx, s.db.Read(), address); err != nil {
			return account{}, false, err
		}
	}
	if known {
		var err error
		if hash, err = parseHash(a.passwordHash); err != nil {
			return account{}, false, fmt.Errorf("user %s: %w", a.user.ID, err)
		}
	}
	right, err := s.hasher.verify(ctx, hash, password)
	if err != nil {
		return account{}, false, err
	}
	if !known || !right {
		return account{}, false, nil
	}
	if hash.params != currentParams() {
		if err := s.rehash(ctx, a, password); err != nil {
			return account{}, false, err
		}
	}
	return a, true, nil
}

// rehash stores the same password under today's costs, unless it was changed meanwhile. It ends no sign-in.
func (s *Service) rehash(ctx context.Context, a account, password secretbox.Secret) error {
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		return replaceHash(ctx, tx, a.user.ID, a.passwordHash, hash)
	})
}
