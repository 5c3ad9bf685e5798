package identity

import (
	"context"
	"errors"

	"github.com/go-jose/go-jose/v4/jwt"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// Reasons for the log; clients get one text.
var (
	errKeyForm     = errors.New("the API key is malformed")
	errKeyUnknown  = errors.New("the API key is unknown")
	errKeyRevoked  = errors.New("the API key is revoked")
	errKeyDisabled = errors.New("the API key is disabled")
	errKeySource   = errors.New("the API key may not be used from this address")
	errNoMember    = errors.New("the user is no member of the team")
	errNoSession   = errors.New("the session of the access token has ended, or its user is no member of the team")
)

// APIKey returns the principal of a key that came from an address. Only a caller who has the secret, and comes from
// where the key may be used, learns that it has expired.
func (s *Service) APIKey(ctx context.Context, key, ip string) (access.Principal, error) {
	m, err := s.material()
	if err != nil {
		return access.Principal{}, err
	}
	text, ok := parseKey(key)
	if !ok {
		return access.Principal{}, apperr.Unauthorized(errKeyForm)
	}
	c, err := s.credentialOf(ctx, text, m.pepper)
	if err != nil {
		return access.Principal{}, err
	}
	if c == nil {
		return access.Principal{}, apperr.Unauthorized(errKeyUnknown)
	}
	if err := c.check(ip, clock.Millis(s.clock.Now())); err != nil {
		return access.Principal{}, err
	}
	return c.principal(), nil
}

// Bearer returns the principal of a user's access token. The session and the user's roles are read now: an ended
// session and a removed user are refused, and changed roles apply, with the next request.
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
		return access.Principal{}, apperr.Unauthorized(err)
	}
	member, ok, err := readSignedIn(ctx, s.db.Read(), c, now)
	if err != nil {
		return access.Principal{}, err
	}
	if !ok {
		return access.Principal{}, apperr.Unauthorized(errNoSession)
	}
	return member.principal(c.Session), nil
}

// Environment returns the environment if it belongs to the user's team and they have any permission in it, else
// not_found.
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

// Current returns a principal that was identified before as they are now, at the same address and in the same
// environment, if any: with the grants of the key, or the roles of the user. It is for what outlives the request that
// brought the credential. A key that has been revoked, removed or has expired, and a session that has ended, is
// unauthorized.
func (s *Service) Current(ctx context.Context, p access.Principal) (access.Principal, error) {
	if p.Kind == access.KindAPIKey {
		return s.currentKey(ctx, p)
	}
	now := s.clock.Now()
	m, ok, err := readSignedIn(ctx, s.db.Read(), claims{Claims: jwt.Claims{Subject: p.ID}, Team: p.Team,
		Session: p.Session}, now)
	if err != nil {
		return access.Principal{}, err
	}
	if !ok {
		return access.Principal{}, apperr.Unauthorized(errNoSession)
	}
	current := m.principal(p.Session)
	if p.Environment != "" {
		current.Environment, err = s.Environment(ctx, current, string(p.Environment))
	}
	return current, err
}

func (s *Service) currentKey(ctx context.Context, p access.Principal) (access.Principal, error) {
	now := clock.Millis(s.clock.Now())
	c, err := readCredentialByID(ctx, s.db.Read(), p.ID, now)
	switch {
	case err != nil:
		return access.Principal{}, err
	case c == nil || c.environment != p.Environment:
		return access.Principal{}, apperr.Unauthorized(errKeyUnknown)
	}
	if err := c.check(p.IP, now); err != nil {
		return access.Principal{}, apperr.Unauthorized(err)
	}
	return c.principal(), nil
}
