package signin

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Failures are counted in the database, so that attempts at the same time all count. The kit sets columns to values, so
// these statements are written by hand, and each returns one value at most.

// isKnownOrigin reports whether the user has signed in from there lately.
func isKnownOrigin(ctx context.Context, q db.Querier, user, origin string) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT 1 FROM sessions WHERE user_id = $1 AND signed_in_from = $2 LIMIT 1", user,
		origin).Scan(&n)
	return db.Found("the account's addresses", err)
}

// readBlocked returns until when, in Unix milliseconds, the attempt has to wait.
func readBlocked(ctx context.Context, q db.Querier, a Attempt) (int64, error) {
	var until int64
	var ids []any
	for _, b := range a.buckets() {
		ids = append(ids, b.id)
	}
	err := q.QueryRowContext(ctx, "SELECT COALESCE(MAX(blocked_ms), 0) FROM sign_in_failures WHERE id IN "+
		db.In(1, len(ids)), ids...).
		Scan(&until)
	if err != nil {
		return 0, fmt.Errorf("read failed sign-ins: %w", err)
	}
	return until, nil
}

// addFailure counts a failure and returns how many there are, or false when the bucket has to wait.
func addFailure(ctx context.Context, tx *sql.Tx, bucketID string, now time.Time) (failures int64, ok bool, err error) {
	err = tx.QueryRowContext(ctx, `INSERT INTO sign_in_failures (id, failures, blocked_ms, last_ms) VALUES ($1, 1, 0, $2)
		ON CONFLICT (id) DO UPDATE SET last_ms = excluded.last_ms,
			failures = CASE WHEN sign_in_failures.last_ms <= $3 THEN 1 ELSE sign_in_failures.failures + 1 END
		WHERE sign_in_failures.blocked_ms <= excluded.last_ms
		RETURNING failures`, bucketID, clock.Millis(now), clock.Millis(now.Add(-forgetAfter))).Scan(&failures)
	ok, err = db.Found("failed sign-ins", err)
	return failures, ok, err
}

func blockUntil(ctx context.Context, tx *sql.Tx, bucketID string, until time.Time) error {
	_, err := tx.ExecContext(ctx, "UPDATE sign_in_failures SET blocked_ms = $2 WHERE id = $1", bucketID,
		clock.Millis(until))
	if err != nil {
		return fmt.Errorf("count a failed sign-in: %w", err)
	}
	return nil
}

func forgetFailures(ctx context.Context, tx *sql.Tx, b bucket) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM sign_in_failures WHERE id = $1", b.id); err != nil {
		return fmt.Errorf("forget failed sign-ins: %w", err)
	}
	return nil
}

// uncountFailure removes one failure. One that has to wait all the same goes on waiting.
func uncountFailure(ctx context.Context, tx *sql.Tx, b bucket) error {
	_, err := tx.ExecContext(ctx, `UPDATE sign_in_failures SET failures = failures - 1,
			blocked_ms = CASE WHEN failures - 1 <= $2 THEN 0 ELSE blocked_ms END
		WHERE id = $1 AND failures > 0`, b.id, b.free)
	if err != nil {
		return fmt.Errorf("withdraw a failed sign-in: %w", err)
	}
	return nil
}

// sweepFailures removes a few rows that count nothing any more. Each attempt adds two at most, so the table stays small
// without a worker.
func sweepFailures(ctx context.Context, d *db.DB, tx *sql.Tx, now time.Time) error {
	old := "SELECT id FROM sign_in_failures WHERE last_ms <= $1 ORDER BY last_ms LIMIT 10" + d.SkipLocked()
	_, err := tx.ExecContext(ctx, "DELETE FROM sign_in_failures WHERE id IN ("+old+")", //nolint:gosec // the text is ours
		clock.Millis(now.Add(-forgetAfter)))
	if err != nil {
		return fmt.Errorf("remove old failed sign-ins: %w", err)
	}
	return nil
}
