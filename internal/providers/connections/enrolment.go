package connections

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/verification"
)

// EnrolmentTime is how long an enrolment stays open.
const EnrolmentTime = 10 * time.Minute

// EnrolmentStatus says where an enrolment stands. The set is closed: EnrolmentStatuses lists it.
type EnrolmentStatus string

// The statuses of an enrolment.
const (
	// EnrolmentOpen waits for the provider's handshake.
	EnrolmentOpen EnrolmentStatus = "open"
	// EnrolmentExpired saw no handshake in time.
	EnrolmentExpired EnrolmentStatus = "expired"
	// EnrolmentUnconfirmed holds a secret that does not count before the operator has confirmed it.
	EnrolmentUnconfirmed EnrolmentStatus = "awaiting_confirmation"
	// EnrolmentCaptured has led to a webhook secret.
	EnrolmentCaptured EnrolmentStatus = "captured"
)

// EnrolmentStatuses returns every status.
func EnrolmentStatuses() []EnrolmentStatus {
	return []EnrolmentStatus{EnrolmentOpen, EnrolmentExpired, EnrolmentUnconfirmed, EnrolmentCaptured}
}

// Enrolment is an operator's permission for the provider to hand over a webhook secret in a handshake. Handshakes are
// not signed, so whoever knows the webhook URL could send one: none is answered without an open enrolment.
type Enrolment struct {
	Status    EnrolmentStatus
	OpenedAt  time.Time
	ExpiresAt time.Time
	// CapturedAt is when the handshake came; nil before it.
	CapturedAt *time.Time
	// SecretID is the webhook secret that it led to; empty before.
	SecretID string
	// Value is the secret while it awaits confirmation: the operator has to show it to the provider. It is empty
	// otherwise.
	Value secretbox.Secret
}

// ErrNotEnrolled says that a handshake hands over a secret while no enrolment is open.
var ErrNotEnrolled = errors.New("no enrolment is open")

// ErrCaptureByAlias says that a handshake hands over a secret by the connection's alias. What proves such a handshake
// is that its sender knows the path, and an alias can be guessed.
var ErrCaptureByAlias = errors.New("the handshake came by the alias")

// ErrUnfitSecret says that a handshake hands over what cannot be the secret of the provider.
var ErrUnfitSecret = errors.New("the secret does not have the provider's form")

func enrolmentConflict(message string) error {
	return apperr.New(apperr.CodeEnrolmentConflict, message)
}

// OpenEnrolment lets the first handshake within EnrolmentTime hand over a secret to a connection of the actor's
// environment. An enrolment that was open or waited for confirmation ends. Secrets that are stored stay.
func (s *Service) OpenEnrolment(ctx context.Context, actor access.Principal, providerConfigKey,
	connectionID string) (Enrolment, error) {
	now := s.now()
	e := Enrolment{Status: EnrolmentOpen, OpenedAt: now, ExpiresAt: now.Add(EnrolmentTime)}
	_, err := s.locked(ctx, actor, providerConfigKey, connectionID, now, func(ed edit, c Connection) (Connection, error) {
		if p, ok := s.providers.Get(c.Provider); !ok || p.Webhooks == nil || !p.Webhooks.Captures() {
			return Connection{}, enrolmentConflict("The provider hands over no secret in a handshake; store its secret under " +
				"webhook-secrets")
		}
		stored, err := findSecrets(ctx, ed.tx, c.UUID)
		if err != nil {
			return Connection{}, err
		}
		if len(stored) >= MaxSecrets {
			return Connection{}, enrolmentConflict(fmt.Sprintf("The connection has %d webhook secrets, which is the most; "+
				"delete one first", len(stored)))
		}
		_, err = ed.tx.ExecContext(ctx, `INSERT INTO webhook_enrolments (connection_uuid, team_id, status, opened_ms,
				expires_ms)
			VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (connection_uuid) DO UPDATE SET team_id = excluded.team_id, status = excluded.status,
				opened_ms = excluded.opened_ms, expires_ms = excluded.expires_ms, captured_ms = NULL, secret_id = NULL,
				value = NULL`,
			c.UUID, string(actor.Team), string(EnrolmentOpen), clock.Millis(e.OpenedAt), clock.Millis(e.ExpiresAt))
		if err != nil {
			return Connection{}, fmt.Errorf("open an enrolment: %w", err)
		}
		return ed.finish(ctx, &c, actionOpenEnrolment, nil)
	})
	if err != nil {
		return Enrolment{}, err
	}
	return e, nil
}

// Enrolment returns the last enrolment of a connection that the view shows, or not_found.
func (s *Service) Enrolment(ctx context.Context, v access.View, providerConfigKey,
	connectionID string) (Enrolment, error) {
	c, err := s.Get(ctx, v, providerConfigKey, connectionID)
	if err != nil {
		return Enrolment{}, err
	}
	e, _, err := s.enrolment(ctx, s.db.Read(), c.UUID)
	return e, err
}

// ConfirmEnrolment makes the secret that a handshake handed over one of the webhook secrets of a connection of the
// actor's environment.
func (s *Service) ConfirmEnrolment(ctx context.Context, actor access.Principal, providerConfigKey,
	connectionID string) (WebhookSecret, error) {
	var out WebhookSecret
	now := s.now()
	_, err := s.locked(ctx, actor, providerConfigKey, connectionID, now, func(ed edit, c Connection) (Connection, error) {
		e, _, err := s.enrolment(ctx, ed.tx, c.UUID)
		if err != nil {
			return Connection{}, err
		}
		if e.Status != EnrolmentUnconfirmed {
			return Connection{}, enrolmentConflict("No secret awaits confirmation")
		}
		if out, err = s.enrol(ctx, ed.tx, c, e.Value, now); err != nil {
			if errors.Is(err, ErrNotEnrolled) {
				err = enrolmentConflict("The connection has as many webhook secrets as it may; delete one first")
			}
			return Connection{}, err
		}
		if err := endEnrolment(ctx, ed.tx, c.UUID, EnrolmentCaptured, now, out.ID, nil); err != nil {
			return Connection{}, err
		}
		return ed.write(ctx, &c, actionAddSecret, secretChange(out))
	})
	return out, err
}

// EndEnrolment ends the enrolment of a connection of the actor's environment and forgets a secret that awaits
// confirmation.
func (s *Service) EndEnrolment(ctx context.Context, actor access.Principal, providerConfigKey,
	connectionID string) error {
	now := s.now()
	_, err := s.locked(ctx, actor, providerConfigKey, connectionID, now, func(ed edit, c Connection) (Connection, error) {
		ended, err := db.Changed(ed.tx.ExecContext(ctx, `DELETE FROM webhook_enrolments WHERE connection_uuid = $1`, c.UUID))
		switch {
		case err != nil:
			return Connection{}, fmt.Errorf("end an enrolment: %w", err)
		case !ended:
			return Connection{}, apperr.NotFound("webhook enrolment")
		}
		return ed.finish(ctx, &c, actionEndEnrolment, nil)
	})
	return err
}

// Capture stores the secret that a handshake hands over, under the connection's open enrolment, which it ends. It
// returns when the secret is durable; the handshake may be answered then, and only then. Errors: ErrNotEnrolled,
// ErrCaptureByAlias, ErrUnfitSecret.
func (s *Service) Capture(ctx context.Context, in *Inbound, captured *verification.Captured) error {
	now := s.now()
	// A snapshot tells, so that handshakes from strangers cost no query.
	if !now.Before(in.EnrolledUntil) {
		return ErrNotEnrolled
	}
	if in.ByAlias {
		return ErrCaptureByAlias
	}
	var v apperr.Violations
	if !checkSecret(&v, "secret", captured.Value) {
		return ErrUnfitSecret
	}
	if in.Provider.Webhooks != nil {
		found, err := bindProblems(in.Provider.Webhooks,
			in.Connection.Webhook.settings([]verification.Secret{{ID: "captured", Value: captured.Value}}))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return ErrUnfitSecret
		}
	}
	c := &in.Connection
	return s.change(ctx, func(tx *sql.Tx) error {
		current, err := lock(ctx, tx, c.Environment, c.ProviderConfigKey, c.ConnectionID)
		if err != nil {
			return err
		}
		e, team, err := s.enrolment(ctx, tx, current.UUID)
		if apperr.Is(err, apperr.CodeNotFound) || err == nil && (e.Status != EnrolmentOpen || current.UUID != c.UUID) {
			return ErrNotEnrolled
		}
		if err != nil {
			return err
		}
		actor := access.System("webhook")
		actor.Team, actor.Environment = team, current.Environment
		ed, err := s.edit(ctx, tx, actor, &current, now)
		if err != nil {
			return err
		}
		if captured.Confirm {
			sealed, err := s.box.Seal([]byte(captured.Value.Reveal()), enrolmentPlace(current.UUID))
			if err != nil {
				return fmt.Errorf("seal a captured secret: %w", err)
			}
			if err := endEnrolment(ctx, tx, current.UUID, EnrolmentUnconfirmed, now, "", sealed); err != nil {
				return err
			}
			return ed.record(ctx, &current, actionCapture, ed.before, audit.State{"confirmed": false})
		}
		secret, err := s.enrol(ctx, tx, current, captured.Value, now)
		if err != nil {
			return err
		}
		if err := endEnrolment(ctx, tx, current.UUID, EnrolmentCaptured, now, secret.ID, nil); err != nil {
			return err
		}
		_, err = ed.write(ctx, &current, actionCapture, secretChange(secret))
		return err
	})
}

// enrol adds a captured secret to those of the connection. One that is stored already stays as it is.
func (s *Service) enrol(ctx context.Context, tx *sql.Tx, c Connection, value secretbox.Secret,
	now time.Time) (WebhookSecret, error) {
	known, err := s.secrets(ctx, tx, c.UUID)
	if err != nil {
		return WebhookSecret{}, err
	}
	for _, v := range known {
		if subtle.ConstantTimeCompare([]byte(v.Value.Reveal()), []byte(value.Reveal())) == 1 {
			return findSecret(ctx, tx, c.UUID, v.ID)
		}
	}
	if len(known) >= MaxSecrets {
		return WebhookSecret{}, ErrNotEnrolled
	}
	out := WebhookSecret{ID: id.New(id.PrefixSecret), Label: "captured from a handshake", Hint: hint(value),
		CreatedAt: now}
	return out, s.insertSecret(ctx, tx, c.UUID, out, value)
}

func findSecret(ctx context.Context, tx *sql.Tx, connectionUUID, secretID string) (WebhookSecret, error) {
	list, err := listSecrets(ctx, tx, connectionUUID)
	for _, v := range list {
		if v.ID == secretID {
			return v, nil
		}
	}
	return WebhookSecret{}, errors.Join(err, apperr.NotFound("webhook secret"))
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

// enrolment reads a connection's enrolment and the team of whoever opened it.
func (s *Service) enrolment(ctx context.Context, q querier, connectionUUID string) (Enrolment, id.Team, error) {
	r, found, err := db.One(ctx, q, enrolmentColumns, "FROM webhook_enrolments",
		new(db.Where).And("connection_uuid = ?", connectionUUID), "")
	switch {
	case err != nil:
		return Enrolment{}, "", fmt.Errorf("read an enrolment: %w", err)
	case !found:
		return Enrolment{}, "", apperr.NotFound("webhook enrolment")
	}
	e := r.Enrolment
	if e.Status == EnrolmentOpen && !s.now().Before(e.ExpiresAt) {
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
