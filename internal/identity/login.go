package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sallyport/internal/platform/secretbox"
)

// SignIn is the result of a sign-in or of a refresh.
type SignIn struct {
	Profile
	Session Session
	// Token is the access token; it works for TokenLifetime.
	Token secretbox.Secret
	// Refresh is exchanged for the next access token. It is empty where there is no new one.
	Refresh RefreshToken
}

var errLogin = errors.New("wrong e-mail address or password")

// Login signs a user in by password and starts a session. replaced is the refresh token that the client had until now, if
// any; its session ends. An unknown address and a wrong password get the same answer, unauthorized, after the same work.
// After many failures of the account or from the client's address it returns rate_limited, and unavailable when many sign
// in at once.
func (s *Service) Login(ctx context.Context, c Client, email string, password secretbox.Secret, replaced RefreshToken) (SignIn, error) {
	m, err := s.material()
	if err != nil {
		return SignIn{}, err
	}
	a, known, hash, err := s.findAccount(ctx, email)
	if err != nil {
		return SignIn{}, err
	}
	at, err := s.newAttempt(ctx, m.pepper, email, c)
	if err != nil {
		return SignIn{}, err
	}
	right, err := s.try(ctx, at, hash, password)
	if err != nil {
		return SignIn{}, err
	}
	if !known || !right {
		return SignIn{}, errUnauthorized(errLogin)
	}
	current, err := s.currentHash(ctx, a, hash, password)
	if err != nil {
		return SignIn{}, err
	}
	keys, err := s.tokens(ctx)
	if err != nil {
		return SignIn{}, err
	}
	var in SignIn
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		in = SignIn{}
		unchanged, err := replaceHash(ctx, tx, a.user.ID, a.passwordHash, current)
		if err != nil {
			return err
		}
		if !unchanged {
			return errUnauthorized(errChanged)
		}
		_, member, err := readMember(ctx, tx, a.team, a.user.ID)
		if err != nil {
			return err
		}
		if !member {
			return errUnauthorized(errNoMember)
		}
		if err := s.endFamily(ctx, tx, m, c, replaced); err != nil {
			return err
		}
		if in.Session, in.Refresh, err = s.startSession(ctx, tx, m, c, a.user, a.team); err != nil {
			return err
		}
		if err := forgive(ctx, tx, at); err != nil {
			return err
		}
		return s.complete(ctx, tx, keys, &in, sessionKey{id: in.Session.ID, user: a.user, team: a.team})
	})
	if err != nil {
		return SignIn{}, err
	}
	return in, nil
}

var errChanged = errors.New("the password was changed during the sign-in")

// findAccount returns the account of an e-mail address, and the hash to check a password against: where there is no account,
// one that none matches.
func (s *Service) findAccount(ctx context.Context, email string) (a account, known bool, hash passwordHash, err error) {
	if address, ok := normalizeEmail(email); ok {
		if a, known, err = readAccount(ctx, s.db.Read(), address); err != nil {
			return account{}, false, passwordHash{}, err
		}
	}
	if !known {
		return account{}, false, unknownUser(), nil
	}
	if hash, err = parseHash(a.passwordHash); err != nil {
		return account{}, false, passwordHash{}, fmt.Errorf("user %s: %w", a.user.ID, err)
	}
	return a, true, hash, nil
}

// currentHash returns the hash to store for a password that was found right: the one there is, or another when that was
// made under other costs than today's.
func (s *Service) currentHash(ctx context.Context, a account, hash passwordHash, password secretbox.Secret) (string, error) {
	if hash.params == currentParams() {
		return a.passwordHash, nil
	}
	return s.hasher.hash(ctx, password)
}
