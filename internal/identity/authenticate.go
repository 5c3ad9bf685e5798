package identity

import (
	"context"
	"crypto/hmac"
	"errors"

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
	errNoMember   = errors.New("the user is no member of the team")
	errStale      = errors.New("the password was changed after the sign-in")
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
	return access.Principal{
		Kind: access.KindAPIKey, ID: k.id, Name: k.name, Team: k.team, Environment: k.environment,
		Allowed: allowedRoutes(k.grants),
	}, nil
}

// Bearer returns the principal of a user's access token. The user's role is read now: a removed user is refused, and a
// changed role applies, with the next request. A sign-in made before the password was last set is refused too.
func (s *Service) Bearer(ctx context.Context, token string) (access.Principal, error) {
	m, err := s.material()
	if err != nil {
		return access.Principal{}, err
	}
	c, err := m.tokens.verify(s.clock.Now(), token)
	if err != nil {
		return access.Principal{}, errUnauthorized(err)
	}
	member, ok, err := readMember(ctx, s.db.Read(), c.Team, c.Subject)
	if err != nil {
		return access.Principal{}, err
	}
	if !ok {
		return access.Principal{}, errUnauthorized(errNoMember)
	}
	// Tokens count seconds: one made within the second of the change, before it, still passes.
	if c.AuthTime.Time().Unix() < clock.FromMillis(member.passwordMillis).Unix() {
		return access.Principal{}, errUnauthorized(errStale)
	}
	return access.Principal{
		Kind: access.KindUser, ID: member.user.ID, Name: member.user.Email, Team: member.team.ID, Role: member.role,
	}, nil
}

// Environment returns the environment if it belongs to the user's team, else not_found.
func (s *Service) Environment(ctx context.Context, p access.Principal, environment string) (id.Environment, error) {
	if !id.Is(id.PrefixEnvironment, environment) {
		return "", apperr.NotFound("environment")
	}
	e, ok, err := readEnvironment(ctx, s.db.Read(), p.Team, id.Environment(environment))
	if err != nil {
		return "", err
	}
	if !ok {
		return "", apperr.NotFound("environment")
	}
	return e.ID, nil
}
