package events

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Partitions makes and drops the daily partitions of payloads on PostgreSQL. On SQLite it does nothing.
type Partitions struct{ db *db.DB }

// NewPartitions returns Partitions.
func NewPartitions(d *db.DB) *Partitions { return &Partitions{db: d} }

// partitionDays is the number of days that have a partition in advance, with today.
const partitionDays = 4

// Ensure makes the partitions of the day of now and of the following days. It skips a day whose first payloads are in
// the default partition already: they stay there, and stay correct.
func (p *Partitions) Ensure(ctx context.Context, now time.Time) error {
	if p.db.Engine() != db.Postgres {
		return nil
	}
	day := now.UTC().Truncate(24 * time.Hour)
	for range partitionDays {
		if err := p.ensure(ctx, day); err != nil {
			return fmt.Errorf("make the partition of %s: %w", day.Format(time.DateOnly), err)
		}
		day = day.AddDate(0, 0, 1)
	}
	return nil
}

func (p *Partitions) ensure(ctx context.Context, day time.Time) error {
	name := partitionPrefix + day.Format(partitionDay)
	made, err := p.has(ctx, p.db.Read(), name)
	if err != nil || made {
		return err
	}
	return p.db.Tx(ctx, func(tx *sql.Tx) error {
		// Several nodes make partitions.
		if err := p.db.AdvisoryLock(ctx, tx, db.LockPartitions); err != nil {
			return err
		}
		if made, err := p.has(ctx, tx, name); err != nil || made {
			return err
		}
		return attachPartition(ctx, tx, name, clock.Millis(day), clock.Millis(day.AddDate(0, 0, 1)))
	})
}

func (p *Partitions) has(ctx context.Context, q db.Querier, name string) (bool, error) {
	var made bool
	err := q.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&made)
	return made, err
}

// attachPartition makes the partition of the times from from, inclusive, to to, exclusive, unless the default partition
// has rows of them. It runs alongside writers and readers: attaching a table locks less than creating a partition, and
// lock_timeout ends the wait for its locks.
func attachPartition(ctx context.Context, tx *sql.Tx, name string, from, to int64) error {
	for _, statement := range []string{
		"SET LOCAL lock_timeout = '2s'",
		// From here on nothing is added to the default partition.
		"LOCK TABLE webhook_event_payloads_default IN SHARE MODE",
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	var begun bool
	err := tx.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM webhook_event_payloads_default WHERE received_ms >= $1 AND received_ms < $2)`, from,
		to).Scan(&begun)
	if err != nil || begun {
		return err
	}
	for _, statement := range []string{
		fmt.Sprintf("CREATE TABLE %s (LIKE webhook_event_payloads INCLUDING ALL)", name),
		fmt.Sprintf("ALTER TABLE webhook_event_payloads ATTACH PARTITION %s FOR VALUES FROM (%d) TO (%d)", name, from, to),
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
