package deliveries

import (
	"context"
	"database/sql"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// Control applies the changes of subscriptions to their deliveries; it implements subscriptions.DeliveryControl.
type Control struct{ store *Store }

// Control returns the store's Control.
func (s *Store) Control() Control { return Control{s} }

// firstChunk is how many deliveries a change of a subscription changes in its own transaction; the worker changes the
// others.
const firstChunk = 150

// Hold holds the open deliveries of a subscription that is being disabled: the first of them in tx, the others by the
// worker.
func (c Control) Hold(ctx context.Context, tx *sql.Tx, _ id.Environment, subscriptionID string, now time.Time) error {
	return c.changeFirst(ctx, tx, subscriptionID, now, Delivery.held, Pending, RetryWait)
}

// Cancel cancels the open deliveries of a subscription that is being deleted, as Hold does.
func (c Control) Cancel(ctx context.Context, tx *sql.Tx, _ id.Environment, subscriptionID string,
	now time.Time) error {
	if err := c.store.breakers.forget(ctx, tx, subscriptionID); err != nil {
		return err
	}
	return c.changeFirst(ctx, tx, subscriptionID, now, func(d Delivery) Delivery {
		return d.cancelled(now)
	}, Pending, RetryWait, Held)
}

// Changed wakes the worker that completes a change of the subscription.
func (c Control) Changed(subscriptionID string) { c.store.follow.changed(subscriptionID) }

func (c Control) changeFirst(ctx context.Context, tx *sql.Tx, subscriptionID string, now time.Time,
	to func(Delivery) Delivery, states ...Status) error {
	list, err := c.store.ofSubscription(ctx, tx, subscriptionID, firstChunk, states...)
	if err != nil {
		return err
	}
	moves := make([]move, len(list))
	for i, d := range list {
		moves[i] = move{from: d, to: to(d)}
	}
	return c.store.apply(ctx, tx, moves, clock.Millis(now))
}

// Renewed makes attempts to a subscription that was enabled or got another URL count again from now on. If the breaker
// is open, a probe is due.
func (c Control) Renewed(ctx context.Context, tx *sql.Tx, env id.Environment, subscriptionID string,
	now time.Time) error {
	return c.store.breakers.renew(ctx, tx, env, subscriptionID, now)
}
