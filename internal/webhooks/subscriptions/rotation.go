package subscriptions

import (
	"context"
	"crypto/subtle"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
)

// retired is a replaced signing secret as it is sealed.
type retired struct {
	Secret string `json:"secret"`
	// UntilMillis is when the secret stops signing.
	UntilMillis int64 `json:"until_ms"`
}

// rotation is the effect of a change on the signing secrets of a subscription.
type rotation struct {
	// secret is set when there is a new one.
	secret patch.Field[secretbox.Secret]
	// grace is how long the replaced secret continues to sign, in seconds.
	grace int64
	// retiring holds the replaced secrets that continue to sign, if changed is set.
	retiring []retired
	changed  bool
}

// rotate returns what the change does to the secrets of the stored subscription. The present secret replaces nothing
// when it is set again. A replaced secret that becomes the present one again is no longer among the replaced ones.
func (s *Service) rotate(stored row, ch *Change, now time.Time) (r rotation, err error) {
	if !ch.SigningSecret.Given() && !ch.SecretGraceSeconds.Set {
		return r, nil
	}
	before, err := s.unsealRetiring(stored, now)
	if err != nil {
		return r, err
	}
	present, err := s.unseal(stored.ID, columnSecret, stored.sealedSecret)
	if err != nil {
		return r, err
	}
	r.grace = ch.SecretGraceSeconds.Or(int64(DefaultSecretGrace / time.Second))
	r.retiring = before
	if next := ch.SigningSecret; next.Given() && !sameSecret(next.Value.Reveal(), present) {
		r.secret, r.changed = next, true
		r.retiring = slices.DeleteFunc(before, func(old retired) bool { return sameSecret(old.Secret, next.Value.Reveal()) })
		r.retiring = append([]retired{{present, clock.Millis(now) + r.grace*1000}}, r.retiring...)
		r.retiring = r.retiring[:min(len(r.retiring), MaxRetiring)]
	}
	if r.grace == 0 {
		r.changed = r.changed || len(before) > 0
		r.retiring = nil
	}
	return r, nil
}

func sameSecret(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// unsealRetiring returns the replaced secrets of a row that still sign, the latest first.
func (s *Service) unsealRetiring(r row, now time.Time) ([]retired, error) {
	if r.sealedRetiring == nil {
		return nil, nil
	}
	text, err := s.unseal(r.ID, columnRetiring, r.sealedRetiring)
	if err != nil {
		return nil, err
	}
	var list []retired
	if err := db.DecodeJSON(text, &list); err != nil {
		return nil, errStored(r.ID, columnRetiring)
	}
	return slices.DeleteFunc(list, func(old retired) bool { return old.UntilMillis <= clock.Millis(now) }), nil
}

// setRetiring stores the replaced secrets in the row.
func (s *Service) setRetiring(r *row, list []retired) (err error) {
	r.retiringUntil = nil
	for _, old := range list {
		if until := clock.FromMillis(old.UntilMillis); r.retiringUntil == nil || until.After(*r.retiringUntil) {
			r.retiringUntil = &until
		}
	}
	r.sealedRetiring, err = s.sealRetiring(r.ID, list)
	return err
}

func (s *Service) sealRetiring(subscriptionID string, list []retired) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	text, err := db.EncodeJSON(list)
	if err != nil {
		return nil, fmt.Errorf("encode the replaced secrets of webhook subscription %s: %w", subscriptionID, err)
	}
	return s.seal(subscriptionID, columnRetiring, text)
}

// shown returns what readers may see of replaced secrets.
func shown(list []retired) []RetiringSecret {
	out := make([]RetiringSecret, len(list))
	for i, old := range list {
		out[i] = RetiringSecret{secretHint(secretbox.Secret(old.Secret)), clock.FromMillis(old.UntilMillis)}
	}
	return out
}

// keys returns the keys of replaced secrets.
func keys(subscriptionID string, list []retired) ([]RetiringKey, error) {
	out := make([]RetiringKey, len(list))
	for i, old := range list {
		key, rule, _ := signingKey(secretbox.Secret(old.Secret))
		if rule != "" {
			return nil, errStored(subscriptionID, columnRetiring)
		}
		out[i] = RetiringKey{key, clock.FromMillis(old.UntilMillis)}
	}
	return out, nil
}

// ForgetSecrets removes replaced secrets from the database where all of a subscription have stopped signing. They do
// not sign in any case. A job calls it.
func (s *Service) ForgetSecrets(ctx context.Context) error {
	_, err := s.cfg.DB.Write().ExecContext(ctx, `UPDATE webhook_subscriptions SET retiring_secrets = NULL,
			retiring_until_ms = NULL
		WHERE retiring_until_ms IS NOT NULL AND retiring_until_ms <= $1`, clock.Millis(s.cfg.Clock.Now()))
	if err != nil {
		return fmt.Errorf("forget replaced signing secrets: %w", err)
	}
	return nil
}
