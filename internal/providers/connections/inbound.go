package connections

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// Inbound is a connection as the inbound endpoint sees it: a snapshot, shared and never changed.
type Inbound struct {
	Connection Connection
	// Verifier holds the connection's secrets. It refuses everything where none is stored, and where the provider's
	// definition refuses what is stored.
	Verifier *verification.Verifier
	// Sources are the networks that the connection takes deliveries from; empty for all.
	Sources []netip.Prefix
	// EnrolledUntil is when the enrolment under which a handshake may hand over a secret ends; zero where none is open.
	EnrolledUntil time.Time
	// Provider is never nil. It is the version of the definition that Verifier was made from.
	Provider *registry.Provider
	// ByAlias says that the path named the alias and not the token.
	ByAlias bool
	// Unusable says that the stored settings do not fit the provider's definition, so that Verifier refuses everything and
	// does not know what of a request is secret.
	Unusable bool
	// Misfit says why; nil where Unusable is false.
	Misfit error
}

// Lookup returns the connection that the last segment of a webhook path names, by path token or alias, whatever its
// status. A segment that names none gives not_found. A lookup that begins after a change made by this process has
// returned sees that change; changes of other processes show after the next Refresh.
func (s *Service) Lookup(ctx context.Context, segment string) (*Inbound, error) {
	byAlias := !id.Is(id.PrefixPathToken, segment)
	if byAlias && !validName(segment) {
		return nil, notFound()
	}
	return s.inbound.Get(ctx, segment, func(ctx context.Context) (*Inbound, int64, error) {
		version, err := s.version(ctx)
		if err != nil {
			return nil, 0, err
		}
		in, err := s.load(ctx, segment, byAlias)
		return in, version, err
	})
}

// maxCached bounds the cache of Lookup. It keeps only segments that name a connection, so strangers cannot fill it.
const maxCached = 20_000

func (s *Service) version(ctx context.Context) (int64, error) {
	versions, err := s.db.Versions(ctx)
	return versions[Collection], err
}

// Refresh drops what Lookup has cached if another process changed a connection since. A worker calls it each second.
func (s *Service) Refresh(ctx context.Context) error {
	version, err := s.version(ctx)
	if err != nil {
		return fmt.Errorf("refresh connections: %w", err)
	}
	s.inbound.DropOthers(version)
	return nil
}

func (s *Service) load(ctx context.Context, segment string, byAlias bool) (*Inbound, error) {
	c, err := findInbound(ctx, s.db.Read(), segment, byAlias)
	if err != nil {
		return nil, err
	}
	provider, ok := s.providers.Get(c.Provider)
	if !ok {
		// The operator took the definition away. Nothing can be verified, and the deliveries are not the sender's fault:
		// an error of our own makes the provider try again later.
		return nil, fmt.Errorf("connection %s: provider %s has no definition", c.UUID, c.Provider)
	}
	secrets, err := s.secrets(ctx, s.db.Read(), c.UUID)
	if err != nil {
		return nil, err
	}
	v, provider, misfit := s.verifier(ctx, &c, provider, secrets)
	in := &Inbound{Connection: c, Verifier: v, Provider: provider, ByAlias: byAlias, Unusable: misfit != nil,
		Misfit: misfit}
	for _, network := range c.Webhook.SourceCIDRs {
		p, err := clientaddr.ParseNetwork(network)
		if err != nil {
			return nil, fmt.Errorf("connection %s: network: %w", c.UUID, err)
		}
		in.Sources = append(in.Sources, p)
	}
	if provider.Webhooks != nil && provider.Webhooks.Captures() {
		if in.EnrolledUntil, err = enrolledUntil(ctx, s.db.Read(), c.UUID); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// newRefusing returns a verifier that refuses everything: it has no secret.
func newRefusing() (*verification.Verifier, error) {
	engine, err := verification.Compile(verification.Declaration{Proof: verification.Proof{
		Scheme: "hmac", Algorithm: "sha256", Secret: verification.SecretFormat{Decode: "utf8"},
		Signature: []verification.SignatureSource{{From: "header:webhook-signature", Encoding: "hex"}},
		Signed:    "{body}",
	}})
	if err != nil {
		return nil, fmt.Errorf("compile the refusing verifier: %w", err)
	}
	return engine.Prepare(nil, nil)
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

// ConfigKeyExists reports whether the environment has a provider configuration of that key. Every environment has those
// of the loaded providers.
func (s *Service) ConfigKeyExists(_ id.Environment, key string) bool {
	_, ok := s.providers.Get(key)
	return ok
}

// secrets returns the decrypted webhook secrets of a connection, oldest first.
func (s *Service) secrets(ctx context.Context, q querier, connectionUUID string) ([]verification.Secret, error) {
	rows, err := findSecrets(ctx, q, connectionUUID)
	if err != nil {
		return nil, err
	}
	out := make([]verification.Secret, 0, len(rows))
	for _, row := range rows {
		plain, err := s.box.Open(row.sealed, secretPlace(row.id))
		if err != nil {
			return nil, fmt.Errorf("open webhook secret %s: %w", row.id, err)
		}
		out = append(out, verification.Secret{ID: row.id, Value: secretbox.Secret(plain)})
	}
	return out, nil
}

func notFound() error { return apperr.NotFound("connection") }
