package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// StatOwner is a subscription with statistics. It may be deleted.
type StatOwner struct {
	SubscriptionID string
	Environment    id.Environment
}

// StatOwners returns every subscription with statistics. It hops through the primary key from one to the next.
func (s *Store) StatOwners(ctx context.Context) ([]StatOwner, error) {
	rows, err := s.db.Read().QueryContext(ctx, `WITH RECURSIVE hop (subscription_id) AS (
		SELECT (SELECT s.subscription_id FROM delivery_stats s ORDER BY s.subscription_id LIMIT 1)
		UNION ALL
		SELECT (SELECT s.subscription_id FROM delivery_stats s WHERE s.subscription_id > hop.subscription_id
			ORDER BY s.subscription_id LIMIT 1)
			FROM hop WHERE hop.subscription_id IS NOT NULL)
		SELECT hop.subscription_id, (SELECT s.environment_id FROM delivery_stats s
		WHERE s.subscription_id = hop.subscription_id LIMIT 1)
		FROM hop WHERE hop.subscription_id IS NOT NULL`)
	if err != nil {
		return nil, fmt.Errorf("find subscriptions with statistics: %w", err)
	}
	var list []StatOwner
	if err := db.Each(rows, func(r *sql.Rows) error {
		var o StatOwner
		var env sql.NullString
		err := r.Scan(&o.SubscriptionID, &env)
		o.Environment = id.Environment(env.String)
		list = append(list, o)
		return err
	}); err != nil {
		return nil, fmt.Errorf("find subscriptions with statistics: %w", err)
	}
	return list, nil
}

// joinedMinutes is the number of minutes whose statistics one transaction joins.
const joinedMinutes = 10

// StatMinutesUntil returns the full hour before which minutes are to be joined to hours.
func StatMinutesUntil(now time.Time) time.Time {
	return now.Add(-StatMinutesKept - time.Hour).Truncate(time.Hour)
}

// JoinStats adds a few of the owner's oldest minutes before a full hour to their hour, and reports whether there were
// any.
func (s *Store) JoinStats(ctx context.Context, o StatOwner, before time.Time) (bool, error) {
	first, err := s.oldestStat(ctx, o, statMinute, before)
	if err != nil || first < 0 {
		return false, err
	}
	hour := first - first%statHour
	until := min(first+joinedMinutes*statMinute, hour+statHour)
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		// The rows that are deleted are those that are added, although other processes may be counting.
		rows, err := tx.QueryContext(ctx, `DELETE FROM delivery_stats WHERE subscription_id = $1 AND width_ms = $2
			AND start_ms >= $3 AND start_ms < $4
			AND environment_id = $5 RETURNING measure, class, n`,
			o.SubscriptionID, statMinute, first, until, string(o.Environment))
		if err != nil {
			return err
		}
		joined := tally{}
		if err := db.Each(rows, func(r *sql.Rows) error {
			k := tallyKey{subscriptionID: o.SubscriptionID, startMillis: hour, environment: o.Environment}
			var n int64
			err := r.Scan(&k.measure, &k.class, &n)
			joined[k] += n
			return err
		}); err != nil {
			return err
		}
		_, err = s.db.ExecAll(ctx, tx, joined.statement(statHour))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("join statistics: %w", err)
	}
	return true, nil
}

// removedHours is the number of hours whose statistics one transaction deletes.
const removedHours = 10

// RemoveStats deletes a few of the owner's oldest hours that ended at cutoff or before, and reports whether there were
// any.
func (s *Store) RemoveStats(ctx context.Context, o StatOwner, cutoff time.Time) (bool, error) {
	before := clock.FromMillis(clock.Millis(cutoff) - statHour + 1)
	first, err := s.oldestStat(ctx, o, statHour, before)
	if err != nil || first < 0 {
		return false, err
	}
	until := min(first+removedHours*statHour, clock.Millis(before))
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM delivery_stats WHERE subscription_id = $1 AND width_ms = $2
			AND start_ms >= $3 AND start_ms < $4
			AND environment_id = $5`, o.SubscriptionID, statHour, first, until, string(o.Environment))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("delete old statistics: %w", err)
	}
	return true, nil
}

// oldestStat returns the start of the owner's oldest row of a width before a time, or -1 if there is none.
func (s *Store) oldestStat(ctx context.Context, o StatOwner, width int64, before time.Time) (int64, error) {
	var start int64
	err := s.db.Read().QueryRowContext(ctx, `SELECT s.start_ms FROM delivery_stats s WHERE s.subscription_id = $1
		AND s.width_ms = $2 AND s.start_ms < $3
		AND s.environment_id = $4 ORDER BY s.start_ms LIMIT 1`,
		o.SubscriptionID, width, clock.Millis(before), string(o.Environment)).Scan(&start)
	if errors.Is(err, sql.ErrNoRows) {
		return -1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find old statistics: %w", err)
	}
	return start, nil
}
