package members

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

const (
	// maxEmailBytes is the longest path that SMTP carries, without its brackets (RFC 5321, section 4.5.3.1.3).
	maxEmailBytes = 254
)

// ErrEmailTaken means that the installation has a user with the e-mail address.
var ErrEmailTaken = errors.New("a user with this e-mail address exists; reset the password instead")

// User is a person.
type User struct {
	ID string
	// Email is in lower case and unique in the installation.
	Email string
}

// Account holds the parts of a user that a sign-in needs.
type Account struct {
	User User
	// PasswordHash is stored as the caller gave it.
	PasswordHash string
	// Team is the first team that the user joined; empty for a user who is in none.
	Team id.Team
}

func userColumns(u *User) db.Columns {
	return db.Columns{
		db.Col("id", &u.ID),
		db.Col("email", &u.Email),
	}
}

// passwordColumns binds a user with the hash of their password.
func passwordColumns(u *User, hash *string) db.Columns {
	return append(userColumns(u), db.Col("password_hash", hash))
}

// accountColumns binds what is read of an account: the user, and the team of a membership m that can be missing.
func accountColumns(a *Account) db.Columns {
	return append(passwordColumns(&a.User, &a.PasswordHash), db.Col("COALESCE(m.team_id, '')", &a.Team))
}

// ReadAccount returns the account of an e-mail address in the form that is stored.
func ReadAccount(ctx context.Context, q db.Querier, email string) (a Account, ok bool, err error) {
	a, ok, err = db.One(ctx, q, accountColumns, "FROM users LEFT JOIN memberships m ON m.user_id = users.id",
		new(db.Where).And("email = ?", email), "ORDER BY m.created_ms, m.team_id LIMIT 1")
	if err != nil {
		return Account{}, false, fmt.Errorf("read the account: %w", err)
	}
	return a, ok, nil
}

// AddUser stores a user who is in no team yet.
func AddUser(ctx context.Context, tx *sql.Tx, u User, passwordHash string, nowMillis int64) error {
	_, err := db.Insert(ctx, tx, "INSERT INTO users", append(passwordColumns(&u, &passwordHash),
		db.Col("created_ms", &nowMillis), db.Col("updated_ms", &nowMillis)), "")
	if err != nil {
		return fmt.Errorf("store the user: %w", err)
	}
	return nil
}

// SetPasswordHash replaces the hash of a user's password.
func SetPasswordHash(ctx context.Context, tx *sql.Tx, user, passwordHash string, nowMillis int64) error {
	columns := append(passwordColumns(new(User), &passwordHash).Only("password_hash"), db.Col("updated_ms", &nowMillis))
	_, err := db.Update(ctx, tx, "UPDATE users", columns, new(db.Where).And("id = ?", user))
	if err != nil {
		return fmt.Errorf("store the password: %w", err)
	}
	return nil
}

// ReplacePasswordHash replaces the hash that a password was just checked against, with itself where it stays, and
// reports whether it was still there. It locks the user's row, so that no change of the password comes between.
func ReplacePasswordHash(ctx context.Context, tx *sql.Tx, user, before, after string) (bool, error) {
	return db.Update(ctx, tx, "UPDATE users", passwordColumns(new(User), &after).Only("password_hash"),
		new(db.Where).And("id = ? AND password_hash = ?", user, before))
}

// LockUser locks a user's row until the transaction ends, so that two sign-ins do not change the user's roles at the
// same time.
func LockUser(ctx context.Context, tx *sql.Tx, user string) error {
	if _, err := tx.ExecContext(ctx, "UPDATE users SET updated_ms = updated_ms WHERE id = $1", user); err != nil {
		return fmt.Errorf("lock the user: %w", err)
	}
	return nil
}

// PasswordChangedSince reports whether a user has another password than at a time.
func PasswordChangedSince(ctx context.Context, q db.Querier, user string, since time.Time) (bool, error) {
	var one int
	found, err := db.Found("a change of the password", q.QueryRowContext(ctx, // only a password changes the row's time
		"SELECT 1 FROM users WHERE id = $1 AND updated_ms > $2", user, clock.Millis(since)).Scan(&one))
	return found, err
}

// ReadUser returns a user by their id.
func ReadUser(ctx context.Context, q db.Querier, userID string) (u User, ok bool, err error) {
	u, ok, err = db.One(ctx, q, userColumns, "FROM users", new(db.Where).And("id = ?", userID), "")
	if err != nil {
		return User{}, false, fmt.Errorf("read the user: %w", err)
	}
	return u, ok, nil
}

// CheckEmail returns the address in the form that is stored, and adds a validation error to f for one that is none.
func CheckEmail(v *apperr.Violations, email string) string {
	address, ok := NormalizeEmail(email)
	if !ok {
		v.Add("email", "email", "must be an e-mail address such as ada@example.test")
	}
	return address
}

// NormalizeEmail returns the address in the form that is stored. The local part is in lower case too: no provider in
// use distinguishes addresses by case, and people do not remember which case they typed.
func NormalizeEmail(email string) (string, bool) {
	if len(email) > maxEmailBytes {
		return "", false
	}
	a, err := mail.ParseAddress(email)
	if err != nil || a.Name != "" || a.Address != email {
		return "", false
	}
	// A letter outside ASCII whose lower case is inside, such as the kelvin sign, would make one address of two people's.
	for _, r := range email {
		if r > unicode.MaxASCII && unicode.ToLower(r) <= unicode.MaxASCII {
			return "", false
		}
	}
	return strings.ToLower(email), true
}
