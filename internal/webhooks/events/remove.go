package events

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// maxSweptBytes limits the bodies that one transaction deletes. The time of a large one depends on its pages.
const maxSweptBytes = 2 << 20

// passedAfter is how far the time in an event's uuid may be from its time of receipt. The two are read from one clock a
// moment apart. If they differ by more, the clock was wrong for one of them. Such an event does not delay the sweep of
// payloads, and is not found by its time of receipt.
const passedAfter = 24 * time.Hour

// SweepPayloads deletes the payloads of the environment's events that were received at cutoff or before. It continues
// after the last call and looks at up to limit events, in the order of the uuids; the first that is not due ends the
// sweep. It returns how many payloads it deleted, and whether more may follow.
func (r *Remover) SweepPayloads(ctx context.Context, env id.Environment, cutoff time.Time,
	limit int) (n int, more bool, err error) {
	h, err := r.horizon(ctx, env)
	if err != nil {
		return 0, false, err
	}
	h.gone = max(h.gone, clock.Millis(cutoff))
	rows, err := r.readOld(ctx, env, h.swept, "", limit)
	if err != nil {
		return 0, false, err
	}
	due, looked, bytes := []Old{}, 0, int64(0)
	for _, o := range rows {
		if o.received > h.gone && !id.Time(o.UUID).Before(clock.FromMillis(h.gone).Add(-passedAfter)) {
			break
		}
		if o.payload && o.received <= h.gone {
			if bytes += o.size; bytes > maxSweptBytes && len(due) > 0 {
				more = true
				break
			}
			due = append(due, o)
		}
		looked++
	}
	if looked == 0 {
		return 0, false, nil
	}
	err = r.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := deletePayloads(ctx, tx, due); err != nil {
			return err
		}
		_, err := r.db.Exec(ctx, tx, raiseHorizons, []any{string(env), h.gone, rows[looked-1].UUID})
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("sweep payloads: %w", err)
	}
	return len(due), more || looked == limit, nil
}

const dayMillis = int64(24 * time.Hour / time.Millisecond)

// deletePayloads deletes the payloads of events day by day, so that PostgreSQL opens no other partitions.
func deletePayloads(ctx context.Context, tx *sql.Tx, list []Old) error {
	byDay := map[int64][]string{}
	for _, o := range list {
		day := o.received - o.received%dayMillis
		byDay[day] = append(byDay[day], o.UUID)
	}
	for day, uuids := range byDay {
		if err := deleteIn(ctx, tx, "DELETE FROM webhook_event_payloads WHERE received_ms >= $1 AND received_ms < $2 AND "+
			"event_uuid IN ", uuids,
			day, day+dayMillis); err != nil {
			return fmt.Errorf("delete payloads: %w", err)
		}
	}
	return nil
}

// deleteIn runs a DELETE that ends in a list of uuids, after the given arguments.
func deleteIn(ctx context.Context, tx *sql.Tx, text string, uuids []string, args ...any) error {
	for len(uuids) > 0 {
		n := min(len(uuids), maxAsked)
		list, all := padded(len(args)+1, args, uuids[:n])
		if _, err := tx.ExecContext(ctx, text+list, all...); err != nil {
			return err
		}
		uuids = uuids[n:]
	}
	return nil
}

// padded returns the placeholders of a list from $from on, and args with its values. It appends the first value until
// their number is a power of two, so that few texts are ever planned.
func padded(from int, args []any, values []string) (list string, all []any) {
	all = append(all, args...)
	for _, v := range values {
		all = append(all, v)
	}
	for n := len(all) - len(args); n&(n-1) != 0; n++ {
		all = append(all, values[0])
	}
	return db.In(from, len(all)-len(args)), all
}

// LockFinished locks those of the environment's events that have no open delivery, for their removal. It skips rows
// that another transaction has locked.
func (r *Remover) LockFinished(ctx context.Context, tx *sql.Tx, env id.Environment, list []Old) ([]Old, error) {
	uuids := make([]string, len(list))
	for i, o := range list {
		uuids[i] = o.UUID
	}
	in, args := padded(2, []any{string(env)}, uuids)
	//nolint:gosec // only placeholders are added
	rows, err := tx.QueryContext(ctx, `SELECT event_uuid FROM webhook_events
		WHERE environment_id = $1 AND event_uuid IN `+in+`
		AND n_sending + n_pending + n_retry_wait + n_held + n_held_failed = 0
		ORDER BY event_uuid`+r.db.SkipLocked(), args...)
	if err != nil {
		return nil, fmt.Errorf("lock old events: %w", err)
	}
	locked := map[string]bool{}
	if err := db.Each(rows, func(row *sql.Rows) error {
		var uuid string
		err := row.Scan(&uuid)
		locked[uuid] = true
		return err
	}); err != nil {
		return nil, fmt.Errorf("lock old events: %w", err)
	}
	out := list[:0:0]
	for _, o := range list {
		if locked[o.UUID] {
			out = append(out, o)
		}
	}
	return out, nil
}

var deleteKeys = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "WITH v (connection_uuid, key_hash, event_uuid) AS (",
	Types:  []string{"text", "bytea", "text"},
	After: `) DELETE FROM webhook_event_keys WHERE (connection_uuid, key_hash) IN (SELECT v.connection_uuid, v.key_hash
		FROM v)
		AND event_uuid IN (SELECT v.event_uuid FROM v)`,
}

// Remove deletes events of the environment, their keys, and the rest of their payloads. The caller deletes their
// deliveries in the same transaction. It returns the number of deleted keys.
func (r *Remover) Remove(ctx context.Context, tx *sql.Tx, env id.Environment, list []Old) (keys int64, err error) {
	uuids := make([]string, 0, len(list))
	args := make([]any, 0, len(list)*deleteKeys.Columns())
	for _, o := range list {
		uuids = append(uuids, o.UUID)
		for _, hash := range o.keyHashes {
			args = append(args, o.keyScope, hash, o.UUID)
		}
	}
	if keys, err = r.db.Exec(ctx, tx, deleteKeys, args); err != nil {
		return 0, fmt.Errorf("delete the keys of old events: %w", err)
	}
	if err := deletePayloads(ctx, tx, list); err != nil {
		return 0, err
	}
	if err := deleteIn(ctx, tx, "DELETE FROM webhook_events WHERE environment_id = $1 AND event_uuid IN ", uuids,
		string(env)); err != nil {
		return 0, fmt.Errorf("delete old events: %w", err)
	}
	return keys, nil
}

// SweepKeys deletes up to limit keys that have expired at now, and returns their number. Keys that live as long as
// their event do not expire.
func (r *Remover) SweepKeys(ctx context.Context, now time.Time, limit int) (int, error) {
	// The first condition names the partial index; SQLite wants it word for word.
	of := fmt.Sprintf(`SELECT k.connection_uuid, k.key_hash FROM webhook_event_keys k WHERE k.expires_ms < %d
		AND k.expires_ms <= $1
		ORDER BY k.expires_ms LIMIT %d`, int64(math.MaxInt64), limit)
	var n int64
	err := r.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		remove := `DELETE FROM webhook_event_keys WHERE (connection_uuid, key_hash) IN (` + of + r.db.SkipLocked() + `)`
		n, err = db.Affected(tx.ExecContext(ctx, remove, clock.Millis(now)))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete expired keys: %w", err)
	}
	return int(n), nil
}
