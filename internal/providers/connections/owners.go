package connections

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// reasonOwnerDisabled is the status reason of a connection whose owner is disabled in the team, and reasonOwnerRemoved
// that of one whose owner was removed from it.
const (
	reasonOwnerDisabled = "The member to whom it belongs is disabled"
	reasonOwnerRemoved  = "owner_removed"
)

// OwnerDisabled refuses to enable a connection whose owner is disabled.
const OwnerDisabled = "The member to whom the connection belongs is disabled; enable the member, and it is enabled " +
	"with them"

// requireOwner returns connection_owned unless the actor may use and replace the connection's credentials: those of one
// that belongs to a member are theirs alone. The service itself keeps them usable.
func (c *Connection) requireOwner(actor access.Principal) error {
	switch {
	case c.OwnerUserID == "", actor.Kind == access.KindSystem:
		return nil
	case c.EnabledReason == reasonOwnerRemoved:
		// A request that began before the removal may still be on its way, and one who comes back signs in on the page.
		return apperr.New(apperr.CodeConnectionNotReady, "The member to whom the connection belongs was removed from the "+
			"team; one who is a member again connects under a new link")
	case actor.Kind == access.KindUser && actor.ID == c.OwnerUserID:
		return nil
	default:
		return apperr.New(apperr.CodeConnectionOwned, "The connection belongs to a member of the team, and only their own "+
			"requests can use or replace its credentials")
	}
}

// maxOwned is how many connections of an environment may belong to a member. All of them change in the transaction in
// which the member is disabled or removed.
const maxOwned = 100

// limitOwned returns a validation error if a user has more than maxOwned connections, with one that the transaction has
// inserted. Concurrent transactions may exceed the limit by their number.
func limitOwned(ctx context.Context, tx *sql.Tx, env id.Environment, user string) error {
	full, err := hasOwned(ctx, tx, env, user, maxOwned)
	if err == nil && full {
		err = apperr.Invalid(apperr.Detail{Location: "connect.user_id", Rule: "limit", Message: fmt.Sprintf("has %d "+
			"connections in the environment, which is as many as a member may have; delete some of them", maxOwned)})
	}
	return err
}

// Owners makes connections follow the state of the members to whom they belong. It is safe for concurrent use.
type Owners struct{ svc *Service }

// NewOwners returns the Owners of a Service's connections.
func NewOwners(s *Service) Owners { return Owners{s} }

// Suspend disables, in tx, the connections of a member in environments of the actor's team, and Resume enables those
// that Suspend has disabled. Release removes the credentials of a member who is no longer in the team. Each returns
// what is to be called when the transaction is committed.
func (o Owners) Suspend(ctx context.Context, tx *sql.Tx, actor access.Principal, in []id.Environment,
	user string) (committed func(), err error) {
	return o.each(ctx, tx, actor, in, user, func(e edit, c *Connection) (string, error) {
		if c.Status == Disabled {
			return "", nil
		}
		c.Status, c.StatusReason = Disabled, reasonOwnerDisabled
		return actionDisable, nil
	})
}

// Resume is described with Suspend.
func (o Owners) Resume(ctx context.Context, tx *sql.Tx, actor access.Principal, in []id.Environment,
	user string) (committed func(), err error) {
	return o.each(ctx, tx, actor, in, user, func(e edit, c *Connection) (string, error) {
		if c.StatusReason != reasonOwnerDisabled {
			return "", nil
		}
		c.Status, c.StatusReason = c.EnabledStatus, c.EnabledReason
		return actionEnable, o.svc.auth.resume(ctx, tx, c)
	})
}

// Release is described with Suspend. The provider is not asked to revoke the credentials: the transaction cannot wait
// for it, and afterwards no one knows them.
func (o Owners) Release(ctx context.Context, tx *sql.Tx, actor access.Principal, in []id.Environment,
	user string) (committed func(), err error) {
	return o.each(ctx, tx, actor, in, user, func(e edit, c *Connection) (string, error) {
		if c.StatusReason == reasonOwnerDisabled {
			c.Status, c.StatusReason = c.EnabledStatus, c.EnabledReason
		}
		if err := o.svc.auth.vault.Delete(ctx, tx, c.Environment, c.UUID); err != nil {
			return "", err
		}
		return actionRevoke, forgetHealth(ctx, tx, c.Environment, c.UUID)
	})
}

// each calls fn for every connection of a member, locked, and writes it with the action that fn returns; empty for
// nothing.
func (o Owners) each(ctx context.Context, tx *sql.Tx, actor access.Principal, in []id.Environment, user string,
	fn func(edit, *Connection) (action string, err error)) (func(), error) {
	var changed []string
	committed := func() {
		for _, uuid := range changed {
			accounts(o).Forget(uuid)
		}
	}
	list, err := ownedBy(ctx, tx, in, user)
	if err != nil {
		return committed, err
	}
	for i := range list {
		c, err := lock(ctx, tx, list[i].Environment, list[i].ProviderConfigKey, list[i].ConnectionID)
		switch {
		case apperr.Is(err, apperr.CodeNotFound), err == nil && c.UUID != list[i].UUID:
			continue // deleted meanwhile
		case err != nil:
			return committed, err
		}
		as := actor
		as.Environment = c.Environment
		e, err := o.svc.edit(ctx, tx, as, &c, o.svc.now())
		if err != nil {
			return committed, err
		}
		action, err := fn(e, &c)
		if err != nil {
			return committed, err
		}
		if action == "" {
			continue
		}
		if action == actionRevoke {
			status := Revoked
			if c.EnabledStatus == Pending {
				status = Pending // no one has connected it, so that it goes with its link
			}
			e.kinds = c.moveTo(status, reasonOwnerRemoved)
		}
		changed = append(changed, c.UUID)
		if _, err := e.write(ctx, &c, action, audit.State{"owner_user_id": user}); err != nil {
			return committed, err
		}
	}
	return committed, nil
}

// ownedBy returns the connections of a member in environments, without their credentials.
func ownedBy(ctx context.Context, q db.Querier, in []id.Environment, user string) ([]Connection, error) {
	if user == "" || len(in) == 0 {
		return nil, nil
	}
	list, err := db.All(ctx, q, func(c *Connection) db.Columns {
		return storedColumns(c).Only("uuid", "environment_id", "provider_config_key", "connection_id")
	}, table, db.AnyOf(new(db.Where).And("owner_user_id = ?", user).And("owner_user_id <> ''"), "environment_id", in),
		"ORDER BY uuid")
	if err != nil {
		return nil, fmt.Errorf("list the connections of a member: %w", err)
	}
	return list, nil
}
