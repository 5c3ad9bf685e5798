package invitations

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// invitationStatus is the state of an invitation at $1.
const invitationStatus = `CASE WHEN accepted_ms IS NOT NULL THEN 'accepted' WHEN revoked_ms IS NOT NULL THEN 'revoked'
	WHEN expires_ms <= $1 THEN 'expired' ELSE 'pending' END`

// invitationColumns binds the columns of an invitation, but for its team and its token.
func invitationColumns(i *Invitation) db.Columns {
	return db.Columns{
		db.Col("id", &i.ID),
		db.Col("email", &i.Email),
		db.Col("role", &i.Role),
		db.Col("environment_id", db.Null(&i.Environment)),
		db.Col("invited_by", &i.InvitedBy),
		db.Col("created_ms", &i.CreatedMillis),
		db.Col("sent_ms", &i.SentMillis),
		db.Col("expires_ms", &i.ExpiresMillis),
		db.Col("accepted_ms", &i.AcceptedMillis),
		db.Col("accepted_by", db.Null(&i.AcceptedBy)),
		db.Col("revoked_ms", &i.RevokedMillis),
	}
}

// shownColumns binds what is read of an invitation at $1; see invitationsOf.
func shownColumns(i *Invitation) db.Columns {
	return append(invitationColumns(i), db.Col(invitationStatus, &i.Status))
}

const table = "FROM invitations"

// invitationsOf selects the invitations of a team. Its first argument is the time of invitationStatus.
func invitationsOf(team id.Team, now time.Time) *db.Where {
	w := new(db.Where)
	w.Arg(clock.Millis(now))
	return w.And("team_id = ?", team)
}

// isPending is a condition on an invitation that can be accepted at $1.
const isPending = "token_mac IS NOT NULL AND expires_ms > $1"

func listInvitations(ctx context.Context, q db.Querier, team id.Team, f Filter, now time.Time,
	r page.Request) ([]Invitation, error) {
	w := invitationsOf(team, now)
	db.AnyOf(w, invitationStatus, f.Statuses)
	db.AnyOf(w, "email", f.Emails)
	list, err := db.All(ctx, q, shownColumns, table, w, w.Page("id", r))
	if err != nil {
		return nil, fmt.Errorf("list invitations: %w", err)
	}
	return list, nil
}

func readInvitation(ctx context.Context, q db.Querier, team id.Team, invitationID string,
	now time.Time) (Invitation, bool, error) {
	i, ok, err := db.One(ctx, q, shownColumns, table, invitationsOf(team, now).And("id = ?", invitationID), "")
	if err != nil {
		return Invitation{}, false, fmt.Errorf("read the invitation: %w", err)
	}
	return i, ok, nil
}

// countPending counts the invitations that can be accepted, those of an address and all.
func countPending(ctx context.Context, q db.Querier, team id.Team, email string,
	now time.Time) (sameAddress, all int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(CASE WHEN email = $3 THEN 1 END), COUNT(*) FROM invitations WHERE "+
		"team_id = $2 AND "+isPending,
		clock.Millis(now), team, email).Scan(&sameAddress, &all)
	if err != nil {
		return 0, 0, fmt.Errorf("count invitations: %w", err)
	}
	return sameAddress, all, nil
}

// putInvitation stores a new invitation, or another link of one, and removes a few that ended long ago, so that the
// table stays small without a worker.
func putInvitation(ctx context.Context, d *db.DB, tx *sql.Tx, team id.Team, i Invitation, tokenMAC []byte,
	now time.Time) error {
	_, err := db.Insert(ctx, tx, "INSERT INTO invitations", append(invitationColumns(&i), db.Col("team_id", &team),
		db.Col("token_mac", &tokenMAC)), `ON CONFLICT (id) DO UPDATE SET token_mac = excluded.token_mac,
			invited_by = excluded.invited_by, sent_ms = excluded.sent_ms, expires_ms = excluded.expires_ms`)
	if err != nil {
		return fmt.Errorf("store the invitation: %w", err)
	}
	old := "SELECT id FROM invitations WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT 10" + d.SkipLocked()
	//nolint:gosec // the text is ours
	if _, err := tx.ExecContext(ctx, "DELETE FROM invitations WHERE id IN ("+old+")",
		clock.Millis(now.Add(-keepInvitations))); err != nil {
		return fmt.Errorf("remove old invitations: %w", err)
	}
	return nil
}

// invited is the target of a pending invitation's link.
type invited struct {
	id, invitedBy string
	team          id.Team
}

// readInvited returns the invitation whose newest link has the token, as long as that works.
func readInvited(ctx context.Context, q db.Querier, tokenMAC []byte,
	now time.Time) (i invited, email string, ok bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT id, team_id, invited_by, email FROM invitations WHERE token_mac = $2 AND "+
		isPending, clock.Millis(now), tokenMAC).Scan(&i.id, &i.team, &i.invitedBy, &email)
	ok, err = db.Found("the invitation", err)
	return i, email, ok, err
}

// acceptInvitation notes who took the invitation. Its link is worth nothing from then on.
func acceptInvitation(ctx context.Context, tx *sql.Tx, invitationID, user string, now time.Time) error {
	_, err := tx.ExecContext(ctx, "UPDATE invitations SET token_mac = NULL, accepted_ms = $2, accepted_by = $3 WHERE "+
		"id = $1",
		invitationID, clock.Millis(now), user)
	if err != nil {
		return fmt.Errorf("accept the invitation: %w", err)
	}
	return nil
}

func revokeInvitation(ctx context.Context, tx *sql.Tx, team id.Team, invitationID string, now time.Time) error {
	_, err := tx.ExecContext(ctx,
		"UPDATE invitations SET token_mac = NULL, revoked_ms = $3 WHERE team_id = $1 AND id = $2",
		team, invitationID, clock.Millis(now))
	if err != nil {
		return fmt.Errorf("revoke the invitation: %w", err)
	}
	return nil
}

func dropInvitationToken(ctx context.Context, tx *sql.Tx, team id.Team, invitationID string) error {
	if _, err := tx.ExecContext(ctx, "UPDATE invitations SET token_mac = NULL WHERE team_id = $1 AND id = $2", team,
		invitationID); err != nil {
		return fmt.Errorf("drop the link of the invitation: %w", err)
	}
	return nil
}
