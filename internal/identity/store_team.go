package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// account is what signing in needs of a user.
type account struct {
	user         User
	passwordHash string
	team         id.Team
}

// one runs scan and tells a missing row from a failure.
func one(what string, err error) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", what, err)
	}
	return true, nil
}

// changedOne reports whether a statement changed its row.
func changedOne(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("store a change: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("store a change: %w", err)
	}
	return n == 1, nil
}

// readTeam returns the installation's team.
func readTeam(ctx context.Context, q db.Querier) (t Team, ok bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT id, name, created_ms FROM teams ORDER BY id LIMIT 1").
		Scan(&t.ID, &t.Name, &t.CreatedMillis)
	ok, err = one("the team", err)
	return t, ok, err
}

func readTeamByID(ctx context.Context, q db.Querier, team id.Team) (t Team, ok bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT id, name, created_ms FROM teams WHERE id = $1", team).Scan(&t.ID, &t.Name,
		&t.CreatedMillis)
	ok, err = one("the team", err)
	return t, ok, err
}

func insertTeam(ctx context.Context, tx *sql.Tx, t Team) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO teams (id, name, created_ms) VALUES ($1, $2, $3)", t.ID, t.Name,
		t.CreatedMillis)
	if err != nil {
		return fmt.Errorf("store the team: %w", err)
	}
	return nil
}

// renameTeam reports whether the team is there and had another name.
func renameTeam(ctx context.Context, tx *sql.Tx, team id.Team, name string) (bool, error) {
	return changedOne(tx.ExecContext(ctx, "UPDATE teams SET name = $2 WHERE id = $1 AND name <> $2", team, name))
}

// readAccount returns the user with that e-mail address and the first team they joined; team is empty for a user who is
// in none.
func readAccount(ctx context.Context, q db.Querier, email string) (a account, ok bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT u.id, u.email, u.password_hash, COALESCE(m.team_id, '')
		FROM users u LEFT JOIN memberships m ON m.user_id = u.id
		WHERE u.email = $1 ORDER BY m.created_ms, m.team_id LIMIT 1`, email).
		Scan(&a.user.ID, &a.user.Email, &a.passwordHash, &a.team)
	ok, err = one("the account", err)
	return a, ok, err
}

func insertUser(ctx context.Context, tx *sql.Tx, u User, passwordHash string, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO users (id, email, password_hash, created_ms, updated_ms) VALUES ($1, "+
		"$2, $3, $4, $4)",
		u.ID, u.Email, passwordHash, nowMillis)
	if err != nil {
		return fmt.Errorf("store the user: %w", err)
	}
	return nil
}

// setPassword stores another password. Links that were mailed to choose one are worth nothing from then on.
func setPassword(ctx context.Context, tx *sql.Tx, user, passwordHash string, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET password_hash = $2, updated_ms = $3 WHERE id = $1", user, passwordHash,
		nowMillis)
	if err != nil {
		return fmt.Errorf("store the password: %w", err)
	}
	return deleteResets(ctx, tx, user)
}

// replaceHash replaces the hash that a password was just checked against, with itself where it stays, and reports
// whether it was still there. It holds the user's row, so that no change of the password comes between.
func replaceHash(ctx context.Context, tx *sql.Tx, user, before, after string) (bool, error) {
	return changedOne(tx.ExecContext(ctx, "UPDATE users SET password_hash = $3 WHERE id = $1 AND password_hash = $2", user,
		before, after))
}
