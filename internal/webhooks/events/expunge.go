package events

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Expunge permanently deletes the event's payload and marks the event. Its keys stay, so that duplicates are still
// recognised. It returns false, and changes nothing, for an event without a payload to delete. The caller ends what
// waits to be sent, in the same transaction or before; Expunged stops later senders.
func (s *Store) Expunge(ctx context.Context, tx *sql.Tx, e *Event, now time.Time) (bool, error) {
	marked, err := db.Changed(tx.ExecContext(ctx, `UPDATE webhook_events SET expunged_ms = $1, updated_ms = $1
		WHERE environment_id = $2
		AND event_uuid = $3
		AND duplicate_of IS NULL AND expunged_ms IS NULL`, clock.Millis(now), string(e.Environment), e.UUID))
	if err != nil {
		return false, fmt.Errorf("expunge an event: %w", err)
	}
	if !marked {
		return false, nil
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM webhook_event_payloads WHERE event_uuid = $1 AND received_ms = $2`, e.UUID,
		clock.Millis(e.ReceivedAt))
	if err != nil {
		return false, fmt.Errorf("delete a payload: %w", err)
	}
	log := Log{At: now}
	log.Updated(e.Environment, e.UUID)
	if _, err := s.db.ExecAll(ctx, tx, log.Statement()); err != nil {
		return false, fmt.Errorf("log an expunged event: %w", err)
	}
	return true, nil
}

// maxAsked is the maximum number of events in one query.
const maxAsked = 256

// Expunged returns those of the environment's events whose payload was removed on request. In a transaction that has
// changed the events' counters the result holds until it ends: Expunge waits for the changed rows.
func (s *Store) Expunged(ctx context.Context, tx *sql.Tx, env id.Environment, uuids []string) ([]string, error) {
	var out []string
	for len(uuids) > 0 {
		n := min(len(uuids), maxAsked)
		in, args := padded(2, []any{string(env)}, uuids[:n])
		rows, err := tx.QueryContext(ctx,
			//nolint:gosec // only placeholders are added
			`SELECT event_uuid FROM webhook_events WHERE environment_id = $1 AND expunged_ms IS NOT NULL AND event_uuid IN `+
				in, args...)
		if err != nil {
			return nil, fmt.Errorf("read expunged events: %w", err)
		}
		if err := db.Each(rows, func(r *sql.Rows) error {
			var uuid string
			err := r.Scan(&uuid)
			out = append(out, uuid)
			return err
		}); err != nil {
			return nil, fmt.Errorf("read expunged events: %w", err)
		}
		uuids = uuids[n:]
	}
	return out, nil
}
