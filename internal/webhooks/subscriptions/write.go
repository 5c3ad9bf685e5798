package subscriptions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// maxRaces limits how often a change starts again because another change was faster.
const maxRaces = 5

var errRace = errors.New("the webhook subscription keeps changing")

// Create stores a subscription in the principal's environment. A bounded API key must name a connection that it may
// use; otherwise the error is grant_denied. So the subscription stays bounded after the key is gone. The subscription
// matches the events that arrive after Create has returned. The secret is returned if it was generated, and never
// again. All violations are in one validation_error. A removed environment is not_found.
func (s *Service) Create(ctx context.Context, p access.Principal, ch Change) (Subscription, secretbox.Secret, error) {
	now := clock.FromMillis(clock.Millis(s.cfg.Clock.Now()))
	base := Subscription{
		ID: id.New(id.PrefixSubscription), Environment: p.Environment, Enabled: true, PayloadMode: Envelope,
		RetrySchedule: defaultRetrySchedule(), Timeout: DefaultTimeout, Headers: []Header{}, Metadata: map[string]any{},
		Retiring: []RetiringSecret{}, CreatedAt: now, UpdatedAt: now,
	}
	sub := ch.apply(base)
	if ch.Metadata.Given() {
		sub.Metadata = ch.Metadata.Value // a creation merges with nothing, so null members stay
	}
	if err := p.Require(access.RouteWebhooks, sub.ConnectionID); err != nil {
		return Subscription{}, "", err
	}
	var v apperr.Violations
	ch.CheckNew(&v)
	if err := s.check(ctx, &v, &ch, &sub); err != nil {
		return Subscription{}, "", err
	}
	if err := v.Err(); err != nil {
		return Subscription{}, "", err
	}
	secret, generated := ch.SigningSecret.Value, secretbox.Secret("")
	if !ch.SigningSecret.Set {
		secret = NewSigningSecret()
		generated, sub.SecretHint = secret, secretHint(secret)
	}
	r, err := s.sealAll(sub, secret)
	if err != nil {
		return Subscription{}, "", err
	}
	defer s.changed(ctx, p.Environment, sub.ID)
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		if err := insert(ctx, tx, r); err != nil {
			return err
		}
		if err := s.cfg.Environments.RequireLive(ctx, tx, p.Environment); err != nil {
			return err
		}
		return s.record(ctx, tx, now, event(p, "webhook_subscription.create", sub.ID, nil, state(sub, 1)))
	})
	if err != nil {
		return Subscription{}, "", err
	}
	return sub, generated, nil
}

// Update changes a subscription of the principal's environment and returns the result. URL, secret, headers and limits
// apply from the next attempt on. A replaced secret continues to sign alongside the new one for a while. Which events
// went to the subscription earlier does not change. All violations are in one validation_error. An unknown or deleted
// subscription is not_found.
func (s *Service) Update(ctx context.Context, p access.Principal, subscriptionID string,
	ch Change) (Subscription, error) {
	for range maxRaces {
		sub, done, err := s.tryUpdate(ctx, p, subscriptionID, ch)
		if err != nil || done {
			return sub, err
		}
	}
	return Subscription{}, apperr.Unavailable(fmt.Errorf("update %s: %w", subscriptionID, errRace))
}

// tryUpdate updates the subscription as it reads it. done is false if it has changed before the write. Look-ups and
// encryption happen before the transaction.
func (s *Service) tryUpdate(ctx context.Context, p access.Principal, subscriptionID string,
	ch Change) (sub Subscription, done bool, err error) {
	stored, err := s.find(ctx, p.View(), subscriptionID)
	if err != nil {
		return Subscription{}, false, err
	}
	before, err := s.openWithHealth(ctx, stored)
	if err != nil {
		return Subscription{}, false, err
	}
	after := ch.apply(before)
	if err := p.Require(access.RouteWebhooks, after.ConnectionID); err != nil {
		return Subscription{}, false, err
	}
	var v apperr.Violations
	ch.Check(&v)
	if err := s.check(ctx, &v, &ch, &after); err != nil {
		return Subscription{}, false, err
	}
	if err := v.Err(); err != nil {
		return Subscription{}, false, err
	}
	now := s.cfg.Clock.Now()
	rotation, err := s.rotate(stored, &ch, now)
	if err != nil {
		return Subscription{}, false, err
	}
	if !rotation.changed && !rotation.secret.Set && same(before, after) {
		return before, true, nil
	}
	change := event(p, "webhook_subscription.update", subscriptionID, state(before, 1), state(after, 1))
	if rotation.secret.Set {
		change.After = state(after, 2)
	}
	if rotation.changed {
		change.Details = audit.State{"secret_grace_seconds": rotation.grace}
		after.Retiring = shown(rotation.retiring)
	}
	after.UpdatedAt = stored.nextVersion(now)
	next, err := s.sealChanged(stored, before, after, rotation)
	if err != nil {
		return Subscription{}, false, err
	}
	renewed := before.ForwardURL != after.ForwardURL || !before.Enabled && after.Enabled
	if renewed || before.Enabled != after.Enabled {
		defer s.cfg.Deliveries.Changed(subscriptionID)
	}
	defer s.changed(ctx, p.Environment, subscriptionID)
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		if done, err = update(ctx, tx, stored, next); err != nil || !done {
			return err
		}
		if before.Enabled && !after.Enabled {
			if err := s.cfg.Deliveries.Hold(ctx, tx, p.Environment, subscriptionID, now); err != nil {
				return err
			}
		}
		if renewed {
			if err := s.cfg.Deliveries.Renewed(ctx, tx, p.Environment, subscriptionID, now); err != nil {
				return err
			}
		}
		return s.record(ctx, tx, now, change)
	})
	return after, done, err
}

// Delete removes a subscription of the principal's environment. Its open deliveries are cancelled, its past ones kept.
func (s *Service) Delete(ctx context.Context, p access.Principal, subscriptionID string) error {
	if _, err := s.find(ctx, p.View(), subscriptionID); err != nil {
		return err
	}
	defer s.cfg.Deliveries.Changed(subscriptionID)
	defer s.changed(ctx, p.Environment, subscriptionID)
	return s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		now := s.cfg.Clock.Now()
		stored, err := find(ctx, tx, p.View(), subscriptionID, false)
		if err != nil {
			return err
		}
		deleted, err := markDeleted(ctx, tx, p.Environment, subscriptionID, now)
		if err != nil {
			return err
		}
		if !deleted {
			return notFound()
		}
		if err := s.cfg.Deliveries.Cancel(ctx, tx, p.Environment, subscriptionID, now); err != nil {
			return err
		}
		return s.record(ctx, tx, now, event(p, "webhook_subscription.delete", subscriptionID, state(stored.Subscription, 1),
			nil))
	})
}

func event(p access.Principal, action, subscriptionID string, before, after audit.State) audit.Event {
	return audit.Event{
		Team: p.Team, Environment: p.Environment, Actor: p, Action: action, TargetID: subscriptionID, Before: before,
		After: after,
	}
}

func (s *Service) sealAll(sub Subscription, secret secretbox.Secret) (row, error) {
	r := row{Subscription: sub}
	var err error
	if r.sealedURL, err = s.seal(sub.ID, columnURL, sub.ForwardURL); err != nil {
		return row{}, err
	}
	if r.sealedSecret, err = s.seal(sub.ID, columnSecret, secret.Reveal()); err != nil {
		return row{}, err
	}
	r.sealedHeaders, err = s.sealHeaders(sub.ID, sub.Headers)
	return r, err
}

// sealChanged returns the row that replaces stored: the subscription after the change, with new seals for the values
// that the change replaces.
func (s *Service) sealChanged(stored row, before, after Subscription, rotation rotation) (next row, err error) {
	next = stored
	next.Subscription = after
	if before.ForwardURL != after.ForwardURL {
		if next.sealedURL, err = s.seal(after.ID, columnURL, after.ForwardURL); err != nil {
			return row{}, err
		}
	}
	if rotation.secret.Set {
		if next.sealedSecret, err = s.seal(after.ID, columnSecret, rotation.secret.Value.Reveal()); err != nil {
			return row{}, err
		}
	}
	if rotation.changed {
		if err := s.setRetiring(&next, rotation.retiring); err != nil {
			return row{}, err
		}
	}
	if !reflect.DeepEqual(before.Headers, after.Headers) {
		next.sealedHeaders, err = s.sealHeaders(after.ID, after.Headers)
	}
	return next, err
}

// same reports whether two states of a subscription are equal, apart from the secrets that sign.
func same(before, after Subscription) bool {
	before.Retiring, before.UpdatedAt, before.SecretHint = after.Retiring, after.UpdatedAt, after.SecretHint
	return reflect.DeepEqual(before, after)
}
