package connections

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// Inbound is a connection for the inbound endpoint: a snapshot, shared and never changed.
type Inbound struct {
	Connection Connection
	// Verifier holds the connection's secrets. It refuses every webhook if none is stored, or if the settings do not fit
	// the provider's definition.
	Verifier *verification.Verifier
	// Sources are the networks that the connection accepts webhooks from; empty for all.
	Sources []netip.Prefix
	// EnrolledUntil is when the open enrolment ends; zero if none is open.
	EnrolledUntil time.Time
	// Provider is never nil. It is the version of the definition that Verifier was made from.
	Provider *registry.Provider
	// ByAlias reports that the path named the alias and not the token.
	ByAlias bool
	// Unusable reports that the stored settings do not fit the provider's definition. Verifier then refuses everything and
	// does not know which parts of a request are secret.
	Unusable bool
	// Misfit is the reason; nil if Unusable is false.
	Misfit error
}

// Lookup returns the connection that the last segment of a webhook path names, by path token or alias, in any status. A
// segment that names none is not_found. A lookup that begins after a change by this process has returned sees that
// change; changes by other processes show after the next Refresh.
func (s *Service) Lookup(ctx context.Context, segment string) (*Inbound, error) {
	byAlias := !id.Is(id.PrefixPathToken, segment)
	if byAlias && !validName(segment) {
		return nil, notFound()
	}
	return s.inbound.Get(ctx, segment, func(ctx context.Context) (*Inbound, int64, error) {
		return s.loader.load(ctx, segment, byAlias)
	})
}

// maxCached bounds the cache of Lookup. It keeps only segments that name a connection, so strangers cannot fill it: an
// unknown segment costs one read by an index each time.
const maxCached = 20_000

// Refresh empties the cache of Lookup if another process has changed a connection. A worker calls it each second.
func (s *Service) Refresh(ctx context.Context) error {
	versions, err := s.db.Versions(ctx)
	if err != nil {
		return fmt.Errorf("refresh connections: %w", err)
	}
	s.inbound.DropOthers(versions[Collection])
	return nil
}

// Exists reports whether the environment has such a connection.
func (s *Service) Exists(ctx context.Context, env id.Environment, providerConfigKey,
	connectionID string) (bool, error) {
	_, err := s.Get(ctx, access.Whole(env), providerConfigKey, connectionID)
	if apperr.Is(err, apperr.CodeNotFound) {
		return false, nil
	}
	return err == nil, err
}

// ConfigKeyExists reports whether the environment has a provider configuration of that key. Every environment has one
// for each loaded provider.
func (s *Service) ConfigKeyExists(_ id.Environment, key string) bool {
	_, ok := s.providers.Get(key)
	return ok
}

func notFound() error { return apperr.NotFound("connection") }
