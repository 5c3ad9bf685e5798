package connections

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"sallyport/internal/providers/configs"
)

// assign sets the fields of the connection's own row.
func (a *authChange) assign(c *Connection) {
	if a != nil {
		c.AuthMode, c.Config, c.Account = a.mode, a.config, a.account
	}
}

// apply makes the change to a locked connection, in the transaction. It returns what kinds of changes it is.
func (a *authChange) apply(ctx context.Context, auth *authenticator, tx *sql.Tx, c *Connection,
	now time.Time) ([]ChangeKind, error) {
	if a == nil {
		return nil, nil
	}
	a.assign(c)
	switch {
	case a.drop:
		if err := auth.vault.Delete(ctx, tx, c.Environment, c.UUID); err != nil {
			return nil, err
		}
		return c.moveTo(Active, ""), forgetHealth(ctx, tx, c.Environment, c.UUID)
	case a.store != nil:
		a.store.ConnectionUUID, a.store.Environment = c.UUID, c.Environment
		set, err := auth.vault.Store(ctx, tx, a.store)
		if err != nil {
			return nil, err
		}
		if err := auth.tokens.Schedule(ctx, tx, &set, a.source); err != nil {
			return nil, err
		}
		connected := Connected
		if c.Credentials != nil || c.EnabledStatus == Revoked {
			connected = Reconnected
		}
		foreign, err := isForeign(ctx, tx, c, set.ClientID)
		if err != nil {
			return nil, err
		}
		if foreign { // since they were tested
			return c.moveTo(NeedsReauth, ReasonClientChanged), forgetHealth(ctx, tx, c.Environment, c.UUID)
		}
		kinds := append(c.moveTo(Active, ""), connected)
		if a.report == nil {
			return kinds, forgetHealth(ctx, tx, c.Environment, c.UUID)
		}
		health := (*Health)(nil).after(a.report, now)
		return kinds, storeHealth(ctx, tx, c.Environment, c.UUID, &health)
	case c.Credentials != nil && !contain(allowedHosts(a.source.Engine, a.source.Target, c.Credentials), a.hosts):
		if c.isDead() || c.EnabledReason == ReasonClientChanged {
			return nil, nil // nothing is sent anyway, and the change can be reversed
		}
		return c.moveTo(NeedsReauth, ReasonHostChanged), nil
	case c.Credentials != nil && c.EnabledReason == ReasonHostChanged:
		// The change was reversed before anything was sent, and a renewal that was put off meanwhile is due.
		return c.restore(), auth.resume(ctx, tx, c)
	default:
		return nil, nil
	}
}

// connects reports whether a change of those kinds has stored credentials.
func connects(kinds []ChangeKind) bool {
	return slices.Contains(kinds, Connected) || slices.Contains(kinds, Reconnected)
}

// moveTo gives the connection another status, which shows while no user disables it, and returns the kinds of that
// change.
func (c *Connection) moveTo(status Status, reason string) []ChangeKind {
	before := c.EnabledStatus
	c.EnabledStatus, c.EnabledReason = status, reason
	if c.Status != Disabled {
		c.Status, c.StatusReason = status, reason
	}
	lost := map[Status]ChangeKind{NeedsReauth: LostCredentials, Expired: HasExpired, Error: Fails, Revoked: WasRevoked}
	kind, isLost := lost[status]
	_, wasLost := lost[before]
	switch {
	case before == status:
		return nil
	case isLost:
		return []ChangeKind{kind}
	case wasLost && status == Active:
		return []ChangeKind{Recovered}
	default:
		return nil
	}
}

// equals reports whether the change leaves a connection as it is.
func (a *authChange) equals(c *Connection) bool {
	return a == nil || a.store == nil && (!a.drop || c.Credentials == nil) && a.mode == c.AuthMode &&
		maps.Equal(a.config, c.Config) && a.account == c.Account
}

// isForeign reports whether tokens of an OAuth client are of no use to a connection, because its provider configuration
// has another one by now. A client that is not known is none.
func isForeign(ctx context.Context, tx *sql.Tx, c *Connection, clientID string) (bool, error) {
	if clientID == "" {
		return false, nil
	}
	present, err := configs.ClientID(ctx, tx, c.Environment, c.ProviderConfigKey)
	if err != nil {
		return false, err //nolint:wrapcheck // it says what failed
	}
	return present != clientID, nil
}
