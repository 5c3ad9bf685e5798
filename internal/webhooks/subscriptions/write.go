package subscriptions

import (
	"context"
	"database/sql"
	"reflect"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

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
	s.checkURL(ctx, &v, &ch)
	if err := s.checkResult(ctx, s.cfg.DB.Read(), &v, &ch, &sub); err != nil {
		return Subscription{}, "", err
	}
	if err := v.Err(); err != nil {
		return Subscription{}, "", err
	}
	secret, generated := ch.SigningSecret.Value, secretbox.Secret("")
	if !ch.SigningSecret.Given() {
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
// subscription is not_found, and another version than that of the request precondition_failed. Updates of one
// subscription wait for each other.
func (s *Service) Update(ctx context.Context, p access.Principal, subscriptionID string,
	ch Change) (Subscription, error) {
	shown, err := s.Get(ctx, p.View(), subscriptionID)
	if err != nil {
		return Subscription{}, err
	}
	if err := p.Require(access.RouteWebhooks, ch.ConnectionID.Or(shown.ConnectionID, "")); err != nil {
		return Subscription{}, err
	}
	// The name of the URL's host is resolved, and the filter compiled, before anything is locked.
	var alone apperr.Violations
	ch.Check(&alone)
	s.checkURL(ctx, &alone, &ch)
	var u update
	defer func() {
		if u.renewed || u.before.Enabled != u.after.Enabled {
			s.cfg.Deliveries.Changed(subscriptionID)
		}
	}()
	defer s.changed(ctx, p.Environment, subscriptionID)
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		stored, err := s.lock(ctx, tx, p.View(), subscriptionID)
		if err != nil {
			return err
		}
		var v apperr.Violations
		v.AddAll(alone.Details())
		if u, err = s.prepare(ctx, tx, p, stored, &ch, &v); err != nil || !u.changes {
			return err
		}
		return s.store(ctx, tx, p, u)
	})
	if err != nil {
		return Subscription{}, err
	}
	u.after.Health = shown.Health
	return u.after, nil
}

// update is a change of a locked subscription.
type update struct {
	// changes says whether there is anything to store.
	changes       bool
	before, after Subscription
	// stored and next are the rows of the two.
	stored, next row
	rotation     rotation
	// renewed says that its receiver is another, or gets deliveries again.
	renewed bool
	now     time.Time
}

// prepare returns what the change does to a locked subscription. v holds the violations that the change shows by
// itself.
func (s *Service) prepare(ctx context.Context, tx *sql.Tx, p access.Principal, stored row, ch *Change,
	v *apperr.Violations) (update, error) {
	before, err := s.open(stored)
	if err != nil {
		return update{}, err
	}
	u := update{stored: stored, before: before, after: ch.apply(before), now: s.cfg.Clock.Now()}
	if err := p.Require(access.RouteWebhooks, u.after.ConnectionID); err != nil {
		return update{}, err
	}
	if err := s.checkResult(ctx, tx, v, ch, &u.after); err != nil {
		return update{}, err
	}
	if err := v.Err(); err != nil {
		return update{}, err
	}
	if u.rotation, err = s.rotate(stored, ch, u.now); err != nil {
		return update{}, err
	}
	if !u.rotation.changed && !u.rotation.secret.Set && same(before, u.after) {
		u.after = before
		return u, nil
	}
	if u.changes = true; u.rotation.changed {
		u.after.Retiring = shown(u.rotation.retiring)
	}
	u.after.UpdatedAt = clock.After(u.now, stored.UpdatedAt)
	u.next, err = s.sealChanged(stored, before, u.after, u.rotation)
	u.renewed = before.ForwardURL != u.after.ForwardURL || !before.Enabled && u.after.Enabled
	return u, err
}

// store writes an update, with what it does to the deliveries, and its audit event.
func (s *Service) store(ctx context.Context, tx *sql.Tx, p access.Principal, u update) error {
	if err := write(ctx, tx, u.stored, u.next); err != nil {
		return err
	}
	if u.before.Enabled && !u.after.Enabled {
		if err := s.cfg.Deliveries.Hold(ctx, tx, p.Environment, u.stored.ID, u.now); err != nil {
			return err
		}
	}
	if u.renewed {
		if err := s.cfg.Deliveries.Renewed(ctx, tx, p.Environment, u.stored.ID, u.now); err != nil {
			return err
		}
	}
	e := event(p, "webhook_subscription.update", u.stored.ID, state(u.before, 1), state(u.after, 1))
	if u.rotation.secret.Set {
		e.After = state(u.after, 2)
	}
	if u.rotation.changed {
		e.Details = audit.State{"secret_grace_seconds": u.rotation.grace}
	}
	return s.record(ctx, tx, u.now, e)
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
		stored, err := s.lock(ctx, tx, p.View(), subscriptionID)
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
