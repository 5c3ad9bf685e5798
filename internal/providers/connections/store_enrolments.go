package connections

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// enrolmentStore stores the enrolment of each connection, with a secret that awaits confirmation sealed.
type enrolmentStore struct{ box *secretbox.Box }

// insertEnrolment stores an open enrolment of a connection in place of any earlier one.
func insertEnrolment(ctx context.Context, tx *sql.Tx, connectionUUID string, team id.Team, e Enrolment) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO webhook_enrolments (connection_uuid, team_id, status, opened_ms, expires_ms)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (connection_uuid) DO UPDATE SET team_id = excluded.team_id, status = excluded.status,
			opened_ms = excluded.opened_ms, expires_ms = excluded.expires_ms, captured_ms = NULL, secret_id = NULL,
			value = NULL`,
		connectionUUID, string(team), string(e.Status), clock.Millis(e.OpenedAt), clock.Millis(e.ExpiresAt))
	if err != nil {
		return fmt.Errorf("open an enrolment: %w", err)
	}
	return nil
}

// keepCaptured keeps a captured secret, sealed, until it is confirmed.
func (s enrolmentStore) keepCaptured(ctx context.Context, tx *sql.Tx, connectionUUID string, value secretbox.Secret,
	now time.Time) error {
	sealed, err := s.box.Seal([]byte(value.Reveal()), enrolmentPlace(connectionUUID))
	if err != nil {
		return fmt.Errorf("seal a captured secret: %w", err)
	}
	return endEnrolment(ctx, tx, connectionUUID, EnrolmentUnconfirmed, now, "", sealed)
}

func enrolmentPlace(connectionUUID string) secretbox.AD {
	return secretbox.AD{Table: "webhook_enrolments", Column: "value", RowID: connectionUUID}
}

// endEnrolment moves an enrolment on from open or awaiting_confirmation.
func endEnrolment(ctx context.Context, tx *sql.Tx, connectionUUID string, to EnrolmentStatus, now time.Time,
	secretID string, sealed []byte) error {
	_, err := tx.ExecContext(ctx, `UPDATE webhook_enrolments SET status = $2, captured_ms = COALESCE(captured_ms, $3),
			secret_id = $4, value = $5
		WHERE connection_uuid = $1`,
		connectionUUID, string(to), clock.Millis(now), sql.NullString{String: secretID, Valid: secretID != ""}, sealed)
	if err != nil {
		return fmt.Errorf("end an enrolment: %w", err)
	}
	return nil
}

// enrolmentRow is a stored enrolment.
type enrolmentRow struct {
	Enrolment // without Value
	team      id.Team
	sealed    []byte
}

func enrolmentColumns(r *enrolmentRow) db.Columns {
	return db.Columns{
		db.Col("team_id", &r.team),
		db.Col("status", &r.Status),
		db.Col("opened_ms", db.Millis(&r.OpenedAt)),
		db.Col("expires_ms", db.Millis(&r.ExpiresAt)),
		db.Col("captured_ms", db.NullMillis(&r.CapturedAt)),
		db.Col("secret_id", db.Null(&r.SecretID)),
		db.Col("value", &r.sealed),
	}
}

// read returns a connection's enrolment and the team of the user who opened it, or not_found.
func (s enrolmentStore) read(ctx context.Context, q querier, connectionUUID string, now time.Time) (Enrolment, id.Team,
	error) {
	r, found, err := db.One(ctx, q, enrolmentColumns, "FROM webhook_enrolments",
		new(db.Where).And("connection_uuid = ?", connectionUUID), "")
	switch {
	case err != nil:
		return Enrolment{}, "", fmt.Errorf("read an enrolment: %w", err)
	case !found:
		return Enrolment{}, "", apperr.NotFound("webhook enrolment")
	}
	e := r.Enrolment
	if e.Status == EnrolmentOpen && !now.Before(e.ExpiresAt) {
		e.Status = EnrolmentExpired
	}
	if r.sealed != nil {
		plain, err := s.box.Open(r.sealed, enrolmentPlace(connectionUUID))
		if err != nil {
			return e, "", fmt.Errorf("open the captured secret of %s: %w", connectionUUID, err)
		}
		e.Value = secretbox.Secret(plain)
	}
	return e, r.team, nil
}

// enrolledUntil returns when the connection's open enrolment ends; zero without one.
func enrolledUntil(ctx context.Context, q querier, connectionUUID string) (time.Time, error) {
	var expires int64
	open, err := db.Found("an enrolment", q.QueryRowContext(ctx, `SELECT expires_ms FROM webhook_enrolments
		WHERE connection_uuid = $1 AND status = $2`, connectionUUID, string(EnrolmentOpen)).Scan(&expires))
	if err != nil || !open {
		return time.Time{}, err
	}
	return clock.FromMillis(expires), nil
}
