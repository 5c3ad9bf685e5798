package connections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/etag"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/tokens"
)

// Revocation says whether the provider has revoked credentials.
type Revocation struct {
	// Upstream reports whether the provider has revoked them, now or before.
	Upstream bool
	// Reason says why it has not; empty if it has.
	Reason string
}

// revocationTimeout bounds how long a request waits for the provider to revoke credentials. They are removed here
// anyway.
const revocationTimeout = 10 * time.Second

// Renewer refreshes and revokes the credentials of connections on request. It is safe for concurrent use.
type Renewer struct{ svc *Service }

// NewRenewer returns the Renewer of a Service's connections.
func NewRenewer(s *Service) Renewer { return Renewer{s} }

// Refresh gets another access token for a connection of the actor's environment. It returns connection_not_ready if
// there is none to be had.
func (r Renewer) Refresh(ctx context.Context, actor access.Principal, providerConfigKey,
	connectionID string) (Connection, error) {
	s := r.svc
	c, err := s.Get(ctx, actor.View(), providerConfigKey, connectionID)
	if err != nil {
		return Connection{}, err
	}
	if err := c.requireOwner(actor); err != nil {
		return Connection{}, err
	}
	if err := etag.Check(ctx, c.Version()); err != nil {
		return Connection{}, err
	}
	if err := c.testable(); err != nil {
		return Connection{}, err
	}
	account, err := s.auth.account(ctx, &c)
	if err != nil {
		return Connection{}, err
	}
	if _, err := s.auth.tokens.Renew(ctx, account, true); err != nil {
		return Connection{}, err //nolint:wrapcheck // as documented
	}
	// The version that the request was for is that before the refresh.
	anyVersion, err := etag.Parse([]string{"*"})
	if err != nil {
		return Connection{}, fmt.Errorf("accept any version: %w", err)
	}
	return s.editLocked(etag.WithIfMatch(ctx, anyVersion), actor, providerConfigKey, connectionID, s.now(),
		func(e edit, c Connection) (Connection, error) { return e.finish(ctx, &c, actionRefresh, nil) })
}

// Revoke revokes the credentials of a connection of the actor's environment at the provider, as far as that is
// possible, and removes them. Webhooks are still accepted.
func (r Renewer) Revoke(ctx context.Context, actor access.Principal, providerConfigKey,
	connectionID string) (Revocation, error) {
	s := r.svc
	return r.revoking(ctx, actor, providerConfigKey, connectionID, func() error {
		_, err := s.editLocked(ctx, actor, providerConfigKey, connectionID, s.now(), func(e edit, c Connection) (Connection,
			error) {
			if c.Credentials == nil {
				return Connection{}, apperr.New(apperr.CodeConnectionNotReady, "The connection has no credentials")
			}
			if err := s.auth.vault.Delete(ctx, e.tx, c.Environment, c.UUID); err != nil {
				return Connection{}, err
			}
			if err := forgetHealth(ctx, e.tx, c.Environment, c.UUID); err != nil {
				return Connection{}, err
			}
			e.kinds = c.moveTo(Revoked, ReasonRevoked)
			return e.write(ctx, &c, actionRevoke, nil)
		})
		return err
	})
}

// Delete revokes the credentials of a connection at the provider, as far as that is possible, and deletes it.
func (r Renewer) Delete(ctx context.Context, actor access.Principal, providerConfigKey,
	connectionID string) (Revocation, error) {
	return r.revoking(ctx, actor, providerConfigKey, connectionID, func() error {
		return r.svc.Delete(ctx, actor, providerConfigKey, connectionID)
	})
}

// aloneTimeout is how long a revocation waits for a refresh that is in progress.
const aloneTimeout = tokens.ExchangeTimeout + 5*time.Second

// noRequest is the reason where nothing can be sent.
const noRequest = "No request to the provider could be made with the credentials"

// revoking asks the provider to revoke the credentials of a connection, and removes them then. No refresh is in
// progress meanwhile: it would get new ones, which no one would know. That the provider does not revoke them is no
// error.
func (r Renewer) revoking(ctx context.Context, actor access.Principal, providerConfigKey, connectionID string,
	remove func() error) (Revocation, error) {
	s := r.svc
	c, err := s.Get(ctx, actor.View(), providerConfigKey, connectionID)
	if err != nil {
		return Revocation{}, err
	}
	if err := etag.Check(ctx, c.Version()); err != nil {
		return Revocation{}, err
	}
	if c.Credentials == nil {
		return Revocation{Reason: "The connection holds no credentials that the provider could revoke"}, remove()
	}
	out, asked := Revocation{Reason: noRequest}, false
	waiting, cancel := context.WithTimeout(ctx, aloneTimeout)
	defer cancel()
	r.freshen(waiting, &c)
	err = s.auth.tokens.Alone(waiting, c.Environment, c.UUID, func(a *tokens.Account) error {
		out, asked = r.upstream(ctx, a), true
		return remove()
	})
	switch {
	case asked && err != nil:
		return Revocation{}, err //nolint:wrapcheck // it is that of remove
	case asked:
		return out, nil
	case db.IsUnavailable(err) && !apperr.Is(err, apperr.CodeConnectionNotReady), ctx.Err() != nil:
		return Revocation{}, err //nolint:wrapcheck // the database is away
	default:
		if waiting.Err() != nil {
			out.Reason = "A refresh of the token did not end in time, and the provider was not asked to revoke the credentials"
		}
		return out, remove() // they cannot be used
	}
}

// freshen renews an access token that has expired, if the provider wants it in the request that revokes it. If there is
// no other one, the request is made with that.
func (r Renewer) freshen(ctx context.Context, c *Connection) {
	a, err := accounts(r).Account(ctx, c.Environment, c.UUID)
	if err != nil {
		return
	}
	if mode, ok := a.Source.Engine.Mode(a.Source.Target.Mode); ok && mode.RevokesByToken() {
		_, _ = r.svc.auth.tokens.Fresh(ctx, a)
	}
}

// upstream asks the provider to revoke the credentials of a connection.
func (r Renewer) upstream(ctx context.Context, account *tokens.Account) Revocation {
	ctx, cancel := context.WithTimeout(ctx, revocationTimeout)
	defer cancel()
	err := r.svc.auth.protocol.Revoke(ctx, account.Source)
	var refused *oauth.TokenError
	switch {
	case err == nil:
		return Revocation{Upstream: true}
	case errors.Is(err, tokens.ErrNoRevocation):
		return Revocation{Reason: "The provider has no way to revoke these credentials"}
	case errors.As(err, &refused) && refused.Status != 0:
		return Revocation{Reason: "The provider has not revoked the credentials: " + refused.Error()}
	case errors.As(err, &refused):
		return Revocation{Reason: "The provider has not revoked the credentials: " + refused.Description}
	default:
		return Revocation{Reason: noRequest}
	}
}
