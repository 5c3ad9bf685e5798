//go:build linux

package soak

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sallyport/internal/platform/db"
)

// eventRow is an event as the database holds it.
type eventRow struct {
	environment, connection, key, status string
	duplicateOf                          sql.NullString
	counts                               counts
}

// counts are an event's counters, or the same sums over its deliveries.
type counts struct {
	sending, pending, retryWait, held, heldFailed, dead, succeeded, cancelled, tried, attempts int64
}

// deliveryRow is a delivery as the database holds it.
type deliveryRow struct {
	environment, status   string
	generation, attempts  int64
	leasesLost            int64
	createdMs, completeMs int64
	failure               string
}

// attemptRow is a recorded attempt.
type attemptRow struct {
	deliveryKey
	generation, number, startedMs int64
	outcome                       string
	// committed is when the transaction that recorded it committed; zero where the engine does not say.
	committed time.Time
}

// books is the content of the database at one moment.
type books struct {
	at         time.Time
	events     map[string]eventRow
	deliveries map[deliveryKey]deliveryRow
	attempts   []attemptRow
	// fanouts holds the events whose deliveries are not all stored; parts counts what is left of them.
	fanouts map[string]bool
	parts   int
}

// readBooks reads the database in one snapshot.
func readBooks(ctx context.Context, d *db.DB) (b *books, err error) {
	postgres := d.Engine() == db.Postgres
	options := &sql.TxOptions{ReadOnly: true}
	if postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	b = &books{at: time.Now(), events: map[string]eventRow{}, deliveries: map[deliveryKey]deliveryRow{},
		fanouts: map[string]bool{}}
	tx, err := d.Read().BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	each := func(query string, scan func(*sql.Rows) error) {
		if err != nil {
			return
		}
		var rows *sql.Rows
		if rows, err = tx.QueryContext(ctx, query); err == nil {
			err = db.Each(rows, scan)
		}
	}
	each(`SELECT event_uuid, environment_id, connection_uuid, idempotency_key, status, duplicate_of, n_sending, n_pending,
		n_retry_wait, n_held, n_held_failed, n_dead, n_succeeded, n_cancelled, n_tried, attempt_count FROM webhook_events`,
		func(r *sql.Rows) error {
			var uuid string
			var e eventRow
			c := &e.counts
			err := r.Scan(&uuid, &e.environment, &e.connection, &e.key, &e.status, &e.duplicateOf, &c.sending, &c.pending,
				&c.retryWait, &c.held, &c.heldFailed, &c.dead, &c.succeeded, &c.cancelled, &c.tried, &c.attempts)
			b.events[uuid] = e
			return err
		})
	each(`SELECT event_uuid, subscription_id, environment_id, status, generation, attempt_count, leases_lost, created_ms,
		COALESCE(completed_ms, 0), COALESCE(last_error, '') FROM deliveries`, func(r *sql.Rows) error {
		var k deliveryKey
		var v deliveryRow
		err := r.Scan(&k.event, &k.subscription, &v.environment, &v.status, &v.generation, &v.attempts, &v.leasesLost,
			&v.createdMs, &v.completeMs, &v.failure)
		b.deliveries[k] = v
		return err
	})
	committed := "0"
	if postgres {
		committed = "COALESCE(CAST(EXTRACT(EPOCH FROM pg_xact_commit_timestamp(xmin)) * 1000000 AS bigint), 0)"
	}
	each(`SELECT event_uuid, subscription_id, generation, number, started_ms, outcome, `+committed+
		` FROM delivery_attempts`, func(r *sql.Rows) error {
		var a attemptRow
		var micros int64
		err := r.Scan(&a.event, &a.subscription, &a.generation, &a.number, &a.startedMs, &a.outcome, &micros)
		if micros > 0 {
			a.committed = time.UnixMicro(micros)
		}
		b.attempts = append(b.attempts, a)
		return err
	})
	each(`SELECT event_uuid FROM delivery_fanouts`, func(r *sql.Rows) error {
		var uuid string
		err := r.Scan(&uuid)
		b.fanouts[uuid] = true
		return err
	})
	each(`SELECT COUNT(*) FROM delivery_fanout_parts`, func(r *sql.Rows) error { return r.Scan(&b.parts) })
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return b, nil
}

// countOpen returns how many deliveries have not ended and how many fan-outs are left.
func countOpen(ctx context.Context, d *db.DB) (n int, err error) {
	err = d.Read().QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM delivery_fanouts) +
		(SELECT COUNT(*) FROM delivery_fanout_parts) + (SELECT COUNT(*) FROM deliveries
		WHERE status IN ('pending', 'sending', 'retry_wait', 'held'))`).Scan(&n)
	return n, err
}

// open returns how many deliveries have not ended.
func (b *books) open() int {
	n := len(b.fanouts) + b.parts
	for _, d := range b.deliveries {
		switch d.status {
		case "pending", "sending", "retry_wait", "held":
			n++
		}
	}
	return n
}
