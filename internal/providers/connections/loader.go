package connections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"sallyport/internal/platform/clientaddr"
	"sallyport/internal/platform/db"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// loader makes the snapshots that Lookup returns: it reads a connection and binds the definition of its provider to its
// settings and secrets.
type loader struct {
	read db.Querier
	// paths is what finds the connection of a path, which any stranger can ask for: it must not take the connections of
	// workers.
	paths     db.Querier
	providers Providers
	secrets   secretStore
	keyring   *verification.Keyring
	log       *slog.Logger
	// refusing verifies nothing. It is for connections whose settings fit no version of their definition.
	refusing *verification.Verifier
}

// load reads a connection and prepares its verification. The result is at least as new as the version of the collection
// that load returns.
func (l *loader) load(ctx context.Context, uuid string) (*Inbound, int64, error) {
	c, err := findInbound(ctx, l.read, uuid)
	if err != nil {
		return nil, 0, err
	}
	provider, ok := l.providers.Find(c.Environment, c.Provider)
	if !ok {
		// The operator removed the definition. Nothing can be verified, and the sender did nothing wrong: an internal
		// error makes the provider retry later.
		return nil, 0, fmt.Errorf("connection %s: provider %s has no definition", c.UUID, c.Provider)
	}
	secrets, err := l.secrets.open(ctx, l.read, c.UUID)
	if err != nil {
		return nil, 0, err
	}
	v, provider, misfit := l.verifier(ctx, &c.Connection, provider, secrets)
	in := &Inbound{Connection: c.Connection, Verifier: v, Provider: provider, Unusable: misfit != nil, Misfit: misfit}
	for _, network := range c.Webhook.SourceCIDRs {
		p, err := clientaddr.ParseNetwork(network)
		if err != nil {
			return nil, 0, fmt.Errorf("connection %s: network: %w", c.UUID, err)
		}
		in.Sources = append(in.Sources, p)
	}
	if provider.Webhooks != nil && provider.Webhooks.Captures() {
		if in.EnrolledUntil, err = enrolledUntil(ctx, l.read, c.UUID); err != nil {
			return nil, 0, err
		}
	}
	return in, c.version, nil
}

var errNoWebhooks = errors.New("the provider has no webhooks")

// bind prepares a definition for one connection.
func (l *loader) bind(c *Connection, p *registry.Provider,
	secrets []verification.Secret) (*verification.Verifier, error) {
	if p.Webhooks == nil {
		return nil, errNoWebhooks
	}
	settings := c.Webhook.settings(secrets)
	settings.Keyring = l.keyring
	settings.KeyOwner = verification.KeyOwner{Environment: string(c.Environment), Connection: c.UUID}
	return p.Webhooks.Bind(settings)
}

// verifier binds the newest version of a definition that the connection's settings fit, and returns that version too.
// It fails closed: if none fits, the verifier refuses every webhook, and misfit is the reason.
func (l *loader) verifier(ctx context.Context, c *Connection, newest *registry.Provider,
	secrets []verification.Secret) (
	v *verification.Verifier, used *registry.Provider, misfit error,
) {
	var reason error
	for p := newest; p != nil; p = p.Previous() {
		v, err := l.bind(c, p, secrets)
		if err != nil {
			if reason == nil {
				reason = err
			}
			continue
		}
		if p != newest {
			l.log.LogAttrs(ctx, slog.LevelWarn,
				"connection stays with an earlier version of its provider's definition: its settings do not fit the present one",
				slog.String("connection_uuid", c.UUID), slog.String("provider", c.Provider), slog.String("error", reason.Error()))
		}
		return v, p, nil
	}
	if errors.Is(reason, errNoWebhooks) {
		return l.refusing, newest, reason // nothing is wrong: the connection is there for calls
	}
	l.log.LogAttrs(ctx, slog.LevelWarn, "connection refuses webhooks: its settings do not fit the provider's definition",
		slog.String("connection_uuid", c.UUID), slog.String("provider", c.Provider), slog.String("error", reason.Error()))
	return l.refusing, newest, reason
}

// newRefusing returns a verifier without secrets, which refuses everything.
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
