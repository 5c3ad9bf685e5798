package signin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

// SignIn is the result of a sign-in or of a refresh.
type SignIn struct {
	members.Profile
	Session Session
	// Token is the access token; it works for TokenLifetime.
	Token secretbox.Secret
	// Refresh is exchanged for the next access token. It is empty where there is no new one.
	Refresh RefreshToken
}

var errLogin = errors.New("wrong e-mail address or password")

// notSignedIn is the 401 of a sign-in. Its text is the same for every reason.
func notSignedIn(cause error) error {
	return apperr.Wrap(apperr.CodeUnauthorized, "The e-mail address or the password is wrong", cause)
}

// Credentials are the user's input to a sign-in.
type Credentials struct {
	Email    string
	Password secretbox.Secret
	// Code is of the user's authenticator app, or a recovery code; empty where the user has no app.
	Code secretbox.Secret
}

// Login signs a user in by password and starts a session. replaced is the refresh token that the client had until now,
// if any; its session ends. An unknown address and a wrong password get the same response, unauthorized, after the same
// work. After many failures of the account or from the client's address Login returns rate_limited, and unavailable
// during many concurrent sign-ins.
//
// Only a client with the right password learns whether the account has an authenticator app. It gets totp_required
// without a code, totp_invalid with a code that is wrong or was used before, and rate_limited after many wrong codes.
func (s *Service) Login(ctx context.Context, c access.Client, with Credentials, replaced RefreshToken) (SignIn, error) {
	keys, err := s.tokens.Keys(ctx)
	if err != nil {
		return SignIn{}, err
	}
	var in SignIn
	err = s.authenticate(ctx, c, with, func(tx *sql.Tx, a *members.Account, methods []string) error {
		in = SignIn{}
		if err := s.sessions.endFamily(ctx, tx, c, replaced); err != nil {
			return err
		}
		k := sessionKey{user: a.User, team: a.Team}
		var err error
		if in.Session, in.Refresh, err = s.sessions.startSession(ctx, tx, c, k, methods); err != nil {
			return err
		}
		k.id = in.Session.ID
		return s.completeSignIn(ctx, tx, keys, &in, k)
	})
	if err != nil {
		return SignIn{}, err
	}
	return in, nil
}

// keepAttemptCounted handles an attempt with the right password and without the right second factor. It stays counted
// for the account, so that a person with the password cannot try codes faster than passwords. An attempt without a code
// is not counted for the address, or the sign-ins of one office would add up.
func keepAttemptCounted(ctx context.Context, tx *sql.Tx, at Attempt, refused error) error {
	if at.address == nil || !apperr.Is(refused, apperr.CodeTOTPRequired) {
		return nil
	}
	return uncountFailure(ctx, tx, *at.address)
}

var errChanged = errors.New("the password was changed during the sign-in")

// findAccount returns the account of an e-mail address, and the hash to check a password against: where there is no
// account, one that none matches.
func (s *Service) findAccount(ctx context.Context,
	email string) (a members.Account, known bool, hash passwordHash, err error) {
	if address, ok := members.NormalizeEmail(email); ok {
		if a, known, err = members.ReadAccount(ctx, s.db.Read(), address); err != nil {
			return members.Account{}, false, passwordHash{}, err
		}
	}
	if !known {
		return members.Account{}, false, unknownUser(), nil
	}
	if hash, err = parseHash(a.PasswordHash); err != nil {
		return members.Account{}, false, passwordHash{}, fmt.Errorf("user %s: %w", a.User.ID, err)
	}
	return a, true, hash, nil
}

// currentHash returns the hash to store for a password that was found right: the one there is, or another when that was
// made under other costs than today's.
func (h *hasher) currentHash(ctx context.Context, a members.Account, hash passwordHash,
	password secretbox.Secret) (string, error) {
	if hash.params == currentParams() {
		return a.PasswordHash, nil
	}
	return h.hash(ctx, password)
}
