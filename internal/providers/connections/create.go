package connections

import (
	"context"
	"database/sql"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// Create makes a connection in the actor's environment. Its provider configuration already having one of that id is
// connection_exists, or a change of that one where the caller asked for it; created tells the two apart. An alias asked
// for that is not to be had is alias_taken, an environment that was removed meanwhile not_found.
func (s *Service) Create(ctx context.Context, actor access.Principal,
	in NewConnection) (c Connection, created bool, err error) {
	now := s.now()
	var v apperr.Violations
	fresh := blankConnection()
	fresh.Environment, fresh.CreatedAt, fresh.UpdatedAt = actor.Environment, now, now
	key, provider := s.checkIdentity(&v, &in)
	fresh.Provider, fresh.ProviderConfigKey = key, key
	fresh.ConnectionID = id.NewRandom("")
	if in.ConnectionID != nil {
		fresh.ConnectionID = *in.ConnectionID
	}
	if err := mayCreate(actor, in.ConnectionID); err != nil {
		return Connection{}, false, err
	}
	identified, updating := v.Err() == nil, in.OnConflict == ConflictUpdate
	fresh = in.apply(fresh)
	p := proposal{change: &in.Change, next: &fresh, creating: true, provider: provider}
	if err := p.check(&v); err != nil {
		return Connection{}, false, err
	}
	invalid := v.Err()
	// A change of an existing connection is judged by what it leads to there.
	if invalid != nil && (!updating || !identified) {
		return Connection{}, false, invalid
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		for {
			if updating {
				current, err := lock(ctx, tx, actor.Environment, key, fresh.ConnectionID)
				if err == nil {
					if err := s.environments.RequireLive(ctx, tx, actor.Environment); err != nil {
						return err
					}
					e, err := s.edit(ctx, tx, actor, &current, now)
					if err != nil {
						return err
					}
					c, err = s.update(ctx, e, current, &in.Change)
					created = false
					return err
				}
				if !apperr.Is(err, apperr.CodeNotFound) {
					return err
				}
			}
			if invalid != nil {
				return invalid
			}
			fresh.UUID, fresh.PathToken = id.NewUUID(), id.NewRandom(id.PrefixPathToken)
			inserted, err := insert(ctx, tx, &fresh)
			if err != nil {
				return err
			}
			if inserted {
				break
			}
			if !updating {
				return apperr.New(apperr.CodeConnectionExists, "The provider configuration already has a connection of this id")
			}
			// Somebody created it between the two statements: it is there to be changed now.
		}
		if err := s.environments.RequireLive(ctx, tx, actor.Environment); err != nil {
			return err
		}
		created = true
		c, err = s.complete(ctx, tx, actor, &fresh, &in.Change, now)
		return err
	})
	if err != nil {
		return Connection{}, false, err
	}
	return c, created, nil
}

// mayCreate returns grant_denied for a connection that an API key could not use. Whoever may use some connections only
// has to say which of them the new one is.
func mayCreate(actor access.Principal, connectionID *string) error {
	if connectionID == nil {
		if actor.View().Connections.Contains("") {
			return nil
		}
		return actor.Require(access.RouteConnections, "")
	}
	if *connectionID == "" {
		return nil // which is refused as no id
	}
	return actor.Require(access.RouteConnections, *connectionID)
}

// complete gives an inserted connection its alias and secret and records it.
func (s *Service) complete(ctx context.Context, tx *sql.Tx, actor access.Principal, c *Connection, ch *Change,
	now time.Time) (Connection, error) {
	// Whoever may guess the path of a connection that proves nothing may deliver to it.
	if !ch.Alias.Null && c.Webhook.Scheme != SchemeNone {
		alias := c.ConnectionID
		if ch.Alias.Set {
			alias = ch.Alias.Value
		}
		taken, err := takeAlias(ctx, tx, c.Environment, c.UUID, alias, now)
		if err != nil {
			return Connection{}, err
		}
		if !taken && ch.Alias.Set {
			return Connection{}, aliasTaken()
		}
	}
	if ch.Secret.Set {
		if err := s.replaceSecrets(ctx, tx, c.UUID, ch.Secret, now); err != nil {
			return Connection{}, err
		}
	}
	return edit{s: s, tx: tx, actor: actor, now: now}.finish(ctx, c, actionCreate, nil)
}
