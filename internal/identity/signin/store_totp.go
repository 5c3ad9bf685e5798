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

func totpColumns(t *storedTOTP) db.Columns {
	return db.Columns{
		db.Col("secret", &t.sealed),
		db.Col("created_ms", &t.createdMillis),
		db.Col("confirmed_ms", &t.confirmedMillis),
		db.Col("last_step", &t.lastStep),
		db.Col("failures", &t.failures),
		db.Col("blocked_ms", &t.blockedMillis),
	}
}

func readTOTP(ctx context.Context, q db.Querier, user string) (t storedTOTP, ok bool, err error) {
	t, ok, err = db.One(ctx, q, totpColumns, "FROM user_totp", new(db.Where).And("user_id = ?", user), "")
	if err != nil {
		return storedTOTP{}, false, fmt.Errorf("read the authenticator app: %w", err)
	}
	return t, ok, nil
}

// lockTOTP is readTOTP with the row held until the transaction ends, so that each of several attempts with codes sees
// the outcome of the one before.
func lockTOTP(ctx context.Context, tx *sql.Tx, user string) (t storedTOTP, ok bool, err error) {
	columns := totpColumns(&t)
	ok, err = db.Found("the authenticator app", columns.Scan(tx.QueryRowContext(ctx,
		"UPDATE user_totp SET failures = failures WHERE user_id = $1 RETURNING "+columns.Names(), user)))
	return t, ok, err
}

// storeTOTP stores an enrolment that awaits its confirmation, in the place of one that did too, and reports false where
// one is confirmed.
func storeTOTP(ctx context.Context, tx *sql.Tx, user string, sealed []byte, nowMillis int64) (bool, error) {
	t := storedTOTP{sealed: sealed, createdMillis: nowMillis}
	return db.Insert(ctx, tx, "INSERT INTO user_totp", append(totpColumns(&t), db.Col("user_id", &user)),
		`ON CONFLICT (user_id) DO UPDATE SET secret = excluded.secret, created_ms = excluded.created_ms,
			last_step = excluded.last_step, failures = excluded.failures, blocked_ms = excluded.blocked_ms
		WHERE user_totp.confirmed_ms IS NULL`)
}

// confirmTOTP activates the app.
func confirmTOTP(ctx context.Context, tx *sql.Tx, user string, nowMillis int64) error {
	t := storedTOTP{confirmedMillis: &nowMillis}
	if _, err := db.Update(ctx, tx, "UPDATE user_totp", totpColumns(&t).Only("confirmed_ms"),
		new(db.Where).And("user_id = ?", user)); err != nil {
		return fmt.Errorf("confirm the authenticator app: %w", err)
	}
	return nil
}

// useStep notes the step of a code and reports whether it was behind that of the last one: of two attempts with one
// code at the same time, one succeeds.
func useStep(ctx context.Context, tx *sql.Tx, user string, step int64) (bool, error) {
	t := storedTOTP{lastStep: step}
	return db.Update(ctx, tx, "UPDATE user_totp", totpColumns(&t).Only("last_step", "failures", "blocked_ms"),
		new(db.Where).And("user_id = ? AND last_step < ?", user, step))
}

func countWrongCode(ctx context.Context, tx *sql.Tx, user string, blockedMillis int64) error {
	// Counted by the database: the kit sets columns to values.
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
	_, err := db.Insert(ctx, tx, "INSERT INTO user_recovery_codes",
		db.Columns{db.Col("user_id", &user), db.Col("mac", &code)}, "")
	if err != nil {
		return fmt.Errorf("store a recovery code: %w", err)
	}
	return nil
}

// useRecoveryCode reports whether the code is the user's and was not used before.
func useRecoveryCode(ctx context.Context, tx *sql.Tx, user string, code []byte, nowMillis int64) (bool, error) {
	return db.Update(ctx, tx, "UPDATE user_recovery_codes", db.Columns{db.Col("used_ms", &nowMillis)},
		new(db.Where).And("user_id = ? AND mac = ? AND used_ms IS NULL", user, code))
}

func countRecoveryCodes(ctx context.Context, q db.Querier, user string) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*) FROM user_recovery_codes WHERE user_id = $1 AND used_ms IS NULL",
		user).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count recovery codes: %w", err)
	}
	return n, nil
}
