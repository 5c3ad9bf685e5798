package apikeys

import (
	"context"
	"errors"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
)

// Reasons for the log; clients get one text.
var (
	errKeyForm     = errors.New("the API key is malformed")
	errKeyUnknown  = errors.New("the API key is unknown")
	errKeyRevoked  = errors.New("the API key is revoked")
	errKeyDisabled = errors.New("the API key is disabled")
	errKeySource   = errors.New("the API key may not be used from this address")
)

// Identify returns the principal of a key that came from an address. Only a caller who has the secret, and comes from
// where the key may be used, learns that it has expired.
func (s *Service) Identify(ctx context.Context, key, ip string) (access.Principal, error) {
	text, ok := parseKey(key)
	if !ok {
		return access.Principal{}, apperr.Unauthorized(errKeyForm)
	}
	c, err := s.credentialOf(ctx, text, s.pepper)
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

// Knows reports whether a key was read lately, and found. It reads only memory.
func (s *Service) Knows(key string) bool {
	text, ok := parseKey(key)
	if !ok {
		return false
	}
	var digest keyDigest
	copy(digest[:], text.mac(s.pepper))
	_, known, _ := s.keys.get(digest)
	return known
}

// Current returns an API key that was identified before with the grants that it has now, or unauthorized where it no
// longer works.
func (s *Service) Current(ctx context.Context, p access.Principal) (access.Principal, error) {
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
