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
)

// EndExpired ends, as dead, up to limit waiting deliveries of the environment whose payload has expired, and no more
// than one transaction may emit events about: those created at cutoff or before, which is no earlier than the event was
// received. It returns how many it ended. A delivery that is being sent ends with its attempt or in a later call.
func (s *Store) EndExpired(ctx context.Context, env id.Environment, cutoff, now time.Time, limit int) (int, error) {
	n := 0
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		list, err := s.query(ctx, tx, whereOpen+
			" AND d.environment_id = $1 AND d.created_ms <= $2 ORDER BY d.created_ms LIMIT "+
			strconv.Itoa(min(limit, maxEmitted))+s.db.SkipLocked(), string(env), clock.Millis(cutoff))
		if err != nil {
			return err
		}
		n = len(list)
		moves := make([]move, n)
		for i, d := range list {
			moves[i] = move{from: d, to: d.expired(now)}
		}
		return s.apply(ctx, tx, moves, clock.Millis(now))
	})
	if errors.Is(err, errStale) {
		return 0, nil // they have changed since; the next call reads again
	}
	if err != nil {
		return 0, fmt.Errorf("end deliveries without a payload: %w", err)
	}
	return n, nil
}

// Remove deletes the deliveries and attempts of events of the environment, in the transaction that removes the events.
func (s *Store) Remove(ctx context.Context, tx *sql.Tx, env id.Environment,
	events []string) (deliveries, attempts int64, err error) {
	if len(events) == 0 {
		return 0, 0, nil
	}
	args := []any{string(env)}
	for _, e := range events {
		args = append(args, e)
	}
	for n := len(events); n&(n-1) != 0; n++ { // few lengths, so that few texts are planned
		args = append(args, events[0])
	}
	in := db.In(2, len(args)-1)
	if attempts, err = rowsAffected(tx.ExecContext(ctx,
		`DELETE FROM delivery_attempts WHERE environment_id = $1 AND event_uuid IN `+in, args...)); err != nil {
		return 0, 0, fmt.Errorf("delete old attempts: %w", err)
	}
	if deliveries, err = rowsAffected(tx.ExecContext(ctx,
		`DELETE FROM deliveries WHERE environment_id = $1 AND event_uuid IN `+in, args...)); err != nil {
		return 0, 0, fmt.Errorf("delete old deliveries: %w", err)
	}
	return deliveries, attempts, nil
}

// Thin deletes up to limit of the attempts, and after them of the deliveries, of an event that is about to be removed
// and has more of them than one transaction should delete. It returns how many it deleted.
func (s *Store) Thin(ctx context.Context, tx *sql.Tx, env id.Environment, event string,
	limit int) (deliveries, attempts int64, err error) {
	attempts, err = rowsAffected(tx.ExecContext(ctx, `DELETE FROM delivery_attempts WHERE environment_id = $1
		AND event_uuid = $2 AND id IN
		(SELECT a.id FROM delivery_attempts a WHERE a.event_uuid = $2 ORDER BY a.id LIMIT $3)`, string(env), event, limit))
	if err != nil {
		return 0, 0, fmt.Errorf("delete old attempts: %w", err)
	}
	if attempts > 0 {
		return 0, attempts, nil
	}
	deliveries, err = rowsAffected(tx.ExecContext(ctx, `DELETE FROM deliveries WHERE environment_id = $1
		AND event_uuid = $2 AND subscription_id IN
		(SELECT d.subscription_id FROM deliveries d WHERE d.event_uuid = $2 ORDER BY d.subscription_id LIMIT $3)`,
		string(env), event, limit))
	if err != nil {
		return 0, 0, fmt.Errorf("delete old deliveries: %w", err)
	}
	return deliveries, 0, nil
}

func rowsAffected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
