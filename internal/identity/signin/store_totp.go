package signin

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/platform/db"
)

// storedTOTP is a row of user_totp.
type storedTOTP struct {
	sealed          []byte
	createdMillis   int64
	confirmedMillis *int64
	lastStep        int64
	failures        int64
	blockedMillis   int64
}

func readTOTP(ctx context.Context, q db.Querier, user string) (t storedTOTP, ok bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT secret, created_ms, confirmed_ms, last_step, failures, blocked_ms FROM "+
		"user_totp WHERE user_id = $1", user).
		Scan(&t.sealed, &t.createdMillis, &t.confirmedMillis, &t.lastStep, &t.failures, &t.blockedMillis)
	ok, err = db.Found("the authenticator app", err)
	return t, ok, err
}

// lockTOTP is readTOTP with the row held until the transaction ends, so that of several who show codes each sees what
// became of the one before.
func lockTOTP(ctx context.Context, tx *sql.Tx, user string) (t storedTOTP, ok bool, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE user_totp SET failures = failures WHERE user_id = $1
		RETURNING secret, created_ms, confirmed_ms, last_step, failures, blocked_ms`, user).
		Scan(&t.sealed, &t.createdMillis, &t.confirmedMillis, &t.lastStep, &t.failures, &t.blockedMillis)
	ok, err = db.Found("the authenticator app", err)
	return t, ok, err
}

// storeTOTP stores an enrolment that awaits its confirmation, in the place of one that did too, and reports false where
// one is confirmed.
func storeTOTP(ctx context.Context, tx *sql.Tx, user string, sealed []byte, nowMillis int64) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, `INSERT INTO user_totp (user_id, secret, created_ms, confirmed_ms, last_step,
			failures, blocked_ms)
		VALUES ($1, $2, $3, NULL, 0, 0, 0)
		ON CONFLICT (user_id) DO UPDATE SET secret = excluded.secret, created_ms = excluded.created_ms, last_step = 0,
		failures = 0, blocked_ms = 0
		WHERE user_totp.confirmed_ms IS NULL`, user, sealed, nowMillis))
}

// confirmTOTP puts the app in force.
func confirmTOTP(ctx context.Context, tx *sql.Tx, user string, nowMillis int64) error {
	if _, err := tx.ExecContext(ctx, "UPDATE user_totp SET confirmed_ms = $2 WHERE user_id = $1", user,
		nowMillis); err != nil {
		return fmt.Errorf("confirm the authenticator app: %w", err)
	}
	return nil
}

// useStep notes the step of a code and reports whether it was behind that of the last one: of two who show a code at
// once, one is told that it is right.
func useStep(ctx context.Context, tx *sql.Tx, user string, step int64) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, "UPDATE user_totp SET last_step = $2, failures = 0, blocked_ms = 0 WHERE "+
		"user_id = $1 AND last_step < $2",
		user, step))
}

func countWrongCode(ctx context.Context, tx *sql.Tx, user string, blockedMillis int64) error {
	_, err := tx.ExecContext(ctx, "UPDATE user_totp SET failures = failures + 1, blocked_ms = $2 WHERE user_id = $1", user,
		blockedMillis)
	if err != nil {
		return fmt.Errorf("count a wrong code: %w", err)
	}
	return nil
}

// deleteTOTP removes the app with its recovery codes and reports whether there was one.
func deleteTOTP(ctx context.Context, tx *sql.Tx, user string) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, "DELETE FROM user_totp WHERE user_id = $1", user))
}

func insertRecoveryCode(ctx context.Context, tx *sql.Tx, user string, code []byte) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO user_recovery_codes (user_id, mac, used_ms) VALUES ($1, $2, NULL)", user,
		code); err != nil {
		return fmt.Errorf("store a recovery code: %w", err)
	}
	return nil
}

// useRecoveryCode reports whether the code is the user's and was not used before.
func useRecoveryCode(ctx context.Context, tx *sql.Tx, user string, code []byte, nowMillis int64) (bool, error) {
	return db.Changed(tx.ExecContext(ctx,
		"UPDATE user_recovery_codes SET used_ms = $3 WHERE user_id = $1 AND mac = $2 "+
			"AND used_ms IS NULL",
		user, code, nowMillis))
}

func countRecoveryCodes(ctx context.Context, q db.Querier, user string) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*) FROM user_recovery_codes WHERE user_id = $1 AND used_ms IS NULL",
		user).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count recovery codes: %w", err)
	}
	return n, nil
}
