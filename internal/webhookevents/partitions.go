package webhookevents

import (
	"context"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// partitionDays is for how many days partitions are made ahead.
const partitionDays = 4

// EnsurePartitions makes the payload partitions of the day of now and of the days after it. It does nothing on SQLite, and
// nothing for a day whose first payloads have gone to the default partition already: those stay there, and stay right.
func (s *Store) EnsurePartitions(ctx context.Context, now time.Time) error {
	if s.db.Engine() != db.Postgres {
		return nil
	}
	day := now.UTC().Truncate(24 * time.Hour)
	for range partitionDays {
		if err := s.ensurePartition(ctx, day); err != nil {
			return fmt.Errorf("make the partition of %s: %w", day.Format(time.DateOnly), err)
		}
		day = day.AddDate(0, 0, 1)
	}
	return nil
}

func (s *Store) ensurePartition(ctx context.Context, day time.Time) error {
	name := "webhook_event_payloads_" + day.Format("20060102")
	from, to := clock.Millis(day), clock.Millis(day.AddDate(0, 0, 1))
	var ready bool
	err := s.db.Read().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = $1 AND relkind = 'r')
		OR EXISTS (SELECT 1 FROM webhook_event_payloads_default WHERE received_ms >= $2 AND received_ms < $3)`, name, from, to).Scan(&ready)
	if err != nil || ready {
		return err
	}
	_, err = s.db.Write().ExecContext(ctx, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s PARTITION OF webhook_event_payloads FOR VALUES FROM (%d) TO (%d)",
		name, from, to))
	return err
}
