package connections

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// Create creates a connection in the actor's environment. If the provider configuration has a connection of that id,
// Create returns connection_exists, or changes that connection if in.OnConflict says so; created reports which. An
// alias that is not free is alias_taken, and a deleted environment not_found.
func (s *Service) Create(ctx context.Context, actor access.Principal,
	in NewConnection) (c Connection, created bool, err error) {
	now := s.now()
	var v apperr.Violations
	fresh := blankConnection()
	fresh.Environment, fresh.CreatedAt, fresh.UpdatedAt = actor.Environment, now, now
	key, provider, err := s.checkIdentity(ctx, &v, actor.Environment, &in)
	if err != nil {
		return Connection{}, false, err
	}
	if fresh.ProviderConfigKey = key; provider != nil {
		fresh.Provider = provider.Definition.Slug
	}
	fresh.ConnectionID = id.NewRandom("")
	if in.ConnectionID != nil {
		fresh.ConnectionID = *in.ConnectionID
	}
	if err := requireGrant(actor, in.ConnectionID); err != nil {
		return Connection{}, false, err
	}
	identified, updating := v.Err() == nil, in.OnConflict == ConflictUpdate
	if identified && updating && in.changesAuth() {
		// Credentials are tested against what the connection is, so the change is made as that of an existing one.
		c, err := s.Update(ctx, actor, key, fresh.ConnectionID, in.Change)
		if !apperr.Is(err, apperr.CodeNotFound) {
			return c, false, err
		}
	}
	fresh = in.apply(fresh)
	fresh.OwnerUserID = in.OwnerUserID
	p := proposal{change: &in.Change, next: &fresh, creating: true, provider: provider}
	if err := p.check(&v); err != nil {
		return Connection{}, false, err
	}
	auth, err := s.auth.prepare(ctx, &v, provider, &fresh, &in.Change)
	if err != nil {
		return Connection{}, false, err
	}
	if in.Pending {
		fresh.Status, fresh.EnabledStatus = Pending, Pending
		provider = nil // a purpose follows
	}
	checkPurpose(&v, provider, auth, &in.Change)
	auth.assign(&fresh)
	invalid := v.Err()
	// A change of an existing connection is judged by what it leads to there.
	if invalid != nil && (!updating || !identified) {
		return Connection{}, false, invalid
	}
	var uuid string
	err = s.change(ctx, &uuid, func(tx *sql.Tx) error {
		for {
			if updating {
				current, err := lock(ctx, tx, actor.Environment, key, fresh.ConnectionID)
				if err == nil {
					uuid = current.UUID
					if err := s.environments.RequireLive(ctx, tx, actor.Environment); err != nil {
						return err
					}
					if in.changesAuth() {
						return errMoved // it was created since the look above
					}
					e, err := s.edit(ctx, tx, actor, &current, now)
					if err != nil {
						return err
					}
					c, err = s.update(ctx, e, current, &in.Change, nil, apperr.Violations{})
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
				return apperr.New(apperr.CodeConnectionExists, "The provider configuration already has a connection with this id")
			}
			// Another request created it between the two statements: now it can be changed.
		}
		if in.Pending {
			if err := limitPending(ctx, tx, actor.Environment); err != nil {
				return err
			}
		}
		if in.OwnerUserID != "" {
			if err := limitOwned(ctx, tx, actor.Environment, in.OwnerUserID); err != nil {
				return err
			}
		}
		held, err := s.configs.Hold(ctx, tx, actor.Environment, key, fresh.Provider)
		switch {
		case err != nil:
			return err
		case !held: // deleted since it was looked up
			return apperr.Invalid(apperr.Detail{Location: keyField(&in), Rule: "exists", Message: noSuchConfig})
		}
		if err := s.environments.RequireLive(ctx, tx, actor.Environment); err != nil {
			return err
		}
		created = true
		c, err = s.completeCreation(ctx, tx, actor, &fresh, &in.Change, auth, now)
		return err
	})
	if errors.Is(err, errMoved) {
		c, err = s.Update(ctx, actor, key, fresh.ConnectionID, in.Change)
		return c, false, err
	}
	if err != nil {
		return Connection{}, false, err
	}
	return c, created, nil
}

// keyField is the field that names the provider configuration.
func keyField(in *NewConnection) string {
	if in.Provider == nil {
		return "provider_config_key"
	}
	return "provider"
}

// requireGrant returns grant_denied for a connection that an API key could not use. A key that may use only some
// connections must name the id of the new one.
func requireGrant(actor access.Principal, connectionID *string) error {
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

// completeCreation gives an inserted connection its alias and secret and records it.
func (s *Service) completeCreation(ctx context.Context, tx *sql.Tx, actor access.Principal, c *Connection, ch *Change,
	auth *authChange, now time.Time) (Connection, error) {
	// Anyone who guesses the path of a connection without verification can deliver to it.
	if !ch.Alias.Null && c.Webhook.Scheme != SchemeNone && s.Receives(c) {
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
		if err := s.secrets.replace(ctx, tx, c.UUID, ch.Secret, now); err != nil {
			return Connection{}, err
		}
	}
	kinds, err := auth.apply(ctx, &s.auth, tx, c, now)
	if err != nil {
		return Connection{}, err
	}
	if err := ch.within(ctx, tx, nil, c); err != nil {
		return Connection{}, err
	}
	return edit{s: s, tx: tx, actor: actor, now: now, kinds: kinds}.finish(ctx, c, actionCreate, ch.Details)
}
