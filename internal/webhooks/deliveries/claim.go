package deliveries

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/webhooks/events"
)

// chunk is the maximum number of rows that one transaction changes. On SQLite it is fewer, down to leastChunk, if that
// many take long. leastChunk fills the window of a subscription in one claim.
const chunk, leastChunk = 200, 64

// Conditions that name the partial indexes. SQLite uses a partial index only if the query contains its predicate word
// for word.
const (
	whereDue  = "d.status IN ('pending', 'retry_wait', 'sending')"
	whereOpen = "d.status IN ('pending', 'retry_wait', 'held')"
	// whereLeased selects leased deliveries, by deliveries_queue.
	whereLeased = whereDue + " AND d.status = 'sending'"
)

// ask asks for due deliveries of one subscription.
type ask struct {
	subscriptionID string
	limit          int
}

// claim leases due deliveries of subscriptions under the claim: of each as many as it asks for, in the order in which
// they are due. It reads no more than that of the pending ones and no more of those that wait for a retry.
func (s *Store) claim(ctx context.Context, claimID string, now, until time.Time, asks []ask) ([]claimed, error) {
	var found []Delivery
	read := func(q db.Querier) error {
		found = found[:0]
		for _, a := range asks {
			due, err := s.dueOf(ctx, q, a, now)
			if err != nil {
				return err
			}
			found = append(found, due...)
		}
		return nil
	}
	lease := func(readFirst bool) error {
		return s.db.Tx(ctx, func(tx *sql.Tx) error {
			if readFirst {
				if err := read(tx); err != nil {
					return err
				}
			}
			moves := make([]move, len(found))
			for i, d := range found {
				moves[i] = move{from: d, to: d.claimed(claimID, until)}
			}
			return s.apply(ctx, tx, moves, clock.Millis(now))
		})
	}
	var err error
	if s.db.Engine() == db.SQLite {
		// No other process claims on SQLite, so the query needs no transaction, which would block all writers.
		if err := read(s.db.Reserved()); err != nil || len(found) == 0 {
			return nil, err
		}
		// If one of them was held or cancelled meanwhile, that must not end the claim for the other subscriptions.
		if err = lease(false); errors.Is(err, errStale) {
			err = lease(true)
		}
	} else {
		err = lease(true)
	}
	if err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	list := make([]claimed, len(found))
	for i, d := range found {
		list[i] = claimed{Delivery: d.claimed(claimID, until), due: d.Due}
	}
	return list, nil
}

// claimed is a delivery that was claimed, and when it was due.
type claimed struct {
	Delivery
	due time.Time
}

// dueOf reads deliveries of one subscription that are due, locked for change in a transaction.
func (s *Store) dueOf(ctx context.Context, q db.Querier, a ask, now time.Time) ([]Delivery, error) {
	query, args := dueQuery(a, now, s.db.SkipLocked())
	list, err := scanDeliveries(q.QueryContext(ctx, query, args...))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(x, y Delivery) int {
		return cmp.Or(x.Due.Compare(y.Due), cmp.Compare(x.EventUUID, y.EventUUID))
	})
	return list[:min(len(list), a.limit)], nil
}

// dueQuery returns the query of dueOf. Each of its halves is one range of deliveries_open, which has its order.
func dueQuery(a ask, now time.Time, lock string) (query string, args []any) {
	half := func(status Status) string {
		return "SELECT * FROM (SELECT " + deliveryColumns + " FROM deliveries d WHERE " + whereOpen +
			" AND d.subscription_id = $1 AND d.status = '" + string(status) + "' AND d.due_ms <= $2 ORDER BY d.due_ms LIMIT $3" +
			lock + ") " + string(status)
	}
	return half(Pending) + " UNION ALL " + half(RetryWait), []any{a.subscriptionID, clock.Millis(now), a.limit}
}

// recover releases deliveries whose lease has expired without an outcome, except those that this process still holds,
// as mine reports. With claimPrefix it releases every delivery leased under it, expired or not: a process that starts
// alone on its data folder knows that its predecessor is gone. It returns how many it changed and whether more may
// follow.
func (s *Store) recover(ctx context.Context, now time.Time, claimPrefix string,
	mine func(Key) bool) (changed int, more bool, err error) {
	condition := whereLeased
	var args []any
	if claimPrefix == "" {
		condition += " AND d.due_ms <= $1"
		args = append(args, clock.Millis(now))
	} else {
		condition += " AND substr(d.claim_id, 1, " + strconv.Itoa(len(claimPrefix)) + ") = $1"
		args = append(args, claimPrefix)
	}
	limit := s.moves.Limit()
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		lost, err := s.query(ctx, tx, condition+" ORDER BY d.due_ms LIMIT "+strconv.Itoa(limit)+s.db.SkipLocked(), args...)
		if err != nil {
			return err
		}
		more = len(lost) == limit
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
		list, err := s.query(ctx, s.db.Reserved(), whereLeased+" AND d.claim_id = $1 LIMIT "+
			strconv.Itoa(chunk), claimID)
		if err != nil || len(list) == 0 {
			return err
		}
		if _, err := s.changeEach(ctx, list, now, func(d Delivery) Delivery { return d.returned(now) }); err != nil {
			return err
		}
	}
}

// changeEach makes the same change to every delivery in the list, each in the state in which it was read. It skips
// deliveries that have changed since. done is how many of them, from the first, it has changed or skipped; after an
// error the others have not changed, unless the error is db.ErrCommitUnknown.
func (s *Store) changeEach(ctx context.Context, list []Delivery, now time.Time,
	to func(Delivery) Delivery) (done int, err error) {
	for done < len(list) {
		moves := make([]move, min(len(list)-done, s.moves.Limit()))
		for i := range moves {
			d := list[done+i]
			moves[i] = move{from: d, to: to(d)}
		}
		n, err := s.applyEach(ctx, moves, now)
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// applyEach applies the moves in one transaction or, if one of them is stale, each in its own without the stale ones.
// done is how many of them, from the first, it has applied or skipped.
func (s *Store) applyEach(ctx context.Context, moves []move, now time.Time) (done int, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error { return s.apply(ctx, tx, moves, clock.Millis(now)) })
	if err == nil {
		return len(moves), nil
	}
	if !errors.Is(err, errStale) {
		return 0, err
	}
	for i, m := range moves {
		err := s.db.Tx(ctx, func(tx *sql.Tx) error { return s.apply(ctx, tx, []move{m}, clock.Millis(now)) })
		if err != nil && !errors.Is(err, errStale) {
			return i, err
		}
	}
	return len(moves), nil
}

var renewLeases = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "WITH v (event, subscription, claim, until) AS (",
	Types:  []string{"text", "text", "text", "bigint"},
	After: ") UPDATE deliveries SET due_ms = v.until FROM v WHERE event_uuid = v.event AND " +
		// A condition on the status would let PostgreSQL read the whole queue for each row. Only leased deliveries have a
		// claim.
		"subscription_id = v.subscription AND claim_id = v.claim RETURNING event_uuid, subscription_id",
}

// renew extends the leases of up to a chunk of deliveries and returns those that were still leased under their claims.
func (s *Store) renew(ctx context.Context, list []Delivery, until time.Time) (kept map[Key]bool, err error) {
	list = slices.SortedFunc(slices.Values(list), func(x, y Delivery) int {
		return cmp.Or(cmp.Compare(x.EventUUID, y.EventUUID), cmp.Compare(x.SubscriptionID, y.SubscriptionID))
	})
	args := make([]any, 0, len(list)*renewLeases.Columns())
	for _, d := range list {
		args = append(args, d.EventUUID, d.SubscriptionID, d.ClaimID, clock.Millis(until))
	}
	if err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		kept = make(map[Key]bool, len(list))
		return s.db.Query(ctx, tx, renewLeases, args, func(r *sql.Rows) error {
			var k Key
			err := r.Scan(&k.EventUUID, &k.SubscriptionID)
			kept[k] = true
			return err
		})
	}); err != nil {
		return nil, fmt.Errorf("renew leases: %w", err)
	}
	return kept, nil
}

// ofSubscription returns up to limit open deliveries of a subscription in these states, locked for change: of each
// state those that are due first.
func (s *Store) ofSubscription(ctx context.Context, tx *sql.Tx, subscriptionID string, limit int,
	states ...Status) ([]Delivery, error) {
	query, args := openQuery(subscriptionID, limit, s.db.SkipLocked(), states)
	list, err := scanDeliveries(tx.QueryContext(ctx, query, args...))
	return list[:min(len(list), limit)], err
}

// openQuery returns the query of ofSubscription. It reads a range of deliveries_open for each state, which has its
// order: an order over several states would make it read all that are open for each few that it returns.
func openQuery(subscriptionID string, limit int, lock string, states []Status) (query string, args []any) {
	parts := make([]string, len(states))
	for i, status := range states {
		parts[i] = "SELECT * FROM (SELECT " + deliveryColumns + " FROM deliveries d WHERE " + whereOpen +
			" AND d.subscription_id = $1 AND d.status = '" + string(status) + "' ORDER BY d.due_ms LIMIT $2" + lock + ") " +
			string(status)
	}
	return strings.Join(parts, " UNION ALL "), []any{subscriptionID, limit}
}

// openOfEvent returns up to a chunk of the event's open deliveries, locked for change.
func (s *Store) openOfEvent(ctx context.Context, tx *sql.Tx, e *events.Event) ([]Delivery, error) {
	return s.query(ctx, tx, whereOpen+" AND d.environment_id = $1 AND d.event_uuid = $2 ORDER BY d.subscription_id LIMIT "+
		strconv.Itoa(chunk)+s.lock(), string(e.Environment), e.UUID)
}
