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

// sessionColumns binds what users see of a session.
func sessionColumns(v *Session) db.Columns {
	return db.Columns{
		db.Col("id", &v.ID),
		db.Col("ip", &v.IP),
		db.Col("user_agent", &v.UserAgent),
		db.Col("created_ms", &v.CreatedMillis),
		db.Col("auth_ms", &v.AuthMillis),
		db.Col("used_ms", &v.UsedMillis),
		db.Col("expires_ms", &v.expiresMillis),
		db.Col("methods", &v.methods),
	}
}

// familyColumns binds a session with its user, their team and its tokens.
func familyColumns(f *family) db.Columns {
	return append(sessionColumns(&f.session),
		db.Col("user_id", &f.key.user.ID),
		db.Col("team_id", &f.key.team),
		db.Col("family_mac", &f.familyMAC),
		db.Col("token_mac", &f.tokenMAC),
		db.Col("previous_mac", &f.previousMAC),
	)
}

const fromSessions = "FROM sessions"

// liveCondition is the condition on a session that has not ended, with the arguments of liveArgs. It names the table,
// because whileSignedIn is part of a statement about others.
const liveCondition = "sessions.ended_ms IS NULL AND sessions.expires_ms > ? AND sessions.used_ms > ?"

func liveArgs(now time.Time, more ...any) []any {
	return append([]any{clock.Millis(now), clock.Millis(now.Add(-SessionIdle))}, more...)
}

func whereLive(now time.Time) *db.Where { return new(db.Where).And(liveCondition, liveArgs(now)...) }

func readSession(ctx context.Context, q db.Querier, user, sessionID string,
	now time.Time) (v Session, ok bool, err error) {
	v, ok, err = db.One(ctx, q, sessionColumns, fromSessions,
		whereLive(now).And("id = ?", sessionID).And("user_id = ?", user), "")
	if err != nil {
		return Session{}, false, fmt.Errorf("read the session: %w", err)
	}
	return v, ok, nil
}

// whileSignedIn is the condition that a session of the user in the team has not ended.
func whileSignedIn(sessionID, user string, team id.Team, now time.Time) members.Condition {
	return members.Condition{Text: "EXISTS (SELECT 1 FROM sessions WHERE " + liveCondition +
		" AND sessions.id = ? AND sessions.user_id = ? AND sessions.team_id = ?)",
		Args: liveArgs(now, sessionID, user, team)}
}

func listSessions(ctx context.Context, q db.Querier, user string, now time.Time, r page.Request) ([]Session, error) {
	w := whereLive(now).And("user_id = ?", user)
	list, err := db.All(ctx, q, sessionColumns, fromSessions, w, w.Page("id", r))
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	return list, nil
}

// readFamily finds a session that has not ended by the part of its refresh tokens that stays. Of its user it reads the
// id alone.
func readFamily(ctx context.Context, q db.Querier, familyMAC []byte, now time.Time) (f family, ok bool, err error) {
	f, ok, err = db.One(ctx, q, familyColumns, fromSessions, whereLive(now).And("family_mac = ?", familyMAC), "")
	if err != nil {
		return family{}, false, fmt.Errorf("read the session: %w", err)
	}
	f.key.id = f.session.ID
	return f, ok, nil
}

func insertSession(ctx context.Context, tx *sql.Tx, f family, origin string) error {
	_, err := db.Insert(ctx, tx, "INSERT INTO sessions", append(familyColumns(&f), db.Col("signed_in_from", &origin)), "")
	if err != nil {
		return fmt.Errorf("store the session: %w", err)
	}
	return nil
}

// rotateSession stores what a refresh has made of a session, and reports whether the token before was still the one
// that works.
func rotateSession(ctx context.Context, tx *sql.Tx, f family) (bool, error) {
	return db.Update(ctx, tx, "UPDATE sessions",
		familyColumns(&f).Only("token_mac", "previous_mac", "ip", "user_agent", "used_ms"),
		new(db.Where).And("id = ? AND token_mac = ? AND ended_ms IS NULL", f.session.ID, f.previousMAC))
}

// renewSession notes that the user of a session has given their password again, and replaces its refresh token in both
// parts. It reports whether the session had not been ended.
func renewSession(ctx context.Context, tx *sql.Tx, sessionID string, familyMAC, tokenMAC []byte,
	now time.Time) (bool, error) {
	f := family{session: Session{AuthMillis: clock.Millis(now)}, familyMAC: familyMAC, tokenMAC: tokenMAC}
	return db.Update(ctx, tx, "UPDATE sessions",
		familyColumns(&f).Only("auth_ms", "family_mac", "token_mac", "previous_mac"),
		new(db.Where).And("id = ? AND ended_ms IS NULL", sessionID))
}

// endSession reports whether the session had not been ended before.
func endSession(ctx context.Context, tx *sql.Tx, sessionID string, now time.Time) (bool, error) {
	return db.Update(ctx, tx, "UPDATE sessions", db.Columns{db.Col("ended_ms", db.Millis(&now))},
		new(db.Where).And("id = ? AND ended_ms IS NULL", sessionID))
}

// endSessions ends the sessions of a user, but for one where that is not empty, and returns how many it ended.
func endSessions(ctx context.Context, tx *sql.Tx, user, but string, now time.Time) (int64, error) {
	// The kit reports whether a statement changed rows, and not how many.
	w := whereLive(now).And("user_id = ?", user).And("id <> ?", but)
	set := "UPDATE sessions SET ended_ms = " + w.Arg(clock.Millis(now))
	n, err := db.Affected(tx.ExecContext(ctx, set+w.Text(), w.Args()...))
	if err != nil {
		return 0, fmt.Errorf("end sessions: %w", err)
	}
	return n, nil
}

// sweepSessions removes the user's sessions beyond maxSessions, and a few expired ones of any user. Each sign-in adds
// one, so the table stays small without a worker.
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
