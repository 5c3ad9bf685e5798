package events

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

const (
	partitionPrefix = "webhook_event_payloads_"
	partitionDay    = "20060102"
)

// Drop drops the partitions of days whose payloads were all received at cutoff or before, each in its own transaction,
// and returns their number. First it marks the payloads of the environments as gone up to cutoff; these must be all
// environments with events. A partition that is being read is left for the next call, because a waiting DROP would
// block every write.
func (p *Partitions) Drop(ctx context.Context, environments []id.Environment,
	cutoff time.Time) (n int, err error) {
	if p.db.Engine() != db.Postgres {
		return 0, nil
	}
	days, err := p.days(ctx)
	if err != nil {
		return 0, err
	}
	for _, day := range days {
		end := day.AddDate(0, 0, 1).Add(-time.Millisecond)
		if end.After(cutoff) {
			return n, nil
		}
		if n == 0 {
			if err := p.markGone(ctx, environments, cutoff); err != nil {
				return n, err
			}
		}
		err := p.db.Tx(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '100ms'"); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "DROP TABLE "+partitionPrefix+day.Format(partitionDay))
			return err
		})
		if db.IsLockTimeout(err) {
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("drop the partition of %s: %w", day.Format(time.DateOnly), err)
		}
		n++
	}
	return n, nil
}

// days returns the days that have a partition, oldest first.
func (p *Partitions) days(ctx context.Context) ([]time.Time, error) {
	rows, err := p.db.Read().QueryContext(ctx, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'webhook_event_payloads'::regclass ORDER BY c.relname`)
	if err != nil {
		return nil, fmt.Errorf("list the partitions: %w", err)
	}
	var days []time.Time
	if err := db.Each(rows, func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		if day, parseErr := time.Parse(partitionDay, strings.TrimPrefix(name, partitionPrefix)); parseErr == nil {
			days = append(days, day)
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("list the partitions: %w", err)
	}
	return days, nil
}

// markGone marks the payloads of environments as gone up to cutoff.
func (p *Partitions) markGone(ctx context.Context, environments []id.Environment, cutoff time.Time) error {
	const chunk = 200
	for len(environments) > 0 {
		n := min(len(environments), chunk)
		args := make([]any, 0, n*raiseHorizons.Columns())
		for _, env := range environments[:n] {
			args = append(args, string(env), clock.Millis(cutoff), "")
		}
		if err := p.db.Tx(ctx, func(tx *sql.Tx) error {
			_, err := p.db.Exec(ctx, tx, raiseHorizons, args)
			return err
		}); err != nil {
			return fmt.Errorf("mark payloads as gone: %w", err)
		}
		environments = environments[n:]
	}
	return nil
}

// SweepDefault deletes up to limit payloads that were received at cutoff or before from the default partition, which is
// never dropped, and returns their number. Like Drop it marks payloads as gone first.
func (p *Partitions) SweepDefault(ctx context.Context, environments []id.Environment, cutoff time.Time,
	limit int) (int, error) {
	if p.db.Engine() != db.Postgres {
		return 0, nil
	}
	rows, err := p.db.Read().QueryContext(ctx, `SELECT p.event_uuid, p.received_ms, length(p.body)
		FROM webhook_event_payloads_default p
		ORDER BY p.event_uuid LIMIT $1`, limit)
	if err != nil {
		return 0, fmt.Errorf("read the default partition: %w", err)
	}
	var uuids []string
	bytes, ended := int64(0), false
	if err := db.Each(rows, func(r *sql.Rows) error {
		var uuid string
		var received, size int64
		if err := r.Scan(&uuid, &received, &size); err != nil {
			return err
		}
		bytes += size
		ended = ended || received > clock.Millis(cutoff) || bytes > maxSweptBytes && len(uuids) > 0
		if !ended {
			uuids = append(uuids, uuid)
		}
		return nil
	}); err != nil {
		return 0, fmt.Errorf("read the default partition: %w", err)
	}
	if len(uuids) == 0 {
		return 0, nil
	}
	if err := p.markGone(ctx, environments, cutoff); err != nil {
		return 0, err
	}
	err = p.db.Tx(ctx, func(tx *sql.Tx) error {
		return deleteIn(ctx, tx, "DELETE FROM webhook_event_payloads_default WHERE event_uuid IN ", uuids)
	})
	if err != nil {
		return 0, fmt.Errorf("sweep the default partition: %w", err)
	}
	return len(uuids), nil
}

// Overdue returns for how long, at cutoff, the oldest partition could have been dropped; 0 if none can be.
func (p *Partitions) Overdue(ctx context.Context, cutoff time.Time) (time.Duration, error) {
	if p.db.Engine() != db.Postgres {
		return 0, nil
	}
	days, err := p.days(ctx)
	if err != nil || len(days) == 0 {
		return 0, err
	}
	return max(0, cutoff.Sub(days[0].AddDate(0, 0, 1))), nil
}
