package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
)

// firstChunk is how many deliveries a change of a subscription changes in its own transaction; the worker changes the
// others.
const firstChunk = 150

// Hold holds the open deliveries of a subscription that is being disabled: the first of them in tx, the others by the
// worker.
func (s *Store) Hold(ctx context.Context, tx *sql.Tx, _ id.Environment, subscriptionID string, now time.Time) error {
	return s.changeFirst(ctx, tx, subscriptionID, now, func(d Delivery) Delivery {
		return d.held(now)
	}, Pending, RetryWait)
}

// Cancel cancels the open deliveries of a subscription that is being deleted, as Hold does.
func (s *Store) Cancel(ctx context.Context, tx *sql.Tx, _ id.Environment, subscriptionID string,
	now time.Time) error {
	return s.changeFirst(ctx, tx, subscriptionID, now, func(d Delivery) Delivery {
		return d.cancelled(now)
	}, Pending, RetryWait, Held)
}

// Changed wakes the worker that completes a change.
func (s *Store) Changed() { s.follow.Signal() }

func (s *Store) changeFirst(ctx context.Context, tx *sql.Tx, subscriptionID string, now time.Time,
	to func(Delivery) Delivery, states ...Status) error {
	list, err := s.ofSubscription(ctx, tx, subscriptionID, firstChunk, states...)
	if err != nil {
		return err
	}
	moves := make([]move, len(list))
	for i, d := range list {
		moves[i] = move{from: d, to: to(d)}
	}
	return s.apply(ctx, tx, moves, clock.Millis(now))
}

// followInterval is how often open deliveries are compared with their subscriptions.
const followInterval = time.Second

// follower makes open deliveries follow their subscriptions: held while disabled, cancelled when deleted, released at a
// ramp when enabled. It compares both sides instead of keeping a list, so a crash cannot lose anything.
type follower struct {
	store   *Store
	subs    Subscriptions
	clock   clock.Clock
	log     *slog.Logger
	wake    jobs.Wake
	release releases
}

// followSubscriptions takes one round over the subscriptions with open deliveries.
func (f *follower) followSubscriptions(ctx context.Context) time.Duration {
	open, err := f.store.withOpen(ctx)
	if err != nil {
		if ctx.Err() == nil {
			f.log.ErrorContext(ctx, "cannot compare open deliveries with their subscriptions",
				slog.String("error", err.Error()))
		}
		return followInterval
	}
	now := f.clock.Now()
	for _, o := range open {
		target, err := f.subs.Target(ctx, o.Environment, o.ID)
		switch {
		case apperr.Is(err, apperr.CodeNotFound) || err == nil && target.Deleted:
			err = f.changeAll(ctx, o.ID, now, func(d Delivery) Delivery { return d.cancelled(now) }, Pending, RetryWait, Held)
		case err != nil:
		case !target.Enabled && o.Waiting:
			f.release.forget(o.ID)
			err = f.changeAll(ctx, o.ID, now, func(d Delivery) Delivery { return d.held(now) }, Pending, RetryWait)
		case target.Enabled && o.Held:
			err = f.releaseHeld(ctx, o.ID, now)
		}
		if err != nil && ctx.Err() == nil {
			f.log.ErrorContext(ctx, "cannot change open deliveries after a change of their subscription",
				slog.String("subscription_id", o.ID), slog.String("error", err.Error()))
		}
	}
	return followInterval
}

// changeAll changes all deliveries of the subscription in these states, in small transactions.
func (f *follower) changeAll(ctx context.Context, subscriptionID string, now time.Time, to func(Delivery) Delivery,
	states ...Status) error {
	for ctx.Err() == nil {
		n, err := f.changeSome(ctx, subscriptionID, chunk, now, to, states...)
		if err != nil || n < chunk {
			return err
		}
	}
	return nil
}

// changeSome changes up to limit deliveries of the subscription in these states, and returns how many.
func (f *follower) changeSome(ctx context.Context, subscriptionID string, limit int, now time.Time,
	to func(Delivery) Delivery, states ...Status) (int, error) {
	n := 0
	err := f.store.db.Tx(ctx, func(tx *sql.Tx) error {
		list, err := f.store.ofSubscription(ctx, tx, subscriptionID, limit, states...)
		if err != nil {
			return err
		}
		n = len(list)
		moves := make([]move, n)
		for i, d := range list {
			moves[i] = move{from: d, to: to(d)}
		}
		return f.store.apply(ctx, tx, moves, clock.Millis(now))
	})
	if errors.Is(err, errStale) {
		return 0, nil // they have changed since; the next round looks again
	}
	return n, err
}

// releaseHeld releases as many held deliveries of the subscription as the ramp allows.
func (f *follower) releaseHeld(ctx context.Context, subscriptionID string, now time.Time) error {
	n := f.release.allowed(subscriptionID, now)
	if n == 0 {
		return nil
	}
	released, err := f.changeSome(ctx, subscriptionID, n, now, func(d Delivery) Delivery { return d.returned(now) }, Held)
	if err != nil {
		return err
	}
	if released < n {
		f.release.forget(subscriptionID)
	}
	if released > 0 {
		f.wake.Signal()
	}
	return nil
}

// Ramp of a release: a receiver that comes back does not get all held deliveries at the same time.
const (
	releaseStart  = 50
	releaseMax    = chunk
	releaseDouble = 10 * time.Second
)

// releases records which subscriptions are being released, since when, and when last.
type releases struct {
	mu    sync.Mutex
	since map[string]time.Time
	last  map[string]time.Time
}

// allowed returns how many deliveries of the subscription may be released now: releaseStart per second at first,
// doubled every releaseDouble up to releaseMax.
func (r *releases) allowed(subscriptionID string, now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.since == nil {
		r.since, r.last = map[string]time.Time{}, map[string]time.Time{}
	}
	if _, ok := r.since[subscriptionID]; !ok {
		r.since[subscriptionID] = now
	}
	if last, ok := r.last[subscriptionID]; ok && now.Sub(last) < followInterval {
		return 0
	}
	for sub, last := range r.last {
		if now.Sub(last) > time.Minute {
			delete(r.last, sub)
		}
	}
	r.last[subscriptionID] = now
	rate := releaseStart
	for t := now.Sub(r.since[subscriptionID]); t >= releaseDouble && rate < releaseMax; t -= releaseDouble {
		rate *= 2
	}
	return min(rate, releaseMax)
}

// forget ends a release.
func (r *releases) forget(subscriptionID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.since, subscriptionID)
	// last stays for one interval, so that a subscription switched off and on cannot outrun the ramp.
}
