package connections

import (
	"context"
	"crypto/subtle"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/plaintext"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// Limits of webhook secrets.
const (
	// MaxSecrets is how many a connection may have at the same time. A webhook that does not verify costs one
	// verification for each.
	MaxSecrets = 10
	// MaxSecretLabel is in characters.
	MaxSecretLabel = 255
)

// WebhookSecret describes a stored secret. Its value is never returned.
type WebhookSecret struct {
	ID    string
	Label string
	// Hint is the secret's last characters; empty if it is too short to show any.
	Hint      string
	CreatedAt time.Time
	// LastMatchedAt is when a webhook last verified under the secret, to the minute; nil before the first.
	LastMatchedAt *time.Time
}

// NewWebhookSecret is a secret to add to those that a connection has.
type NewWebhookSecret struct {
	Value secretbox.Secret
	Label string
}

// Secrets returns the webhook secrets of a connection that the view shows, oldest first.
func (s *Service) Secrets(ctx context.Context, v access.View, providerConfigKey,
	connectionID string) ([]WebhookSecret, error) {
	c, err := s.Get(ctx, v, providerConfigKey, connectionID)
	if err != nil {
		return nil, err
	}
	return listSecrets(ctx, s.db.Read(), c.UUID)
}

// AddSecret stores a further secret of a connection of the actor's environment. From then on, webhooks that verify
// under any of the secrets are accepted.
func (s *Service) AddSecret(ctx context.Context, actor access.Principal, providerConfigKey, connectionID string,
	in NewWebhookSecret) (WebhookSecret, error) {
	now := s.now()
	out := WebhookSecret{ID: id.New(id.PrefixSecret), Label: in.Label, Hint: hint(in.Value), CreatedAt: now}
	_, err := s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(e edit, c Connection) (Connection,
		error) {
		known, err := s.secrets.open(ctx, e.tx, c.UUID)
		if err != nil {
			return Connection{}, err
		}
		provider, _ := s.providers.Find(c.Environment, c.Provider)
		if err := checkNewSecret(provider, c, in, known); err != nil {
			return Connection{}, err
		}
		if err := s.secrets.insert(ctx, e.tx, c.UUID, out, in.Value); err != nil {
			return Connection{}, err
		}
		return e.write(ctx, &c, actionAddSecret, secretChange(out))
	})
	if err != nil {
		return WebhookSecret{}, err
	}
	return out, nil
}

// RemoveSecret deletes a secret of a connection of the actor's environment. After the last one is gone every webhook
// is refused.
func (s *Service) RemoveSecret(ctx context.Context, actor access.Principal, providerConfigKey, connectionID,
	secretID string) error {
	if !id.Is(id.PrefixSecret, secretID) {
		return apperr.NotFound("webhook secret")
	}
	now := s.now()
	_, err := s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(e edit, c Connection) (Connection,
		error) {
		stored, err := listSecrets(ctx, e.tx, c.UUID)
		if err != nil {
			return Connection{}, err
		}
		for _, secret := range stored {
			if secret.ID != secretID {
				continue
			}
			if _, err := e.tx.ExecContext(ctx, `DELETE FROM connection_secrets WHERE connection_uuid = $1 AND id = $2`, c.UUID,
				secretID); err != nil {
				return Connection{}, fmt.Errorf("delete webhook secret: %w", err)
			}
			return e.write(ctx, &c, actionRemoveSecret, secretChange(secret))
		}
		return Connection{}, apperr.NotFound("webhook secret")
	})
	return err
}

// secretChange is the audit trail's record of a secret.
func secretChange(v WebhookSecret) audit.State {
	return audit.State{"webhook_secret_id": v.ID, "webhook_secret_label": v.Label}
}

// checkNewSecret checks a secret for a connection with those that are stored. The provider may be nil.
func checkNewSecret(provider *registry.Provider, c Connection, in NewWebhookSecret,
	stored []verification.Secret) error {
	var violations apperr.Violations
	if len(stored) >= MaxSecrets {
		violations.Add("body", "max_items", fmt.Sprintf("the connection has %d secrets, which is the most; delete one first",
			len(stored)))
	}
	for _, v := range stored {
		// Deleting one of two equal secrets would leave it valid.
		if subtle.ConstantTimeCompare([]byte(v.Value.Reveal()), []byte(in.Value.Reveal())) == 1 {
			violations.Add("secret", "unique", "the connection has this secret already, as "+v.ID)
		}
	}
	switch {
	case utf8.RuneCountInString(in.Label) > MaxSecretLabel:
		violations.Add("label", "max_length", fmt.Sprintf("must be at most %d characters", MaxSecretLabel))
	case !utf8.ValidString(in.Label) || strings.ContainsFunc(in.Label, plaintext.IsControl):
		violations.Add("label", "pattern", "must not hold control characters")
	}
	if checkSecret(&violations, "secret", in.Value) && provider != nil && provider.Webhooks != nil {
		found, err := bindProblems(provider.Webhooks,
			c.Webhook.settings([]verification.Secret{{ID: "the secret", Value: in.Value}}))
		if err != nil {
			return err
		}
		for _, violation := range found {
			// A problem with a parameter does not concern this request: it existed before, and shows in the refusals.
			if violation.Field == "secret" {
				violations.Add("secret", violation.Rule, violation.Message)
			}
		}
	}
	return violations.Err()
}
