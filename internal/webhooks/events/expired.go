package events

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Remover removes old events, their payloads and their keys row by row. Partitions drops the payloads of whole days.
type Remover struct{ db *db.DB }

// NewRemover returns a Remover.
func NewRemover(d *db.DB) *Remover { return &Remover{db: d} }

// Old is an event to remove.
type Old struct {
	UUID string
	// Deliveries and Attempts count them, as the event's row does.
	Deliveries, Attempts int64

	received  int64
	size      int64
	payload   bool
	open      bool
	keyScope  string
	keyHashes [][]byte
}

// slack is how far the order of uuids may deviate from the order of receipt: an event gets its uuid when it is
// committed, a moment after its receipt, and nodes whose clocks differ by more than two seconds are not ready. A larger
// deviation means that the clock was wrong.
const slack = 5 * time.Second

// readOld returns events of the environment after one uuid and, unless that is empty, up to another, in the order of
// the uuids.
func (r *Remover) readOld(ctx context.Context, env id.Environment, after, upTo string, limit int) ([]Old, error) {
	condition, args := "e.environment_id = $1 AND e.event_uuid > $2", []any{string(env), after}
	if upTo != "" {
		condition += " AND e.event_uuid <= $3"
		args = append(args, upTo)
	}
	rows, err := r.db.Read().QueryContext(ctx, `SELECT e.event_uuid, e.connection_uuid, e.idempotency_key,
		e.idempotency_source, e.received_ms,
		e.body_size, e.duplicate_of IS NULL AND e.expunged_ms IS NULL, e.duplicate_of IS NULL,
		e.n_sending + e.n_pending + e.n_retry_wait + e.n_held + e.n_held_failed, e.n_dead + e.n_succeeded + e.n_cancelled,
		e.attempt_count
		FROM webhook_events e WHERE `+condition+` ORDER BY e.event_uuid LIMIT `+strconv.Itoa(limit), args...)
	if err != nil {
		return nil, fmt.Errorf("read old events: %w", err)
	}
	var list []Old
	if err := db.Each(rows, func(row *sql.Rows) error {
		var o Old
		e := Event{Environment: env}
		var key, source string
		var original bool
		var open int64
		if err := row.Scan(&o.UUID, &e.ConnectionUUID, &key, &source, &o.received, &o.size, &o.payload, &original, &open,
			&o.Deliveries, &o.Attempts); err != nil {
			return err
		}
		o.open = open > 0
		if original {
			o.keyScope, o.keyHashes = e.KeyScope(), HashesOfKey(source, key)
		}
		list = append(list, o)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read old events: %w", err)
	}
	return list, nil
}

// Environments returns the environments that have events. It steps through the index from one to the next.
func (r *Remover) Environments(ctx context.Context) ([]id.Environment, error) {
	rows, err := r.db.Read().QueryContext(ctx, `WITH RECURSIVE hop (environment_id) AS (
		SELECT (SELECT e.environment_id FROM webhook_events e ORDER BY e.environment_id LIMIT 1)
		UNION ALL
		SELECT (SELECT e.environment_id FROM webhook_events e WHERE e.environment_id > hop.environment_id
			ORDER BY e.environment_id LIMIT 1)
			FROM hop WHERE hop.environment_id IS NOT NULL)
		SELECT hop.environment_id FROM hop WHERE hop.environment_id IS NOT NULL`)
	if err != nil {
		return nil, fmt.Errorf("find environments with events: %w", err)
	}
	var list []id.Environment
	if err := db.Each(rows, func(row *sql.Rows) error {
		var env id.Environment
		err := row.Scan(&env)
		list = append(list, env)
		return err
	}); err != nil {
		return nil, fmt.Errorf("find environments with events: %w", err)
	}
	return list, nil
}

// Expired returns events of the environment that were received at cutoff or before and have no open delivery. It looks
// at the first limit events after the given uuid, and, if swept is set, only at events whose payloads have been swept.
// looked is the uuid to continue after, or empty if nothing more has expired.
func (r *Remover) Expired(ctx context.Context, env id.Environment, after string, cutoff time.Time, limit int,
	swept bool) (list []Old, looked string, err error) {
	upTo := ""
	if swept {
		h, err := r.horizon(ctx, env)
		if err != nil || h.swept == "" {
			return nil, "", err
		}
		upTo = h.swept
	}
	rows, err := r.readOld(ctx, env, after, upTo, limit)
	if err != nil || len(rows) == 0 {
		return nil, "", err
	}
	due := false
	for _, o := range rows {
		if o.received > clock.Millis(cutoff) {
			continue
		}
		due = true
		if !o.open {
			list = append(list, o)
		}
	}
	last := rows[len(rows)-1].UUID
	if len(rows) == limit && (due || !id.Time(last).After(cutoff.Add(slack))) {
		looked = last
	}
	return list, looked, nil
}

// Overdue returns for how long the oldest event of the environment has been due at cutoff, and the oldest payload to
// sweep at another; 0 if nothing is due.
func (r *Remover) Overdue(ctx context.Context, env id.Environment, payloads,
	list time.Time) (payload, event time.Duration, err error) {
	late := func(after string, cutoff time.Time) (time.Duration, error) {
		rows, err := r.readOld(ctx, env, after, "", 1)
		if err != nil || len(rows) == 0 {
			return 0, err
		}
		return max(0, cutoff.Sub(clock.FromMillis(rows[0].received))), nil
	}
	h, err := r.horizon(ctx, env)
	if err == nil {
		payload, err = late(h.swept, payloads)
	}
	if err == nil {
		event, err = late("", list)
	}
	return payload, event, err
}

// horizon says which payloads of an environment are gone.
type horizon struct {
	// gone is the time of receipt up to which payloads are gone, in Unix milliseconds.
	gone int64
	// swept is the last event whose payload was swept; empty before the first.
	swept string
}

func (r *Remover) horizon(ctx context.Context, env id.Environment) (h horizon, err error) {
	_, err = db.Found("how far payloads are gone", r.db.Read().QueryRowContext(ctx,
		"SELECT h.gone_ms, h.swept_uuid FROM webhook_payload_horizons h WHERE h.environment_id = $1", string(env)).
		Scan(&h.gone, &h.swept))
	return h, err
}

var raiseHorizons = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO webhook_payload_horizons (environment_id, gone_ms, swept_uuid)",
	Types:  []string{"text", "bigint", "text"},
	After: `ON CONFLICT (environment_id) DO UPDATE SET
		gone_ms = CASE WHEN excluded.gone_ms > webhook_payload_horizons.gone_ms THEN excluded.gone_ms
		ELSE webhook_payload_horizons.gone_ms END,
		swept_uuid = CASE WHEN excluded.swept_uuid > webhook_payload_horizons.swept_uuid THEN excluded.swept_uuid
			ELSE webhook_payload_horizons.swept_uuid END`,
}
