package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
)

// chunk is the maximum number of rows that one transaction changes.
const chunk = 200

// Conditions that name the partial indexes. SQLite uses a partial index only if the query contains its predicate word
// for word.
const (
	whereDue  = "d.status IN ('pending', 'retry_wait', 'sending')"
	whereOpen = "d.status IN ('pending', 'retry_wait', 'held')"
)

// claim leases up to limit due deliveries under the claim, oldest due first, except those of the given subscriptions.
func (s *Store) claim(ctx context.Context, claimID string, now, until time.Time, limit int,
	without []string) ([]Delivery, error) {
	var claimed, due []Delivery
	condition, args := dueAt(now, limit, without)
	if s.db.Engine() == db.SQLite {
		// No other process claims on SQLite, so the query needs no transaction, which would block all writers.
		var err error
		if due, err = s.query(ctx, s.db.Read(), condition, args...); err != nil || len(due) == 0 {
			return nil, err
		}
	}
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		claimed = claimed[:0]
		if s.db.Engine() != db.SQLite {
			var err error
			if due, err = s.query(ctx, tx, condition+s.db.SkipLocked(), args...); err != nil {
				return err
			}
		}
		moves := make([]move, len(due))
		for i, d := range due {
			moves[i] = move{from: d, to: d.claimed(claimID, until)}
			claimed = append(claimed, moves[i].to)
		}
		return s.apply(ctx, tx, moves, clock.Millis(now))
	})
	if errors.Is(err, errStale) {
		return nil, nil // one of them has changed since it was read; the next round reads again
	}
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	return claimed, nil
}

// dueAt returns the condition, order and limit that select deliveries to claim.
func dueAt(now time.Time, limit int, without []string) (condition string, args []any) {
	condition = whereDue + " AND d.status <> 'sending' AND d.due_ms <= $1"
	args = []any{clock.Millis(now)}
	if len(without) > 0 {
		condition += " AND d.subscription_id NOT IN " + db.In(2, len(without))
		for _, v := range without {
			args = append(args, v)
		}
	}
	return condition + " ORDER BY d.due_ms LIMIT " + strconv.Itoa(min(limit, chunk)), args
}

// recover releases deliveries whose lease has expired without an outcome, except those that this process still holds,
// as mine reports. With claimPrefix it releases every delivery leased under it, expired or not: a process that starts
// alone on its data folder knows that its predecessor is gone. It returns how many it changed and whether more may
// follow.
func (s *Store) recover(ctx context.Context, now time.Time, claimPrefix string,
	mine func(Key) bool) (changed int, more bool, err error) {
	condition := whereDue + " AND d.status = 'sending'"
	var args []any
	if claimPrefix == "" {
		condition += " AND d.due_ms <= $1"
		args = append(args, clock.Millis(now))
	} else {
		condition += " AND substr(d.claim_id, 1, " + strconv.Itoa(len(claimPrefix)) + ") = $1"
		args = append(args, claimPrefix)
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		lost, err := s.query(ctx, tx, condition+" ORDER BY d.due_ms LIMIT "+strconv.Itoa(chunk)+s.db.SkipLocked(), args...)
		if err != nil {
			return err
		}
		more = len(lost) == chunk
		var moves []move
		for _, d := range lost {
			if !mine(d.Key) {
				moves = append(moves, move{from: d, to: d.leaseLost(now)})
			}
		}
		changed = len(moves)
		return s.apply(ctx, tx, moves, clock.Millis(now))
	})
	if err != nil {
		return 0, false, fmt.Errorf("recover leases: %w", err)
	}
	return changed, more, nil
}

// releaseClaim releases every delivery leased under a claim that no process holds.
func (s *Store) releaseClaim(ctx context.Context, claimID string, now time.Time) error {
	for {
		list, err := s.query(ctx, s.db.Read(), whereDue+" AND d.status = 'sending' AND d.claim_id = $1 LIMIT "+
			strconv.Itoa(chunk), claimID)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := s.changeEach(ctx, list, now, func(d Delivery) Delivery { return d.returned(now) }); err != nil {
			return err
		}
	}
}

// changeEach makes the same change to every delivery in the list, each in the state in which it was read. It skips
// deliveries that have changed since.
func (s *Store) changeEach(ctx context.Context, list []Delivery, now time.Time, to func(Delivery) Delivery) error {
	for len(list) > 0 {
		n := min(len(list), chunk)
		moves := make([]move, n)
		for i, d := range list[:n] {
			moves[i] = move{from: d, to: to(d)}
		}
		if err := s.applyEach(ctx, moves, now); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// applyEach applies the moves in one transaction or, if one of them is stale, each in its own without the stale ones.
func (s *Store) applyEach(ctx context.Context, moves []move, now time.Time) error {
	err := s.db.Tx(ctx, func(tx *sql.Tx) error { return s.apply(ctx, tx, moves, clock.Millis(now)) })
	if !errors.Is(err, errStale) {
		return err
	}
	for _, m := range moves {
		err := s.db.Tx(ctx, func(tx *sql.Tx) error { return s.apply(ctx, tx, []move{m}, clock.Millis(now)) })
		if err != nil && !errors.Is(err, errStale) {
			return err
		}
	}
	return nil
}

var renewLeases = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "WITH v (event_uuid, subscription_id, claim_id, due_ms) AS (",
	Types:  []string{"text", "text", "text", "bigint"},
	After: ") UPDATE deliveries AS d SET due_ms = v.due_ms FROM v WHERE d.event_uuid = v.event_uuid AND " +
		"d.subscription_id = v.subscription_id" +
		" AND d.status = 'sending' AND d.claim_id = v.claim_id",
}

// renew extends the leases of deliveries that this process holds.
func (s *Store) renew(ctx context.Context, list []Delivery, until time.Time) error {
	for len(list) > 0 {
		n := min(len(list), chunk)
		args := make([]any, 0, n*renewLeases.Columns())
		for _, d := range list[:n] {
			args = append(args, d.EventUUID, d.SubscriptionID, d.ClaimID, clock.Millis(until))
		}
		if err := s.db.Tx(ctx, func(tx *sql.Tx) error {
			_, err := s.db.Exec(ctx, tx, renewLeases, args)
			return err
		}); err != nil {
			return fmt.Errorf("renew leases: %w", err)
		}
		list = list[n:]
	}
	return nil
}

// ofSubscription returns up to limit open deliveries of a subscription in these states, locked for change.
func (s *Store) ofSubscription(ctx context.Context, tx *sql.Tx, subscriptionID string, limit int,
	states ...Status) ([]Delivery, error) {
	args := []any{subscriptionID}
	for _, st := range states {
		args = append(args, string(st))
	}
	return s.query(ctx, tx, whereOpen+" AND d.subscription_id = $1 AND d.status IN "+db.In(2, len(states))+
		" ORDER BY d.due_ms LIMIT "+strconv.Itoa(limit)+s.db.SkipLocked(), args...)
}

// openOfEvent returns up to a chunk of the event's open deliveries, locked for change.
func (s *Store) openOfEvent(ctx context.Context, tx *sql.Tx, e *events.Event) ([]Delivery, error) {
	return s.query(ctx, tx, whereOpen+" AND d.environment_id = $1 AND d.event_uuid = $2 ORDER BY d.subscription_id LIMIT "+
		strconv.Itoa(chunk)+s.lock(), string(e.Environment), e.UUID)
}

// openSubscription is a subscription that has open deliveries.
type openSubscription struct {
	ID          string
	Environment id.Environment
	// Held is set when some are held, Waiting when some are pending or wait for a retry.
	Held, Waiting bool
}

// withOpen returns the subscriptions that have open deliveries. It hops through the index from one subscription to the
// next, so its cost follows their number and not that of the deliveries.
func (s *Store) withOpen(ctx context.Context) ([]openSubscription, error) {
	rows, err := s.db.Read().QueryContext(ctx, `WITH RECURSIVE hop (subscription_id) AS (
		SELECT (SELECT d.subscription_id FROM deliveries d WHERE `+whereOpen+` ORDER BY d.subscription_id LIMIT 1)
		UNION ALL
		SELECT (SELECT d.subscription_id FROM deliveries d WHERE `+whereOpen+` AND d.subscription_id > hop.subscription_id
			ORDER BY d.subscription_id LIMIT 1) FROM hop WHERE hop.subscription_id IS NOT NULL)
		SELECT hop.subscription_id, (SELECT d.environment_id FROM deliveries d WHERE `+whereOpen+`
		AND d.subscription_id = hop.subscription_id LIMIT 1),
		EXISTS (SELECT 1 FROM deliveries d WHERE `+whereOpen+` AND d.subscription_id = hop.subscription_id
		AND d.status = 'held'),
		EXISTS (SELECT 1 FROM deliveries d WHERE `+whereOpen+` AND d.subscription_id = hop.subscription_id
		AND d.status IN ('pending', 'retry_wait'))
		FROM hop WHERE hop.subscription_id IS NOT NULL`)
	if err != nil {
		return nil, fmt.Errorf("find subscriptions with open deliveries: %w", err)
	}
	var list []openSubscription
	if err := db.Each(rows, func(r *sql.Rows) error {
		var o openSubscription
		var env sql.NullString
		if err := r.Scan(&o.ID, &env, &o.Held, &o.Waiting); err != nil {
			return err
		}
		if o.Environment = id.Environment(env.String); env.Valid {
			list = append(list, o)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find subscriptions with open deliveries: %w", err)
	}
	return list, nil
}

// Depth describes the queue of deliveries.
type Depth struct {
	// Due counts the deliveries that are due, up to DepthLimit.
	Due int64
	// Oldest is the due time of the oldest of them; zero if there is none.
	Oldest time.Time
}

// DepthLimit is the maximum that Depth counts, so that measuring a long queue stays cheap.
const DepthLimit = 100_000

// Depth describes the queue at the time given.
func (s *Store) Depth(ctx context.Context, now time.Time) (Depth, error) {
	var d Depth
	var oldest sql.NullInt64
	err := s.db.Read().QueryRowContext(ctx,
		`SELECT COUNT(*), MIN(q.due_ms) FROM (SELECT d.due_ms FROM deliveries d WHERE `+whereDue+
			` AND d.status <> 'sending' AND d.due_ms <= $1 ORDER BY d.due_ms LIMIT `+strconv.Itoa(DepthLimit)+`) q`,
		clock.Millis(now)).Scan(&d.Due, &oldest)
	if err != nil {
		return Depth{}, fmt.Errorf("measure the queue: %w", err)
	}
	if oldest.Valid {
		d.Oldest = clock.FromMillis(oldest.Int64)
	}
	return d, nil
}
