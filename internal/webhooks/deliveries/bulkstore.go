package deliveries

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
)

var createDeliveries = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: `INSERT INTO deliveries (event_uuid, subscription_id, id, environment_id, status, generation, due_ms,
		created_ms, updated_ms, claim_id, generation_attempts, attempt_count, leases_lost)`,
	Types: []string{"text", "text", "text", "text", "text", "bigint", "bigint", "bigint", "bigint"},
	Row:   "(?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, 0, 0)",
	After: "ON CONFLICT (event_uuid, subscription_id) DO NOTHING",
}

// create stores deliveries of stored events, and changes the events' counters. It returns errStale, and must be rolled
// back, if one of them exists by now. Deliveries of events whose payload was removed meanwhile are cancelled, as by
// apply.
func (s *Store) create(ctx context.Context, tx *sql.Tx, list []Delivery, nowMillis int64) error {
	if len(list) == 0 {
		return nil
	}
	args := make([]any, 0, len(list)*createDeliveries.Columns())
	changes := make([]events.Change, len(list))
	moves := make([]move, len(list))
	for i := range list {
		d := &list[i]
		args = append(args, d.EventUUID, d.SubscriptionID, d.ID, string(d.Environment), string(d.Status), d.Generation,
			clock.Millis(d.Due), nowMillis, nowMillis)
		changes[i] = events.Change{Environment: d.Environment, EventUUID: d.EventUUID, Counters: d.counters(),
			At: clock.FromMillis(nowMillis)}
		moves[i] = move{to: *d}
	}
	log := events.Log{At: clock.FromMillis(nowMillis)}
	count, found := events.Apply(changes, &log)
	n, err := s.db.ExecAll(ctx, tx, db.Statement{Rows: createDeliveries, Args: args}, found, log.Statement())
	if err != nil {
		return fmt.Errorf("create deliveries: %w", err)
	}
	// An event that is gone counts as changed: the retry does not find it.
	if n[0] != int64(len(list)) || n[1] != int64(count) {
		return errStale
	}
	cancel, err := s.cancelExpunged(ctx, tx, moves, nowMillis)
	if err != nil {
		return err
	}
	return s.applyAll(ctx, tx, cancel, nowMillis, nil)
}

// BulkProgress counts the outcomes of started deliveries.
type BulkProgress struct {
	// Open are those whose first attempt has not ended.
	Open []Started
	// Succeeded and Failed count the others by that attempt, or by the last one if there were more. Other counts those
	// that ended without an attempt: held, because their subscription is disabled or its receiver fails, cancelled,
	// replayed again, or gone.
	Succeeded, Failed, Other int64
}

// Progress returns the outcomes of deliveries of the environment that a bulk replay has started since the time given.
// The list is at most as long as one transaction's.
func (s *Service) Progress(ctx context.Context, env id.Environment, list []Started,
	since time.Time) (BulkProgress, error) {
	var p BulkProgress
	if len(list) == 0 {
		return p, nil
	}
	args := []any{string(env)}
	for _, st := range list {
		args = append(args, st.EventUUID)
	}
	for _, st := range list {
		args = append(args, st.SubscriptionID)
	}
	rows, err := s.store.query(ctx, s.db.Read(), "d.environment_id = $1 AND d.event_uuid IN "+db.In(2, len(list))+
		" AND d.subscription_id IN "+db.In(2+len(list), len(list)), args...)
	if err != nil {
		return p, err
	}
	byKey := make(map[Key]*Delivery, len(rows))
	for i := range rows {
		byKey[rows[i].Key] = &rows[i]
	}
	soon, err := s.sentSoon(ctx, env, rows, since)
	if err != nil {
		return p, err
	}
	for _, st := range list {
		p.add(st, byKey[st.Key], soon[st.SubscriptionID])
	}
	return p, nil
}

// sentSoon returns the subscriptions whose held deliveries may be sent soon: they are enabled, and their breaker is
// closed by now or was not probed for long enough since the time given to know that the receiver still fails: a second
// probe follows only the failure of the first.
func (s *Service) sentSoon(ctx context.Context, env id.Environment, list []Delivery,
	since time.Time) (map[string]bool, error) {
	soon := map[string]bool{}
	for i := range list {
		sub := list[i].SubscriptionID
		if _, known := soon[sub]; known || list[i].Status != Held {
			continue
		}
		t, err := s.subs.Target(ctx, env, sub)
		if err != nil && !apperr.Is(err, apperr.CodeNotFound) {
			return nil, err
		}
		soon[sub] = err == nil && !t.Deleted && t.Enabled
	}
	breakers, err := s.store.breakers.of(ctx, slices.Collect(maps.Keys(soon)))
	if err != nil {
		return nil, err
	}
	for _, b := range breakers {
		if probed := b.probe.Add(-probeInterval); b.opened != nil && probed.Sub(since) >= 2*probeInterval {
			soon[b.subscriptionID] = false
		}
	}
	return soon, nil
}

// add counts a started delivery as it is now; d is nil if it is gone, and soon says whether it is sent soon if it is
// held.
func (p *BulkProgress) add(st Started, d *Delivery, soon bool) {
	switch {
	case d == nil || d.Generation != st.Generation:
		p.Other++
	case d.Status == Succeeded:
		p.Succeeded++
	case d.Status == Dead || d.GenerationAttempts > 0:
		p.Failed++
	case d.Status == Pending || d.Status == Sending || d.Status == Held && soon:
		p.Open = append(p.Open, st)
	default:
		p.Other++
	}
}
