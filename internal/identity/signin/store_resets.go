package signin

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/identity/members"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

func insertResetRequest(ctx context.Context, tx *sql.Tx, requestID string, sealed []byte, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO password_reset_requests (id, request, created_ms) VALUES ($1, $2, $3)",
		requestID, sealed, nowMillis)
	if err != nil {
		return fmt.Errorf("store a request for a link: %w", err)
	}
	return nil
}

func anyResetRequest(ctx context.Context, q db.Querier) (bool, error) {
	var n int
	return db.Found("requests for links", q.QueryRowContext(ctx, "SELECT 1 FROM password_reset_requests LIMIT 1").Scan(&n))
}

// claimResetRequest removes the oldest request that no other node has in hand, and returns it.
func claimResetRequest(ctx context.Context, d *db.DB,
	tx *sql.Tx) (requestID string, sealed []byte, created time.Time, ok bool, err error) {
	var millis int64
	oldest := "SELECT id FROM password_reset_requests ORDER BY id LIMIT 1" + d.SkipLocked()
	err = tx.QueryRowContext(ctx, "DELETE FROM password_reset_requests WHERE id = ("+oldest+
		") RETURNING id, request, created_ms").Scan(&requestID, &sealed, &millis)
	ok, err = db.Found("a request for a link", err)
	return requestID, sealed, clock.FromMillis(millis), ok, err
}

// insertReset stores a token's code, and removes a few whose time is over, so that the table stays small without a
// worker.
func insertReset(ctx context.Context, d *db.DB, tx *sql.Tx, tokenMAC []byte, user string, now time.Time) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO password_resets (token_mac, user_id, created_ms, expires_ms) VALUES "+
		"($1, $2, $3, $4)",
		tokenMAC, user, clock.Millis(now), clock.Millis(now.Add(ResetLifetime)))
	if err != nil {
		return fmt.Errorf("store a password reset: %w", err)
	}
	old := "SELECT token_mac FROM password_resets WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT 10" + d.SkipLocked()
	//nolint:gosec // the text is ours
	if _, err := tx.ExecContext(ctx, "DELETE FROM password_resets WHERE token_mac IN ("+old+")",
		clock.Millis(now)); err != nil {
		return fmt.Errorf("remove old password resets: %w", err)
	}
	return nil
}

func countResets(ctx context.Context, q db.Querier, user string, now time.Time) (int, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT count(*) FROM password_resets WHERE user_id = $1 AND expires_ms > $2", user,
		clock.Millis(now)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count password resets: %w", err)
	}
	return n, nil
}

// readReset returns the user whom a token was mailed to.
func readReset(ctx context.Context, q db.Querier, tokenMAC []byte,
	now time.Time) (u members.User, ok bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT user_id FROM password_resets WHERE token_mac = $1 AND expires_ms > $2", tokenMAC,
		clock.Millis(now)).Scan(&u.ID)
	if ok, err = db.Found("a password reset", err); err != nil || !ok {
		return members.User{}, false, err
	}
	return members.ReadUser(ctx, q, u.ID)
}

// useReset uses a token up. Of several at a time one finds it.
func useReset(ctx context.Context, tx *sql.Tx, tokenMAC []byte, now time.Time) (user string, ok bool, err error) {
	err = tx.QueryRowContext(ctx, "DELETE FROM password_resets WHERE token_mac = $1 AND expires_ms > $2 RETURNING user_id",
		tokenMAC, clock.Millis(now)).Scan(&user)
	ok, err = db.Found("a password reset", err)
	return user, ok, err
}

func deleteResets(ctx context.Context, tx *sql.Tx, user string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM password_resets WHERE user_id = $1", user); err != nil {
		return fmt.Errorf("remove password resets: %w", err)
	}
	return nil
}
