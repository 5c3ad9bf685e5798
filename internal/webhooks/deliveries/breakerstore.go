package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// breakersChanged is the collection of breakers, for the caches of other processes. Its keys are subscriptions.
const breakersChanged = "delivery_breakers"

// breakerStore reads and writes breakers, and reads the counts of attempts that decide about them.
type breakerStore struct{ db *db.DB }

func breakerColumns(b *breaker) db.Columns {
	return db.Columns{
		db.Col("subscription_id", &b.subscriptionID),
		db.Col("environment_id", &b.environment),
		db.Col("opened_ms", db.NullMillis(&b.opened)),
		db.Col("probe_ms", db.Millis(&b.probe)),
		db.Col("failing_ms", db.Millis(&b.failing)),
		db.Col("since_ms", db.Millis(&b.since)),
	}
}

// of reads the breakers of these subscriptions. One that never opened may be missing.
func (s breakerStore) of(ctx context.Context, subscriptionIDs []string) (list []breaker, err error) {
	for some := range slices.Chunk(subscriptionIDs, chunk) {
		found, err := s.read(ctx, db.AnyOf(new(db.Where), "subscription_id", some))
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// all reads the breakers that are open, and those whose counting began again after the time given.
func (s breakerStore) all(ctx context.Context, after time.Time) ([]breaker, error) {
	return s.read(ctx, new(db.Where).And("(opened_ms IS NOT NULL OR since_ms > ?)", clock.Millis(after)))
}

func (s breakerStore) read(ctx context.Context, w *db.Where) ([]breaker, error) {
	list, err := db.All(ctx, db.ReadAs(ctx, s.db), breakerColumns, "FROM delivery_breakers", w, "")
	if err != nil {
		return nil, fmt.Errorf("read breakers: %w", err)
	}
	return list, nil
}

// change runs a statement that changes at most one breaker, and lets other processes know. It returns false if
// the breaker was not in the state from which the statement starts.
func (s breakerStore) change(ctx context.Context, tx *sql.Tx, subscriptionID, statement string,
	args ...any) (bool, error) {
	changed, err := db.Changed(tx.ExecContext(ctx, statement, args...))
	if err != nil {
		return false, fmt.Errorf("change a breaker: %w", err)
	}
	if !changed {
		return false, nil
	}
	return true, db.Bump(ctx, tx, breakersChanged, subscriptionID)
}

// open opens a breaker that is closed, unless counting has begun again since it was judged.
func (s breakerStore) open(ctx context.Context, b breaker) (opened bool, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		opened, err = s.change(ctx, tx, b.subscriptionID, `INSERT INTO delivery_breakers
			(subscription_id, environment_id, opened_ms, probe_ms, failing_ms, since_ms, release_ms)
			VALUES ($1, $2, $3, $4, $5, $6, 0)
			ON CONFLICT (subscription_id) DO UPDATE SET opened_ms = excluded.opened_ms, probe_ms = excluded.probe_ms,
			failing_ms = excluded.failing_ms
			WHERE delivery_breakers.opened_ms IS NULL AND delivery_breakers.since_ms <= excluded.since_ms`,
			b.subscriptionID, string(b.environment), millis(b.opened), clock.Millis(b.probe), clock.Millis(b.failing),
			clock.Millis(b.since))
		return err
	})
	return opened, err
}

// close closes a breaker that has been open since the time given.
func (s breakerStore) close(ctx context.Context, subscriptionID string, opened,
	now time.Time) (closed bool, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		closed, err = s.change(ctx, tx, subscriptionID, `UPDATE delivery_breakers
			SET opened_ms = NULL, since_ms = $3 WHERE subscription_id = $1 AND opened_ms = $2`,
			subscriptionID, clock.Millis(opened), clock.Millis(now))
		return err
	})
	return closed, err
}

// stillFailing records that a receiver whose breaker is open has had a success, so that its failures count from now on.
func (s breakerStore) stillFailing(ctx context.Context, subscriptionID string, now time.Time) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := s.change(ctx, tx, subscriptionID, `UPDATE delivery_breakers SET failing_ms = $2
			WHERE subscription_id = $1 AND opened_ms IS NOT NULL`, subscriptionID, clock.Millis(now))
		return err
	})
}

// forget removes the breaker of a subscription that is gone.
func (s breakerStore) forget(ctx context.Context, tx *sql.Tx, subscriptionID string) error {
	_, err := s.change(ctx, tx, subscriptionID, "DELETE FROM delivery_breakers WHERE subscription_id = $1",
		subscriptionID)
	return err
}

// renew makes attempts count again from now on, and a probe due if the breaker is open.
func (s breakerStore) renew(ctx context.Context, tx *sql.Tx, env id.Environment, subscriptionID string,
	now time.Time) error {
	_, err := s.change(ctx, tx, subscriptionID, `INSERT INTO delivery_breakers
		(subscription_id, environment_id, opened_ms, probe_ms, failing_ms, since_ms, release_ms)
		VALUES ($1, $2, NULL, $3, $3, $3, 0)
		ON CONFLICT (subscription_id) DO UPDATE SET probe_ms = excluded.probe_ms, failing_ms = excluded.failing_ms,
		since_ms = excluded.since_ms`, subscriptionID, string(env), clock.Millis(now))
	return err
}

// takeProbe takes the probe of a receiver that is due. It returns false if another process has.
func (s breakerStore) takeProbe(ctx context.Context, tx *sql.Tx, subscriptionID string, now time.Time) (bool, error) {
	taken, err := db.Changed(tx.ExecContext(ctx, `UPDATE delivery_breakers SET probe_ms = $3
		WHERE subscription_id = $1 AND opened_ms IS NOT NULL AND probe_ms <= $2`, subscriptionID, clock.Millis(now),
		clock.Millis(now.Add(probeInterval))))
	if err != nil {
		return false, fmt.Errorf("take a probe: %w", err)
	}
	return taken, nil
}

// takeRelease takes the next release of held deliveries of a subscription. It returns the time since the last one of
// all processes, from followInterval to releaseLate. The error is errReleased if another process has released some
// within followInterval, or the breaker is open.
func (s breakerStore) takeRelease(ctx context.Context, tx *sql.Tx, env id.Environment, subscriptionID string,
	now time.Time) (time.Duration, error) {
	var next int64 // when the last one allowed the next
	err := tx.QueryRowContext(ctx, "SELECT release_ms FROM delivery_breakers WHERE subscription_id = $1"+s.db.ForUpdate(),
		subscriptionID).Scan(&next)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("take a release: %w", err)
	}
	taken, err := db.Changed(tx.ExecContext(ctx, `INSERT INTO delivery_breakers
		(subscription_id, environment_id, opened_ms, probe_ms, failing_ms, since_ms, release_ms)
		VALUES ($1, $2, NULL, 0, 0, 0, $4)
		ON CONFLICT (subscription_id) DO UPDATE SET release_ms = excluded.release_ms
		WHERE delivery_breakers.opened_ms IS NULL AND delivery_breakers.release_ms <= $3`,
		subscriptionID, string(env), clock.Millis(now), clock.Millis(now.Add(followInterval))))
	if err != nil {
		return 0, fmt.Errorf("take a release: %w", err)
	}
	if !taken {
		return 0, errReleased
	}
	return min(max(now.Sub(clock.FromMillis(next))+followInterval, followInterval), releaseLate), nil
}

// attemptsSince returns the attempts of a subscription in the minutes from one on, of all processes.
func (s breakerStore) attemptsSince(ctx context.Context, subscriptionID string,
	from time.Time) (c attemptCounts, err error) {
	err = db.ReadAs(ctx, s.db).QueryRowContext(ctx, `SELECT COALESCE(CAST(SUM(n) AS bigint), 0),
		COALESCE(CAST(SUM(CASE WHEN measure = $5 THEN n ELSE 0 END) AS bigint), 0) FROM delivery_stats
		WHERE subscription_id = $1 AND width_ms = $2 AND start_ms >= $3 AND class <> $4 AND measure IN ($5, $6)`,
		subscriptionID, statMinute, clock.Millis(from), noDuration, string(measureFailed),
		string(measureSucceeded)).Scan(&c.all, &c.failed)
	if err != nil {
		return attemptCounts{}, fmt.Errorf("count the attempts of a subscription: %w", err)
	}
	return c, nil
}

// failingSince returns when the first attempt of a subscription failed after its last success, as far as is known from
// the time given on; nil if none failed.
func (s breakerStore) failingSince(ctx context.Context, subscriptionID string, from time.Time) (*time.Time, error) {
	var first sql.NullInt64
	const counted = `FROM delivery_stats WHERE subscription_id = $1 AND start_ms >= $2 AND width_ms IN ($3, $4)
		AND class <> $7`
	err := db.ReadAs(ctx, s.db).QueryRowContext(ctx, `SELECT MIN(start_ms) `+counted+` AND measure = $5
		AND start_ms > COALESCE((SELECT MAX(start_ms + width_ms - 1) `+counted+` AND measure = $6), -1)`, subscriptionID,
		clock.Millis(from), statMinute, statHour, string(measureFailed), string(measureSucceeded),
		noDuration).Scan(&first)
	if err != nil {
		return nil, fmt.Errorf("find the first failure of a subscription: %w", err)
	}
	if !first.Valid {
		return nil, nil //nolint:nilnil // no failure
	}
	at := clock.FromMillis(first.Int64)
	return &at, nil
}

// failedDays returns on how many of the last failingDays, counted back from now, an attempt of the subscription failed.
func (s breakerStore) failedDays(ctx context.Context, subscriptionID string, now time.Time) (n int, err error) {
	err = s.db.Read().QueryRowContext(ctx, `SELECT COUNT(DISTINCT ($2 - start_ms) / $8) FROM delivery_stats
		WHERE subscription_id = $1 AND start_ms > $3 AND start_ms <= $2 AND width_ms IN ($4, $5) AND class <> $7
		AND measure = $6`, subscriptionID, clock.Millis(now), clock.Millis(now.Add(-failingFor)), statMinute, statHour,
		string(measureFailed), noDuration, (24 * time.Hour).Milliseconds()).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the days on which a subscription failed: %w", err)
	}
	return n, nil
}

// hasSucceeded reports whether an attempt of a subscription has succeeded in the minutes or hours from one on.
func (s breakerStore) hasSucceeded(ctx context.Context, subscriptionID string, from time.Time) (found bool, err error) {
	err = db.ReadAs(ctx, s.db).QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM delivery_stats WHERE subscription_id = $1
		AND width_ms IN ($2, $3) AND start_ms >= $4 AND measure = $5)`, subscriptionID, statMinute, statHour,
		clock.Millis(from), string(measureSucceeded)).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("look for a success of a subscription: %w", err)
	}
	return found, nil
}
