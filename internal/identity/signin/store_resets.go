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

// storedResetRequest is a row of password_reset_requests.
type storedResetRequest struct {
	id      string
	sealed  []byte
	created time.Time
}

func resetRequestColumns(r *storedResetRequest) db.Columns {
	return db.Columns{
		db.Col("id", &r.id),
		db.Col("request", &r.sealed),
		db.Col("created_ms", db.Millis(&r.created)),
	}
}

func insertResetRequest(ctx context.Context, tx *sql.Tx, r storedResetRequest) error {
	if _, err := db.Insert(ctx, tx, "INSERT INTO password_reset_requests", resetRequestColumns(&r), ""); err != nil {
		return fmt.Errorf("store a request for a link: %w", err)
	}
	return nil
}

func anyResetRequest(ctx context.Context, q db.Querier) (bool, error) {
	var n int
	return db.Found("requests for links", q.QueryRowContext(ctx, "SELECT 1 FROM password_reset_requests LIMIT 1").Scan(&n))
}

// claimResetRequest removes the oldest request that no other node has in hand, and returns it.
func claimResetRequest(ctx context.Context, d *db.DB, tx *sql.Tx) (r storedResetRequest, ok bool, err error) {
	columns := resetRequestColumns(&r)
	oldest := "SELECT id FROM password_reset_requests ORDER BY id LIMIT 1" + d.SkipLocked()
	ok, err = db.Found("a request for a link", columns.Scan(tx.QueryRowContext(ctx,
		"DELETE FROM password_reset_requests WHERE id = ("+oldest+") RETURNING "+columns.Names())))
	return r, ok, err
}

// insertReset stores a token's code, and removes a few expired ones, so that the table stays small without a worker.
func insertReset(ctx context.Context, d *db.DB, tx *sql.Tx, tokenMAC []byte, user string, now time.Time) error {
	expires := now.Add(ResetLifetime)
	_, err := db.Insert(ctx, tx, "INSERT INTO password_resets", db.Columns{db.Col("token_mac", &tokenMAC),
		db.Col("user_id", &user), db.Col("created_ms", db.Millis(&now)), db.Col("expires_ms", db.Millis(&expires))}, "")
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

// useReset uses a token up. Of several concurrent calls one finds it.
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
