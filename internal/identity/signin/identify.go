package signin

import (
	"cmp"
	"context"
	"crypto/hmac"
	"database/sql"
	"time"

	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Identifier finds out once who is at a client, for a page that needs to know it and starts no session. It is safe for
// concurrent use.
type Identifier struct{ svc *Service }

// NewIdentifier returns the Identifier of a Service.
func NewIdentifier(s *Service) Identifier { return Identifier{s} }

// Identify checks who a person is as Login does, with the same limits and responses, and starts no session.
func (i Identifier) Identify(ctx context.Context, c access.Client, with Credentials) (access.Principal, error) {
	var who access.Principal
	err := i.svc.authenticate(ctx, c, with, func(_ *sql.Tx, a *members.Account, _ []string) error {
		who = c.User(a.User.ID, a.User.Email, a.Team)
		return nil
	})
	if err != nil {
		return access.Principal{}, err
	}
	return who, nil
}

// Holder returns the user whom the latest refresh token of a session keeps signed in, and leaves the token as it is. It
// returns unauthorized for any other token.
func (i Identifier) Holder(ctx context.Context, token RefreshToken) (access.Principal, error) {
	s := i.svc
	t, ok := parseRefreshToken(token)
	if !ok {
		return access.Principal{}, apperr.Unauthorized(errRefreshForm)
	}
	f, ok, err := readFamily(ctx, s.db.Read(), t.familyMAC(s.pepper), s.clock.Now())
	if err != nil {
		return access.Principal{}, err
	}
	if !ok || !hmac.Equal(t.tokenMAC(s.pepper), f.tokenMAC) {
		return access.Principal{}, apperr.Unauthorized(errSessionEnded)
	}
	return s.readSignedIn(ctx, s.db.Read(), f.key.user.ID, f.key.team, f.key.id)
}

// EndedSince reports whether what a user proved at a time may have ended: one of their sessions has, or they have
// another password.
func (Identifier) EndedSince(ctx context.Context, q db.Querier, user string, since time.Time) (bool, error) {
	var one int
	found, err := db.Found("an ended session", q.QueryRowContext(ctx,
		"SELECT 1 FROM sessions WHERE user_id = $1 AND ended_ms > $2 LIMIT 1", user, clock.Millis(since)).Scan(&one))
	if err != nil || found {
		return found, err
	}
	return members.PasswordChangedSince(ctx, q, user, since) //nolint:wrapcheck // it says what failed
}

// authenticate checks a password and, where the account has one, a second factor. It calls fn, in the transaction that
// forgets the failures before, with the account and the methods that were used. Its errors are those of Login.
func (s *Service) authenticate(ctx context.Context, c access.Client, with Credentials,
	fn func(tx *sql.Tx, a *members.Account, methods []string) error) error {
	a, known, hash, err := s.findAccount(ctx, with.Email)
	if err != nil {
		return err
	}
	at, err := s.throttle.newAttempt(ctx, a.User.ID, with.Email, c)
	if err != nil {
		return err
	}
	right, err := s.throttle.checkPassword(ctx, at, hash, with.Password)
	if err != nil {
		return err
	}
	if !known || !right {
		return notSignedIn(errLogin)
	}
	current, err := s.hasher.currentHash(ctx, a, hash, with.Password)
	if err != nil {
		return err
	}
	var refusal error
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		refusal = nil
		unchanged, err := members.ReplacePasswordHash(ctx, tx, a.User.ID, a.PasswordHash, current)
		if err != nil {
			return err
		}
		if !unchanged {
			return notSignedIn(errChanged)
		}
		_, member, err := members.ReadPrincipal(ctx, tx, a.Team, a.User.ID, "", s.clock.Now())
		if err != nil {
			return err
		}
		if !member {
			return notSignedIn(errNoMember)
		}
		methods := []string{methodPassword}
		enrolled, refused, err := s.checkCode(ctx, tx, c.User(a.User.ID, a.User.Email, a.Team), with.Code)
		switch {
		case err != nil:
			return err
		case refused != nil:
			refusal = refused // what it counts is to be committed
			return keepAttemptCounted(ctx, tx, at, refused)
		case enrolled:
			methods = append(methods, methodOTP)
		}
		if err := fn(tx, &a, methods); err != nil {
			return err
		}
		return forgiveAttempt(ctx, tx, at)
	})
	return cmp.Or(err, refusal)
}
