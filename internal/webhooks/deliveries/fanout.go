package deliveries

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// firstDeliveries is the maximum number of an event's deliveries that the transaction of the event stores. A worker
// stores the rest, in parts of a chunk each.
const firstDeliveries = 500

// NewRows returns the number of rows that the deliveries of a new event take in its transaction.
func NewRows(matched int) int {
	if matched <= firstDeliveries {
		return matched
	}
	return firstDeliveries + 1 + (matched-firstDeliveries+chunk-1)/chunk
}

// fanout is the rest of an event's deliveries: those that its own transaction does not store. The event counts them
// from the start, so its status never says that it was forwarded to all before it was.
type fanout struct {
	environment id.Environment
	event       string
	due         time.Time
	// parts are the stored forms of the parts, in their order.
	parts []string
	// counters counts the deliveries.
	counters events.Counters
}

// part is what one transaction of a fan-out stores: the subscriptions that matched when the event was received, by
// whether they were paused then.
type part struct {
	Pending []string `json:"pending,omitempty"`
	Held    []string `json:"held,omitempty"`
}

// splitFanout returns the subscriptions that get their deliveries in the event's transaction, at most first, and the
// fan-out of the others; nil if there are none.
func splitFanout(env id.Environment, event string, matched []subscriptions.Matched, first int,
	due time.Time) (now []subscriptions.Matched, rest *fanout, err error) {
	if len(matched) <= first {
		return matched, nil, nil
	}
	f := &fanout{environment: env, event: event, due: due}
	for some := range slices.Chunk(matched[first:], chunk) {
		var p part
		for _, m := range some {
			if m.Enabled {
				p.Pending = append(p.Pending, m.ID)
			} else {
				p.Held = append(p.Held, m.ID)
			}
		}
		text, err := db.EncodeJSON(p)
		if err != nil {
			return nil, nil, fmt.Errorf("encode a part of a fan-out: %w", err)
		}
		f.parts = append(f.parts, text)
		f.counters.Pending += int64(len(p.Pending))
		f.counters.Held += int64(len(p.Held))
	}
	return matched[:first], f, nil
}

var insertFanouts = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO delivery_fanouts (event_uuid, environment_id, due_ms, claim_id, lease_ms, attempts)",
	Types:  []string{"text", "text", "bigint"},
	Row:    "(?, ?, ?, '', 0, 0)",
}

var insertParts = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO delivery_fanout_parts (event_uuid, part, environment_id, subscriptions)",
	Types:  []string{"text", "bigint", "text", "text"},
}

// fanoutStatements returns the statements that store the fan-outs, in the transaction of their events.
func fanoutStatements(list []*fanout) []db.Statement {
	if len(list) == 0 {
		return nil
	}
	jobs := make([]any, 0, len(list)*insertFanouts.Columns())
	var parts []any
	for _, f := range list {
		jobs = append(jobs, f.event, string(f.environment), clock.Millis(f.due))
		for i, text := range f.parts {
			parts = append(parts, f.event, int64(i), string(f.environment), text)
		}
	}
	return []db.Statement{{Rows: insertFanouts, Args: jobs}, {Rows: insertParts, Args: parts}}
}

// Forwards are the deliveries of new events, for a caller that stores both in its own transaction. The workers find
// them by polling.
type Forwards struct {
	list    []Delivery
	fanouts []*fanout
}

// Add plans the deliveries of an event to the matched subscriptions, and returns the counts for the event. Those beyond
// the first are stored by a worker.
func (f *Forwards) Add(env id.Environment, event string, matched []subscriptions.Matched, first int,
	now time.Time) (events.Counters, error) {
	immediate, rest, err := splitFanout(env, event, matched, first, now)
	if err != nil {
		return events.Counters{}, err
	}
	var c events.Counters
	if rest != nil {
		c = rest.counters
		f.fanouts = append(f.fanouts, rest)
	}
	for _, m := range immediate {
		d := newDelivery(env, event, m, now)
		if f.list = append(f.list, d); d.Status == Held {
			c.Held++
		} else {
			c.Pending++
		}
	}
	return c, nil
}

// Statements returns the statements that store the deliveries.
func (f *Forwards) Statements() []db.Statement {
	return append([]db.Statement{Insert(f.list)}, fanoutStatements(f.fanouts)...)
}

// newDelivery returns the delivery of a new event to a subscription: pending, or held if the subscription is paused.
func newDelivery(env id.Environment, event string, m subscriptions.Matched, now time.Time) Delivery {
	d := Delivery{Key: Key{EventUUID: event, SubscriptionID: m.ID}, ID: id.NewUUID(), Environment: env, Status: Pending,
		Generation: 1, Due: now, CreatedAt: now, UpdatedAt: now}
	if !m.Enabled {
		d.Status = Held
	}
	return d
}

// numberedPart is a stored part.
type numberedPart struct {
	part
	number int64
}

// nextPart returns the first part of an event's fan-out, and whether it is the last; nil if no part is left.
func (s *Store) nextPart(ctx context.Context, env id.Environment,
	event string) (next *numberedPart, last bool, err error) {
	rows, err := s.db.Reserved().QueryContext(ctx, `SELECT part, subscriptions FROM delivery_fanout_parts
		WHERE environment_id = $1 AND event_uuid = $2 ORDER BY part LIMIT 2`, string(env), event)
	if err != nil {
		return nil, false, fmt.Errorf("read a fan-out: %w", err)
	}
	last = true
	if err := db.Each(rows, func(r *sql.Rows) error {
		if next != nil {
			last = false
			return nil
		}
		var text string
		next = &numberedPart{}
		if err := r.Scan(&next.number, &text); err != nil {
			return err
		}
		return db.DecodeJSON(text, &next.part)
	}); err != nil {
		return nil, false, fmt.Errorf("read a fan-out: %w", err)
	}
	return next, last, nil
}

// insertRest is insertDeliveries for deliveries that may exist.
var insertRest = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: insertDeliveries.Before, Types: insertDeliveries.Types, Row: insertDeliveries.Row,
	After: "ON CONFLICT (event_uuid, subscription_id) DO NOTHING",
}

// storePart stores the deliveries of a part and removes the part, in the transaction in which its fan-out is claimed. A
// delivery that a bulk replay has created meanwhile stays as it is and is not counted twice. If the event's payload was
// expunged, the deliveries are stored as cancelled.
func (s *Store) storePart(ctx context.Context, tx *sql.Tx, env id.Environment, event string, p *numberedPart,
	now time.Time) error {
	removed, err := db.Changed(tx.ExecContext(ctx, `DELETE FROM delivery_fanout_parts
		WHERE environment_id = $1 AND event_uuid = $2 AND part = $3`, string(env), event, p.number))
	if err != nil {
		return fmt.Errorf("store a fan-out: %w", err)
	}
	if !removed {
		return errStale
	}
	stored, change, err := s.insertPart(ctx, tx, env, event, p, now)
	if err != nil {
		return err
	}
	log := events.Log{At: now}
	count, counted := events.Apply([]events.Change{change}, &log)
	n, err := s.db.ExecAll(ctx, tx, counted, log.Statement())
	if err != nil {
		return fmt.Errorf("store a fan-out: %w", err)
	}
	if n[0] != int64(count) {
		return fmt.Errorf("store a fan-out: %d of %d events found", n[0], count)
	}
	moves := make([]move, len(stored))
	for i, d := range stored {
		moves[i] = move{to: d}
	}
	cancel, err := s.cancelExpunged(ctx, tx, moves, clock.Millis(now))
	if err != nil {
		return err
	}
	return s.applyAll(ctx, tx, cancel, clock.Millis(now), nil)
}

// insertPart stores those deliveries of a part that do not exist, and returns them with the change of the event. The
// event counts all of the part already, so the change takes off those that exist. If there are none, it changes no
// counter, but it locks the event, and readers see the progress.
func (s *Store) insertPart(ctx context.Context, tx *sql.Tx, env id.Environment, event string, p *numberedPart,
	now time.Time) (stored []Delivery, change events.Change, err error) {
	change = events.Change{Environment: env, EventUUID: event, At: now}
	var list []Delivery
	args := []any{string(env), event}
	for i, subscriptionID := range append(slices.Clone(p.Pending), p.Held...) {
		list = append(list, newDelivery(env, event, subscriptions.Matched{ID: subscriptionID, Enabled: i < len(p.Pending)},
			now))
		args = append(args, subscriptionID)
	}
	if _, err := s.db.ExecAll(ctx, tx, db.Statement{Rows: insertRest, Args: Insert(list).Args}); err != nil {
		return nil, change, fmt.Errorf("store a fan-out: %w", err)
	}
	// Only what is read after the insert says which of them it has stored: it has waited for transactions that were
	// creating the same ones.
	there, err := s.query(ctx, tx, "d.environment_id = $1 AND d.event_uuid = $2 AND d.subscription_id IN "+
		db.In(3, len(list)), args...)
	if err != nil {
		return nil, change, err
	}
	ids := make(map[string]bool, len(there))
	for i := range there {
		ids[there[i].ID] = true
	}
	for _, d := range list {
		switch {
		case ids[d.ID]:
			stored = append(stored, d)
		case d.Status == Held:
			change.Held--
		default:
			change.Pending--
		}
	}
	return stored, change, nil
}
