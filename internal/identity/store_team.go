package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// account is what signing in needs of a user.
type account struct {
	user         User
	passwordHash string
	team         id.Team
}

// member is a user in a team.
type member struct {
	user User
	team Team
	role access.Role
	// passwordMillis is when the password was last set.
	passwordMillis int64
}

type storedSigningKey struct {
	id     string
	sealed []byte
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

// readTeam returns the installation's team.
func readTeam(ctx context.Context, q db.Querier) (t Team, ok bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT id, name FROM teams ORDER BY id LIMIT 1").Scan(&t.ID, &t.Name)
	ok, err = one("the team", err)
	return t, ok, err
}

func insertTeam(ctx context.Context, tx *sql.Tx, t Team, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO teams (id, name, created_ms) VALUES ($1, $2, $3)", t.ID, t.Name, nowMillis)
	if err != nil {
		return fmt.Errorf("store the team: %w", err)
	}
	return nil
}

func readEnvironment(ctx context.Context, q db.Querier, team id.Team, env id.Environment) (e Environment, ok bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT id, team_id, name FROM environments WHERE id = $1 AND team_id = $2", env, team).
		Scan(&e.ID, &e.Team, &e.Name)
	ok, err = one("the environment", err)
	return e, ok, err
}

func readEnvironments(ctx context.Context, q db.Querier, team id.Team) ([]Environment, error) {
	rows, err := q.QueryContext(ctx, "SELECT id, team_id, name FROM environments WHERE team_id = $1 ORDER BY id", team)
	if err != nil {
		return nil, fmt.Errorf("read the environments: %w", err)
	}
	var list []Environment
	err = db.Each(rows, func(r *sql.Rows) error {
		var e Environment
		if err := r.Scan(&e.ID, &e.Team, &e.Name); err != nil {
			return err
		}
		list = append(list, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the environments: %w", err)
	}
	return list, nil
}

func insertEnvironment(ctx context.Context, tx *sql.Tx, e Environment, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, $2, $3, $4)",
		e.ID, e.Team, e.Name, nowMillis)
	if err != nil {
		return fmt.Errorf("store the environment: %w", err)
	}
	return nil
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

func readMember(ctx context.Context, q db.Querier, team id.Team, user string) (m member, ok bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT u.id, u.email, u.updated_ms, t.id, t.name, m.role
		FROM memberships m JOIN users u ON u.id = m.user_id JOIN teams t ON t.id = m.team_id
		WHERE m.team_id = $1 AND m.user_id = $2`, team, user).
		Scan(&m.user.ID, &m.user.Email, &m.passwordMillis, &m.team.ID, &m.team.Name, &m.role)
	ok, err = one("the member", err)
	return m, ok, err
}

func insertUser(ctx context.Context, tx *sql.Tx, u User, passwordHash string, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO users (id, email, password_hash, created_ms, updated_ms) VALUES ($1, $2, $3, $4, $4)",
		u.ID, u.Email, passwordHash, nowMillis)
	if err != nil {
		return fmt.Errorf("store the user: %w", err)
	}
	return nil
}

func insertMembership(ctx context.Context, tx *sql.Tx, team id.Team, user string, role access.Role, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO memberships (team_id, user_id, role, created_ms) VALUES ($1, $2, $3, $4)",
		team, user, role, nowMillis)
	if err != nil {
		return fmt.Errorf("store the membership: %w", err)
	}
	return nil
}

// setPassword moves updated_ms, by which older sign-ins are refused.
func setPassword(ctx context.Context, tx *sql.Tx, user, passwordHash string, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET password_hash = $2, updated_ms = $3 WHERE id = $1", user, passwordHash, nowMillis)
	if err != nil {
		return fmt.Errorf("store the password: %w", err)
	}
	return nil
}

func replaceHash(ctx context.Context, tx *sql.Tx, user, before, after string) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET password_hash = $3 WHERE id = $1 AND password_hash = $2", user, before, after)
	if err != nil {
		return fmt.Errorf("store the password's hash: %w", err)
	}
	return nil
}

// readSigningKeys returns the signing keys, oldest first.
func readSigningKeys(ctx context.Context, q db.Querier) ([]storedSigningKey, error) {
	rows, err := q.QueryContext(ctx, "SELECT id, private_key FROM signing_keys ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("read the signing keys: %w", err)
	}
	var keys []storedSigningKey
	err = db.Each(rows, func(r *sql.Rows) error {
		var k storedSigningKey
		if err := r.Scan(&k.id, &k.sealed); err != nil {
			return err
		}
		keys = append(keys, k)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the signing keys: %w", err)
	}
	return keys, nil
}

func insertSigningKey(ctx context.Context, tx *sql.Tx, k storedSigningKey, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO signing_keys (id, private_key, created_ms) VALUES ($1, $2, $3)", k.id, k.sealed, nowMillis)
	if err != nil {
		return fmt.Errorf("store the signing key: %w", err)
	}
	return nil
}
