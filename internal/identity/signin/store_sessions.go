package signin

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/identity/members"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

const sessionColumns = "s.id, s.ip, s.user_agent, s.created_ms, s.auth_ms, s.used_ms, s.expires_ms, s.methods"

func (s *Session) targets() []any {
	return []any{&s.ID, &s.IP, &s.UserAgent, &s.CreatedMillis, &s.AuthMillis, &s.UsedMillis, &s.expiresMillis, &s.methods}
}

// liveCondition is the condition on a session s that has not ended, with the arguments of liveArgs.
const liveCondition = "s.ended_ms IS NULL AND s.expires_ms > ? AND s.used_ms > ?"

func liveArgs(now time.Time, more ...any) []any {
	return append([]any{clock.Millis(now), clock.Millis(now.Add(-SessionIdle))}, more...)
}

func whereLive(now time.Time) *db.Where { return new(db.Where).And(liveCondition, liveArgs(now)...) }

func readSession(ctx context.Context, q db.Querier, user, sessionID string,
	now time.Time) (v Session, ok bool, err error) {
	w := whereLive(now).And("s.id = ?", sessionID).And("s.user_id = ?", user)
	err = q.QueryRowContext(ctx, "SELECT "+sessionColumns+" FROM sessions s"+w.Text(), w.Args()...).Scan(v.targets()...)
	ok, err = db.Found("the session", err)
	return v, ok, err
}

// whileSignedIn is the condition that a session of the user in the team has not ended.
func whileSignedIn(sessionID, user string, team id.Team, now time.Time) members.Condition {
	return members.Condition{Text: "EXISTS (SELECT 1 FROM sessions s WHERE " + liveCondition +
		" AND s.id = ? AND s.user_id = ? AND s.team_id = ?)", Args: liveArgs(now, sessionID, user, team)}
}

func listSessions(ctx context.Context, q db.Querier, user string, now time.Time, r page.Request) ([]Session, error) {
	w := whereLive(now).And("s.user_id = ?", user)
	tail := w.Page("s.id", r)
	rows, err := q.QueryContext(ctx, "SELECT "+sessionColumns+" FROM sessions s"+w.Text()+" "+tail, w.Args()...)
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	var list []Session
	err = db.Each(rows, func(r *sql.Rows) error {
		var v Session
		if err := r.Scan(v.targets()...); err != nil {
			return err
		}
		list = append(list, v)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	return list, nil
}

// readFamily finds a session that has not ended by the part of its refresh tokens that stays. Of its user it reads the
// id alone.
func readFamily(ctx context.Context, q db.Querier, familyMAC []byte, now time.Time) (f family, ok bool, err error) {
	w := whereLive(now).And("s.family_mac = ?", familyMAC)
	err = q.QueryRowContext(ctx, "SELECT s.user_id, s.team_id, s.token_mac, s.previous_mac, "+sessionColumns+
		" FROM sessions s"+w.Text(), w.Args()...).
		Scan(append([]any{&f.key.user.ID, &f.key.team, &f.tokenMAC, &f.previousMAC},
			f.session.targets()...)...)
	ok, err = db.Found("the session", err)
	f.key.id = f.session.ID
	return f, ok, err
}

func insertSession(ctx context.Context, tx *sql.Tx, f family, familyMAC []byte, origin string) error {
	v := f.session
	_, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, user_id, team_id, family_mac, token_mac, previous_mac,
			signed_in_from, ip, user_agent, created_ms, auth_ms, used_ms, expires_ms, ended_ms, methods)
		VALUES ($1, $2, $3, $4, $5, NULL, $6, $7, $8, $9, $10, $11, $12, NULL, $13)`,
		f.key.id, f.key.user.ID, f.key.team, familyMAC, f.tokenMAC, origin, v.IP, v.UserAgent, v.CreatedMillis, v.AuthMillis,
		v.UsedMillis, v.expiresMillis, v.methods)
	if err != nil {
		return fmt.Errorf("store the session: %w", err)
	}
	return nil
}

// rotateSession replaces the token and reports whether it was still the one that works.
func rotateSession(ctx context.Context, tx *sql.Tx, v Session, before, after []byte) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, `UPDATE sessions SET token_mac = $3, previous_mac = $2, ip = $4, user_agent = $5,
			used_ms = $6
		WHERE id = $1 AND token_mac = $2 AND ended_ms IS NULL`, v.ID, before, after, v.IP, v.UserAgent, v.UsedMillis))
}

// renewSession notes that the user of a session has given their password again, and replaces its refresh token in both
// parts. It reports whether the session had not been ended.
func renewSession(ctx context.Context, tx *sql.Tx, sessionID string, familyMAC, tokenMAC []byte,
	now time.Time) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, `UPDATE sessions SET auth_ms = $2, family_mac = $3, token_mac = $4,
			previous_mac = NULL
		WHERE id = $1 AND ended_ms IS NULL`, sessionID, clock.Millis(now), familyMAC, tokenMAC))
}

// endSession reports whether the session had not been ended before.
func endSession(ctx context.Context, tx *sql.Tx, sessionID string, now time.Time) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, "UPDATE sessions SET ended_ms = $2 WHERE id = $1 AND ended_ms IS NULL",
		sessionID, clock.Millis(now)))
}

// endSessions ends the sessions of a user, but for one where that is not empty, and returns how many it ended.
func endSessions(ctx context.Context, tx *sql.Tx, user, but string, now time.Time) (int64, error) {
	w := whereLive(now).And("s.user_id = ?", user).And("s.id <> ?", but)
	set := "UPDATE sessions AS s SET ended_ms = " + w.Arg(clock.Millis(now))
	n, err := db.Affected(tx.ExecContext(ctx, set+w.Text(), w.Args()...))
	if err != nil {
		return 0, fmt.Errorf("end sessions: %w", err)
	}
	return n, nil
}

// sweepSessions removes the user's sessions beyond maxSessions, and a few of anybody's whose time is over. Each sign-in
// adds one, so the table stays small without a worker.
func sweepSessions(ctx context.Context, d *db.DB, tx *sql.Tx, user string, now time.Time) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE user_id = $1 AND id NOT IN
		(SELECT id FROM sessions WHERE user_id = $1 ORDER BY used_ms DESC, id DESC LIMIT $2)`, user, maxSessions)
	if err != nil {
		return fmt.Errorf("remove surplus sessions: %w", err)
	}
	old := "SELECT id FROM sessions WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT 10" + d.SkipLocked()
	_, err = tx.ExecContext(ctx,
		"DELETE FROM sessions WHERE id IN ("+old+")", clock.Millis(now)) //nolint:gosec // the text is ours
	if err != nil {
		return fmt.Errorf("remove old sessions: %w", err)
	}
	return nil
}

// Sessions ends the sign-ins of users who lose their place in a team.
type Sessions struct{}

// EndAll ends all sessions of a user in tx, and returns how many.
func (Sessions) EndAll(ctx context.Context, tx *sql.Tx, user string, now time.Time) (int64, error) {
	return endSessions(ctx, tx, user, "", now)
}
