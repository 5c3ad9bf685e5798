package connections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/verification"
)

// EnrolmentTime is how long an enrolment stays open.
const EnrolmentTime = 10 * time.Minute

// EnrolmentStatus is the state of an enrolment.
type EnrolmentStatus string

// The statuses of an enrolment.
const (
	// EnrolmentOpen waits for the provider's handshake.
	EnrolmentOpen EnrolmentStatus = "open"
	// EnrolmentExpired received no handshake in time.
	EnrolmentExpired EnrolmentStatus = "expired"
	// EnrolmentUnconfirmed holds a secret that is not used before the operator confirms it.
	EnrolmentUnconfirmed EnrolmentStatus = "awaiting_confirmation"
	// EnrolmentCaptured resulted in a webhook secret.
	EnrolmentCaptured EnrolmentStatus = "captured"
)

// enrolmentStatuses returns every status.
func enrolmentStatuses() []EnrolmentStatus {
	return []EnrolmentStatus{EnrolmentOpen, EnrolmentExpired, EnrolmentUnconfirmed, EnrolmentCaptured}
}

// Schema returns the schema with the statuses, for the API.
func (EnrolmentStatus) Schema(oas.Registry) *oas.Schema { return oas.Enum(enrolmentStatuses()) }

// Enrolment permits the provider to hand over a webhook secret in a handshake. Handshakes are not signed, so anyone who
// knows the webhook URL could send one. Without an open enrolment every handshake is refused.
type Enrolment struct {
	Status    EnrolmentStatus
	OpenedAt  time.Time
	ExpiresAt time.Time
	// CapturedAt is when the handshake arrived; nil before.
	CapturedAt *time.Time
	// SecretID is the webhook secret that resulted; empty before.
	SecretID string
	// Value is the secret while it awaits confirmation, because the operator has to show it to the provider. It is empty
	// otherwise.
	Value secretbox.Secret
}

// ErrNotEnrolled reports a handshake that hands over a secret while no enrolment is open.
var ErrNotEnrolled = errors.New("no enrolment is open")

// ErrCaptureByAlias reports a handshake that hands over a secret by the connection's alias. The only proof of such a
// handshake is that its sender knows the path, and an alias can be guessed.
var ErrCaptureByAlias = errors.New("the handshake used the alias")

// ErrUnfitSecret reports a handshake that hands over a text that cannot be a secret of the provider.
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
	_, err := s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(ed edit, c Connection) (Connection,
		error) {
		if p, ok := s.providers.Find(c.Environment, c.Provider); !ok || p.Webhooks == nil || !p.Webhooks.Captures() {
			return Connection{}, enrolmentConflict("The provider hands over no secret in a handshake; store its secret under " +
				"webhook-secrets")
		}
		stored, err := readSecrets(ctx, ed.tx, c.UUID)
		if err != nil {
			return Connection{}, err
		}
		if len(stored) >= MaxSecrets {
			return Connection{}, enrolmentConflict(fmt.Sprintf("The connection has %d webhook secrets, which is the most; "+
				"delete one first", len(stored)))
		}
		if err := insertEnrolment(ctx, ed.tx, c.UUID, actor.Team, e); err != nil {
			return Connection{}, err
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
	e, _, err := s.enrolments.read(ctx, s.db.Read(), c.UUID, s.now())
	return e, err
}

// ConfirmEnrolment adds the secret that a handshake handed over to the webhook secrets of a connection of the actor's
// environment.
func (s *Service) ConfirmEnrolment(ctx context.Context, actor access.Principal, providerConfigKey,
	connectionID string) (WebhookSecret, error) {
	var out WebhookSecret
	now := s.now()
	_, err := s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(ed edit, c Connection) (Connection,
		error) {
		e, _, err := s.enrolments.read(ctx, ed.tx, c.UUID, now)
		if err != nil {
			return Connection{}, err
		}
		if e.Status != EnrolmentUnconfirmed {
			return Connection{}, enrolmentConflict("No secret awaits confirmation")
		}
		if out, err = s.secrets.enrol(ctx, ed.tx, c.UUID, e.Value, now); err != nil {
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

// EndEnrolment ends the enrolment of a connection of the actor's environment and deletes a secret that awaits
// confirmation.
func (s *Service) EndEnrolment(ctx context.Context, actor access.Principal, providerConfigKey,
	connectionID string) error {
	now := s.now()
	_, err := s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(ed edit, c Connection) (Connection,
		error) {
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
// returns when the secret is durable; only then may the caller respond to the handshake. Errors: ErrNotEnrolled,
// ErrCaptureByAlias, ErrUnfitSecret.
func (s *Service) Capture(ctx context.Context, in *Inbound, captured *verification.Captured) error {
	now := s.now()
	// The snapshot decides, so that handshakes from strangers cost no query.
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
	return s.change(ctx, &c.UUID, func(tx *sql.Tx) error {
		current, err := lock(ctx, tx, c.Environment, c.ProviderConfigKey, c.ConnectionID)
		if err != nil {
			return err
		}
		e, team, err := s.enrolments.read(ctx, tx, current.UUID, now)
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
			if err := s.enrolments.keepCaptured(ctx, tx, current.UUID, captured.Value, now); err != nil {
				return err
			}
			return ed.record(ctx, &current, actionCapture, ed.before, audit.State{"confirmed": false})
		}
		secret, err := s.secrets.enrol(ctx, tx, current.UUID, captured.Value, now)
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

func findSecret(ctx context.Context, tx *sql.Tx, connectionUUID, secretID string) (WebhookSecret, error) {
	list, err := listSecrets(ctx, tx, connectionUUID)
	for _, v := range list {
		if v.ID == secretID {
			return v, nil
		}
	}
	return WebhookSecret{}, errors.Join(err, apperr.NotFound("webhook secret"))
}
