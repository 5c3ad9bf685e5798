package signin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"time"

	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

// RefreshToken keeps a user signed in: it is exchanged for an access token and for its successor.
type RefreshToken = secretbox.Secret

// The parts of a refresh token: one that stays for the life of the session, by which it is found, and one that each use
// replaces. A token whose first part is right and whose second is not the latest was used before, or copied; no forger
// can make one.
const (
	familyBytes  = 16
	rotatedBytes = 32
)

// RefreshGrace is how long after its use a token is taken for one that was sent twice (two windows that wake up
// together) and not for a stolen one. Within it the token buys an access token and no successor, so that a thief who is
// that quick has an access token of a session that ends with the next use of what they hold.
const RefreshGrace = 10 * time.Second

// refreshToken is a token of the right form. Whether it was ever issued, only the database knows.
type refreshToken struct{ family, rotated []byte }

func newRefreshToken() refreshToken {
	t := refreshToken{family: make([]byte, familyBytes)}
	// crypto/rand.Read never returns an error; it ends the program when the system has no entropy.
	_, _ = rand.Read(t.family)
	return t.next()
}

// next returns the token's successor.
func (t refreshToken) next() refreshToken {
	n := refreshToken{family: t.family, rotated: make([]byte, rotatedBytes)}
	_, _ = rand.Read(n.rotated) // as above
	return n
}

func (t refreshToken) encode() RefreshToken {
	return RefreshToken(base64.RawURLEncoding.EncodeToString(append(append([]byte{}, t.family...), t.rotated...)))
}

func parseRefreshToken(s RefreshToken) (refreshToken, bool) {
	text := s.Reveal()
	if len(text) != base64.RawURLEncoding.EncodedLen(familyBytes+rotatedBytes) {
		return refreshToken{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != familyBytes+rotatedBytes { // line breaks are not counted
		return refreshToken{}, false
	}
	return refreshToken{family: b[:familyBytes], rotated: b[familyBytes:]}, true
}

// Only familyMAC and tokenMAC are stored.
func (t refreshToken) familyMAC(pepper installation.Pepper) []byte {
	return pepper.MAC("refresh token family", t.family)
}

func (t refreshToken) tokenMAC(pepper installation.Pepper) []byte {
	return pepper.MAC("refresh token", append(append([]byte{}, t.family...), t.rotated...))
}

// family is a session with the fields that distinguish its tokens.
type family struct {
	key         sessionKey
	session     Session
	familyMAC   []byte
	tokenMAC    []byte
	previousMAC []byte
}

var (
	errRefreshForm = errors.New("the refresh token is missing or malformed")
	errReplay      = errors.New("a refresh token was used again; its session has ended")
)

// Refresh exchanges a refresh token for an access token and for its successor, which is empty for a token that was used
// within RefreshGrace. A token that was used before that ends its session, because the token or its successor has been
// copied. Refresh returns unauthorized for any token that does not work.
func (s *Service) Refresh(ctx context.Context, c access.Client, token RefreshToken) (SignIn, error) {
	t, ok := parseRefreshToken(token)
	if !ok {
		return SignIn{}, apperr.Unauthorized(errRefreshForm)
	}
	// Check without the writer, so that made-up tokens cannot block it.
	_, ok, err := readFamily(ctx, s.db.Read(), t.familyMAC(s.pepper), s.clock.Now())
	if err != nil {
		return SignIn{}, err
	}
	if !ok {
		return SignIn{}, apperr.Unauthorized(errSessionEnded)
	}
	keys, err := s.tokens.Keys(ctx)
	if err != nil {
		return SignIn{}, err
	}
	var in SignIn
	replayed := false
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		in, replayed = SignIn{}, false
		f, ok, err := readFamily(ctx, tx, t.familyMAC(s.pepper), s.clock.Now())
		if err != nil {
			return err
		}
		if !ok {
			return apperr.Unauthorized(errSessionEnded)
		}
		if f.key.user, _, err = members.ReadUser(ctx, tx, f.key.user.ID); err != nil {
			return err
		}
		in.Session, in.Refresh, err = s.sessions.rotate(ctx, tx, c, f, t)
		if errors.Is(err, errReplay) {
			replayed = true // the end of the session is to be committed
			return s.sessions.end(ctx, tx, c, f.key, "session.replay", audit.Denied)
		}
		if err != nil {
			return err
		}
		return s.completeSignIn(ctx, tx, keys, &in, f.key)
	})
	if err != nil {
		return SignIn{}, err
	}
	if replayed {
		return SignIn{}, apperr.Unauthorized(errReplay)
	}
	return in, nil
}

// rotate gives the session another token, or says that the one shown is a replay.
func (s *sessions) rotate(ctx context.Context, tx *sql.Tx, c access.Client, f family,
	t refreshToken) (Session, RefreshToken, error) {
	now := s.clock.Now()
	shown := t.tokenMAC(s.pepper)
	if hmac.Equal(shown, f.tokenMAC) {
		next, after := t.next(), f
		after.session.IP, after.session.UserAgent, after.session.UsedMillis = c.IP, c.Agent(), clock.Millis(now)
		after.tokenMAC, after.previousMAC = next.tokenMAC(s.pepper), f.tokenMAC
		rotated, err := rotateSession(ctx, tx, after)
		if err != nil {
			return Session{}, "", err
		}
		if rotated {
			return after.session, next.encode(), nil
		}
		// Another request with the same token has come first, on another node.
		current, ok, err := readFamily(ctx, tx, t.familyMAC(s.pepper), now)
		if err != nil {
			return Session{}, "", err
		}
		if !ok {
			return Session{}, "", apperr.Unauthorized(errSessionEnded)
		}
		f.session, f.tokenMAC, f.previousMAC = current.session, current.tokenMAC, current.previousMAC
	}
	fresh := now.Sub(clock.FromMillis(f.session.UsedMillis)) <= RefreshGrace
	if fresh && hmac.Equal(shown, f.previousMAC) {
		return f.session, "", nil
	}
	return Session{}, "", errReplay
}

// completeSignIn adds to a sign-in what the client needs to go on: who it is, and an access token. It is part of the
// transaction, so that after a failure the client's refresh token still works.
func (s *Service) completeSignIn(ctx context.Context, tx *sql.Tx, keys *accesstokens.Keys, in *SignIn,
	k sessionKey) error {
	var err error
	if in.Profile, err = members.ReadProfile(ctx, tx, k.team, k.user.ID, s.clock.Now()); err != nil {
		return err
	}
	token, err := keys.Sign(s.clock.Now(), accesstokens.Subject{User: k.user.ID, Team: k.team, Session: in.Session.ID,
		AuthMillis: in.Session.AuthMillis, Methods: in.Session.Methods()})
	in.Token = secretbox.Secret(token)
	return err
}
