package subscriptions

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// actor is the name under which the service itself changes subscriptions.
const actor = "deliveries"

// Disable disables the subscription on behalf of the service, for a reason that its owner can read, and holds its open
// deliveries. A subscription that is disabled or deleted stays as it is. One that the environment never had is
// not_found.
func (s *Service) Disable(ctx context.Context, env id.Environment, subscriptionID, reason string) error {
	if !id.Is(id.PrefixSubscription, subscriptionID) {
		return notFound()
	}
	defer s.cfg.Deliveries.Changed(subscriptionID)
	defer s.changed(ctx, env, subscriptionID)
	return s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		r, err := find(ctx, tx, access.Whole(env), subscriptionID, true)
		if err != nil {
			return err
		}
		now := s.cfg.Clock.Now()
		disabled, err := db.Changed(tx.ExecContext(ctx, `UPDATE webhook_subscriptions
			SET enabled = $3, disabled_reason = $4, updated_ms = CASE WHEN updated_ms >= $5 THEN updated_ms + 1 ELSE $5 END
			WHERE environment_id = $1 AND id = $2 AND enabled AND deleted_ms IS NULL`,
			string(env), subscriptionID, false, reason, clock.Millis(clock.After(now, r.UpdatedAt))))
		if err != nil {
			return fmt.Errorf("disable webhook subscription: %w", err)
		}
		if !disabled {
			return nil
		}
		if err := s.cfg.Deliveries.Hold(ctx, tx, env, subscriptionID, now); err != nil {
			return err
		}
		sub := r.Subscription
		sub.Enabled, sub.DisabledReason, sub.UpdatedAt = false, reason, now
		for _, a := range s.cfg.Emitters {
			if err := a.SubscriptionDisabled(ctx, tx, &sub); err != nil {
				return err
			}
		}
		return s.record(ctx, tx, now, audit.Event{
			Environment: env, Actor: access.System(actor), Action: "webhook_subscription.disable", TargetID: subscriptionID,
			Before: state(r.Subscription, 1), After: state(sub, 1),
		})
	})
}
