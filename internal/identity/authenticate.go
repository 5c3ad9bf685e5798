package identity

import (
	"context"
	"crypto/hmac"
	"errors"

	"github.com/go-jose/go-jose/v4/jwt"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// Reasons for the log; clients get one text.
var (
	errKeyForm    = errors.New("the API key is malformed")
	errKeyUnknown = errors.New("the API key is unknown")
	errKeyRevoked = errors.New("the API key is revoked")
	errKeyExpired = errors.New("the API key has expired")
	errNoMember   = errors.New("the user is no member of the team")
	errNoSession  = errors.New("the session of the access token has ended, or its user is no member of the team")
)

// APIKey returns the principal of a key. Only a caller who has the secret learns that a key has expired.
func (s *Service) APIKey(ctx context.Context, key string) (access.Principal, error) {
	m, err := s.material()
	if err != nil {
		return access.Principal{}, err
	}
	text, ok := parseKey(key)
	if !ok {
		return access.Principal{}, errUnauthorized(errKeyForm)
	}
	// The code is computed before the row is looked for, so that the time taken does not tell whether there is one.
	mac := text.mac(m.pepper)
	k, ok, err := readCredential(ctx, s.db.Read(), text.lookup())
	if err != nil {
		return access.Principal{}, err
	}
	if !ok || !hmac.Equal(mac, k.mac) {
		return access.Principal{}, errUnauthorized(errKeyUnknown)
	}
	if k.revokedMillis != nil {
		return access.Principal{}, errUnauthorized(errKeyRevoked)
	}
	if k.expiresMillis <= clock.Millis(s.clock.Now()) {
		return access.Principal{}, apperr.New(apperr.CodeAPIKeyExpired, "The API key has expired")
	}
	return k.principal(), nil
}

// Bearer returns the principal of a user's access token. The session and the user's roles are read now: an ended session and
// a removed user are refused, and changed roles apply, with the next request.
func (s *Service) Bearer(ctx context.Context, token string) (access.Principal, error) {
	if _, err := s.material(); err != nil {
		return access.Principal{}, err
	}
	keys, err := s.tokens(ctx)
	if err != nil {
		return access.Principal{}, err
	}
	now := s.clock.Now()
	c, err := keys.verify(now, token)
	if err != nil {
		return access.Principal{}, errUnauthorized(err)
	}
	member, ok, err := readSignedIn(ctx, s.db.Read(), c, now)
	if err != nil {
		return access.Principal{}, err
	}
	if !ok {
		return access.Principal{}, errUnauthorized(errNoSession)
	}
	return member.principal(c.Session), nil
}

// Environment returns the environment if it belongs to the user's team and they have any permission in it, else not_found.
func (s *Service) Environment(ctx context.Context, p access.Principal, environment string) (id.Environment, error) {
	if !id.Is(id.PrefixEnvironment, environment) || !p.Enters(id.Environment(environment)) {
		return "", errNoEnvironment()
	}
	e, ok, err := readEnvironment(ctx, s.db.Read(), p.Team, id.Environment(environment))
	if err != nil {
		return "", err
	}
	if !ok {
		return "", errNoEnvironment()
	}
	return e.ID, nil
}

// Current returns a principal that was identified before as they are now, in the same environment: with the grants of the
// key, or the roles of the user. It is for what outlives the request that brought the credential. A key that has been
// revoked, removed or has expired, and a session that has ended, is unauthorized.
func (s *Service) Current(ctx context.Context, p access.Principal) (access.Principal, error) {
	if p.Kind == access.KindAPIKey {
		return s.currentKey(ctx, p)
	}
	now := s.clock.Now()
	m, ok, err := readSignedIn(ctx, s.db.Read(), claims{Claims: jwt.Claims{Subject: p.ID}, Team: p.Team, Session: p.Session}, now)
	if err != nil {
		return access.Principal{}, err
	}
	if !ok {
		return access.Principal{}, errUnauthorized(errNoSession)
	}
	current := m.principal(p.Session)
	current.Environment, err = s.Environment(ctx, current, string(p.Environment))
	return current, err
}

func (s *Service) currentKey(ctx context.Context, p access.Principal) (access.Principal, error) {
	k, ok, err := readCredentialByID(ctx, s.db.Read(), p.ID)
	switch {
	case err != nil:
		return access.Principal{}, err
	case !ok || k.environment != p.Environment:
		return access.Principal{}, errUnauthorized(errKeyUnknown)
	case k.revokedMillis != nil:
		return access.Principal{}, errUnauthorized(errKeyRevoked)
	case k.expiresMillis <= clock.Millis(s.clock.Now()):
		return access.Principal{}, errUnauthorized(errKeyExpired)
	}
	return k.principal(), nil
}
