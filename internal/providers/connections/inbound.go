package connections

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
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
	uuid, known := s.named.get(segment)
	if known {
		if in, err := s.snapshot(ctx, segment, uuid); in != nil || err != nil {
			return in, err
		}
		s.named.forget(segment)
	}
	uuid, err := findNamed(ctx, s.loader.paths, segment, byAlias)
	if err != nil {
		return nil, err
	}
	in, err := s.snapshot(ctx, segment, uuid)
	if in == nil && err == nil {
		// Another process has changed the connection since the snapshot.
		s.inbound.Drop(uuid)
		in, err = s.snapshot(ctx, segment, uuid)
	}
	switch {
	case err != nil:
		return nil, err
	case in == nil:
		return nil, notFound()
	default:
		s.named.set(segment, uuid)
		return in, nil
	}
}

// Knows reports whether the segment has named a connection, as far as this process remembers, and whether it has the
// form of an alias. It reads only memory, so that a limit can look at it before Lookup.
func (s *Service) Knows(segment string) (known, byAlias bool) {
	_, known = s.named.get(segment)
	return known, !id.Is(id.PrefixPathToken, segment)
}

// snapshot returns the connection of the UUID if the segment names it, and otherwise nil.
func (s *Service) snapshot(ctx context.Context, segment, uuid string) (*Inbound, error) {
	v, err := snapshotOf(ctx, s, uuid)
	switch alias := v.byAlias; {
	case apperr.Is(err, apperr.CodeNotFound):
		return nil, nil //nolint:nilnil // a connection that is gone is named by nothing
	case err != nil:
		return nil, err
	case alias.Connection.Alias != nil && *alias.Connection.Alias == segment:
		return alias, nil
	case v.byToken.Connection.PathToken == segment:
		return v.byToken, nil
	default:
		return nil, nil //nolint:nilnil // it has another token and another alias
	}
}

// snapshotOf returns the snapshots of a connection, or not_found.
func snapshotOf(ctx context.Context, s *Service, uuid string) (variants, error) {
	return s.inbound.Get(ctx, uuid, func(ctx context.Context) (variants, int64, error) {
		in, version, err := s.loader.load(ctx, uuid)
		if err != nil {
			return variants{}, 0, err
		}
		byAlias := *in
		byAlias.ByAlias = true
		return variants{in, &byAlias}, version, nil
	})
}

// variants are the snapshots of a connection, by the part of the path that names it.
type variants struct{ byToken, byAlias *Inbound }

// maxCached bounds the caches of Lookup. They keep only what names a connection, so strangers cannot fill them: an
// unknown segment costs one read by an index each time.
const maxCached = 20_000

// named remembers which connections path segments name. It may be outdated and is never cleared: Lookup compares what
// it says with the connection. So no change has to find the segments that it concerns.
type named struct {
	mu    sync.RWMutex
	uuids map[string]string
}

func (n *named) get(segment string) (uuid string, known bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	uuid, known = n.uuids[segment]
	return uuid, known
}

func (n *named) set(segment, uuid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.uuids == nil {
		n.uuids = map[string]string{}
	}
	for victim := range n.uuids { // map order is random enough to choose by
		if len(n.uuids) < maxCached {
			break
		}
		delete(n.uuids, victim)
	}
	n.uuids[segment] = uuid
}

func (n *named) forget(segment string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.uuids, segment)
}

// Refresh drops the snapshots of connections that another process has changed. If it is not known which these are, it
// drops all that were read at another version. A worker calls it each second.
func (s *Service) Refresh(ctx context.Context) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	changes, err := s.db.Changes(ctx, Collection, s.seen)
	if err != nil {
		return fmt.Errorf("refresh connections: %w", err)
	}
	if !changes.Known {
		s.inbound.DropOthers(changes.Version)
	}
	for _, uuid := range changes.Keys {
		s.inbound.Drop(uuid)
	}
	s.seen = changes.Version
	return nil
}

// Exists reports whether the environment has such a connection. It reads from q, which can be a transaction.
func (*Service) Exists(ctx context.Context, q db.Querier, env id.Environment, providerConfigKey,
	connectionID string) (bool, error) {
	if !possible(providerConfigKey, connectionID) {
		return false, nil
	}
	_, err := find(ctx, q, env, providerConfigKey, connectionID)
	if apperr.Is(err, apperr.CodeNotFound) {
		return false, nil
	}
	return err == nil, err
}

func notFound() error { return apperr.NotFound("connection") }
