package connections

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/providers/configs"
)

// ClientWatch keeps the connections of a provider configuration from using tokens of a former OAuth client.
type ClientWatch struct {
	Clock clock.Clock
	// UsesClient reports whether the tokens of a provider's mode belong to the OAuth client.
	UsesClient func(provider, mode string) bool
	// OnChange returns the hooks of the connections' changes.
	OnChange func() []ChangeHook
}

// Changed is a configs.ClientHook. The connections with tokens of the former client need their credentials again: the
// provider would refuse to renew them. A first client changes nothing.
func (w ClientWatch) Changed(ctx context.Context, tx *sql.Tx, change configs.ClientChange) error {
	if change.Before == "" {
		return nil
	}
	where := new(db.Where).And("environment_id = ?", string(change.Environment)).
		And("provider_config_key = ?", change.Key).And("auth_mode <> ?", NoAuth)
	list, err := readAll(ctx, tx, db.AnyOf(where, "enabled_status", []Status{Active, Error, Expired}), "ORDER BY uuid")
	if err != nil {
		return err
	}
	for i := range list {
		if !w.UsesClient(change.Provider, list[i].AuthMode) {
			continue
		}
		c, err := lock(ctx, tx, change.Environment, change.Key, list[i].ConnectionID)
		if err != nil {
			return fmt.Errorf("lock a connection of another client: %w", err)
		}
		kinds := c.moveTo(NeedsReauth, ReasonClientChanged)
		c.UpdatedAt = clock.After(w.Clock.Now(), c.UpdatedAt)
		if err := update(ctx, tx, &c); err != nil {
			return err
		}
		if err := publish(ctx, tx, w.OnChange(), &c, kinds); err != nil {
			return err
		}
	}
	return nil
}
