// Package principals turns credentials into principals: API keys and the access tokens of users. It is the
// httpapi.Authenticator.
package principals

import (
	"context"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
)

// Config configures a Service.
type Config struct {
	Team   *team.Service
	SignIn *signin.Service
	Keys   *apikeys.Service
}

// Service is the capability. Its methods are safe for concurrent use.
type Service struct{ cfg Config }

// New returns a Service.
func New(c Config) *Service { return &Service{cfg: c} }

// APIKey returns the principal of an API key that came from an address.
func (s *Service) APIKey(ctx context.Context, key, ip string) (access.Principal, error) {
	return s.cfg.Keys.Identify(ctx, key, ip)
}

// KnowsAPIKey reports whether an API key was read lately, and reads nothing.
func (s *Service) KnowsAPIKey(key string) bool { return s.cfg.Keys.Knows(key) }

// Bearer returns the principal of a user's access token.
func (s *Service) Bearer(ctx context.Context, token string) (access.Principal, error) {
	return s.cfg.SignIn.Bearer(ctx, token)
}

// Environment returns the environment if it belongs to the user's team and they have any permission in it, else
// not_found.
func (s *Service) Environment(ctx context.Context, p access.Principal, environment string) (id.Environment, error) {
	return s.cfg.Team.Enter(ctx, p, environment)
}

// Current returns a principal that was identified before as they are now, at the same address and in the same
// environment, if any: with the grants of the key, or the roles of the user. It is for what outlives the request that
// brought the credential. A key that has been revoked, removed or has expired, and a session that has ended, is
// unauthorized.
func (s *Service) Current(ctx context.Context, p access.Principal) (access.Principal, error) {
	if p.Kind == access.KindAPIKey {
		return s.cfg.Keys.Current(ctx, p)
	}
	current, err := s.cfg.SignIn.Current(ctx, p)
	if err == nil && p.Environment != "" {
		current.Environment, err = s.cfg.Team.Enter(ctx, current, string(p.Environment))
	}
	return current, err
}
