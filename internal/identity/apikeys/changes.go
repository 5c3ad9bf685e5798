package apikeys

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/secretbox"
)

const (
	// DefaultOverlap is how long the old secret of a rotated key works where nothing else is asked for.
	DefaultOverlap = 24 * time.Hour
	// MaxOverlap is how long it works at most.
	MaxOverlap = 30 * 24 * time.Hour
)

// KeyChange is a change of a key's settings; nil keeps.
type KeyChange struct {
	Name          *string
	ExpiresMillis *int64
	// SourceCIDRs are networks in CIDR notation; a pointer to nil stands for all.
	SourceCIDRs *[]string
	// Rate is the limit of the key's requests; a pointer to nil stands for that of the service.
	Rate **ratelimit.Limit
}

// Violations returns every rule that the change breaks, by the names of its fields.
func (c KeyChange) Violations(now time.Time) []apperr.Detail {
	var v apperr.Violations
	if c.Name != nil {
		team.CheckName(&v, "name", *c.Name)
	}
	expiryViolation(&v, c.ExpiresMillis, now)
	if c.SourceCIDRs != nil {
		_ = parseSources(&v, *c.SourceCIDRs)
	}
	if c.Rate != nil {
		rateViolations(&v, *c.Rate)
	}
	return v.Details()
}

// keyChange changes a stored key in its transaction, for the actor with the rights that they have in it: it returns the
// key as it should be, whether that is a change, and further details for the trail.
type keyChange func(tx *sql.Tx, actor access.Principal, k Key, now time.Time) (next Key, changed bool,
	details audit.State, err error)

// changeKey runs a change on a key of the actor's team that is locked meanwhile, and returns the key as it is then. It
// returns not_found and precondition_failed.
func (s *Service) changeKey(ctx context.Context, actor access.Principal, keyID, verb string,
	change keyChange) (Key, error) {
	team, err := s.teamOfKey(ctx, actor, keyID)
	if err != nil {
		return Key{}, err
	}
	defer s.keys.drop() // also if the commit succeeded and its response was lost
	var after Key
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		before, err := s.lockKey(ctx, tx, team, keyID)
		if err != nil {
			return err
		}
		now := s.clock.Now()
		actor, err := members.ActorNow(ctx, tx, actor, team, now)
		if err != nil {
			return err
		}
		if err := requireKeyAccess(actor, before.Environment, access.APIKeysWrite); err != nil {
			return err
		}
		if err := etag.Check(ctx, before.Version()); err != nil {
			return err
		}
		next, changed, details, err := change(tx, actor, before, now)
		after = before
		if err != nil || !changed {
			return err
		}
		next.UpdatedMillis = clock.Millis(now)
		if err := updateKey(ctx, tx, team, before, next); err != nil {
			return err
		}
		if after, _, err = readKey(ctx, tx, team, keyID); err != nil {
			return err
		}
		e := keyEvent(actor, team, before, verb)
		e.Before, e.After, e.Details = keyState(&before), keyState(&after), details
		return audit.Record(ctx, tx, now, e)
	})
	return after, err
}

// lockKey reads a key that stays as it is until the transaction ends.
func (s *Service) lockKey(ctx context.Context, tx *sql.Tx, team id.Team, keyID string) (Key, error) {
	found, err := lockKey(ctx, tx, team, keyID, s.db.ForUpdate())
	if err != nil {
		return Key{}, err
	}
	if !found {
		return Key{}, apperr.NotFound("API key")
	}
	k, ok, err := readKey(ctx, tx, team, keyID)
	if err == nil && !ok {
		err = apperr.NotFound("API key")
	}
	return k, err
}

func keyEvent(actor access.Principal, team id.Team, k Key, verb string) audit.Event {
	return audit.Event{Team: team, Environment: k.Environment, Actor: actor, Action: "api_key." + verb,
		TargetType: "api_key", TargetID: k.ID}
}

func errRevoked() error {
	return apperr.New(apperr.CodeAPIKeyRevoked, "The API key is permanently revoked; create another")
}

// holdsAll returns privilege_escalation where the key's grants open more than the actor may do. A person who gets its
// secret, or lets it work again, for longer or from elsewhere, could use those rights.
func holdsAll(ctx context.Context, tx *sql.Tx, actor access.Principal, k Key) error {
	grants, err := readGrants(ctx, tx, k.ID)
	if err != nil {
		return err
	}
	return checkGrantable(actor, k.Environment, grants)
}

// UpdateKey changes the settings of a key of the actor's team and returns it. An expired key whose expiry is moved into
// the future works again. It returns not_found, validation_error, and api_key_revoked.
func (s *Service) UpdateKey(ctx context.Context, actor access.Principal, keyID string, c KeyChange) (Key, error) {
	return s.changeKey(ctx, actor, keyID, "update", func(tx *sql.Tx, actor access.Principal, k Key, now time.Time) (Key,
		bool, audit.State, error) {
		if violations := c.Violations(now); violations != nil {
			return k, false, nil, apperr.Invalid(violations...)
		}
		if k.RevokedMillis != nil {
			return k, false, nil, errRevoked()
		}
		if c.ExpiresMillis != nil || c.SourceCIDRs != nil {
			if err := holdsAll(ctx, tx, actor, k); err != nil {
				return k, false, nil, err
			}
		}
		changed := false
		if c.Name != nil && *c.Name != k.Name {
			changed, k.Name = true, *c.Name
		}
		if c.ExpiresMillis != nil && *c.ExpiresMillis != k.ExpiresMillis {
			changed, k.ExpiresMillis = true, *c.ExpiresMillis
		}
		if c.SourceCIDRs != nil {
			var v apperr.Violations // there are none: they were asked for before
			if next := parseSources(&v, *c.SourceCIDRs); !slices.Equal(next, k.SourceCIDRs) {
				changed, k.SourceCIDRs = true, next
			}
		}
		if c.Rate != nil && !sameRate(*c.Rate, k.Rate) {
			changed, k.Rate = true, *c.Rate
		}
		return k, changed, nil, nil
	})
}

// DisableKey has a key of the actor's team refused until it is enabled, and returns it. A key that is disabled is left
// as it is. It returns not_found, and api_key_revoked.
func (s *Service) DisableKey(ctx context.Context, actor access.Principal, keyID string) (Key, error) {
	return s.changeKey(ctx, actor, keyID, "disable", func(_ *sql.Tx, _ access.Principal, k Key, now time.Time) (Key, bool,
		audit.State, error) {
		if k.RevokedMillis != nil {
			return k, false, nil, errRevoked()
		}
		if k.DisabledMillis != nil {
			return k, false, nil, nil
		}
		k.DisabledMillis = new(clock.Millis(now))
		return k, true, nil, nil
	})
}

// EnableKey is the end of DisableKey.
func (s *Service) EnableKey(ctx context.Context, actor access.Principal, keyID string) (Key, error) {
	return s.changeKey(ctx, actor, keyID, "enable", func(tx *sql.Tx, actor access.Principal, k Key, _ time.Time) (Key,
		bool, audit.State, error) {
		if k.RevokedMillis != nil {
			return k, false, nil, errRevoked()
		}
		if err := holdsAll(ctx, tx, actor, k); err != nil {
			return k, false, nil, err
		}
		changed := k.DisabledMillis != nil
		k.DisabledMillis = nil
		return k, changed, nil, nil
	})
}

// RevokeKey revokes a key of the actor's team immediately and permanently, and returns it. Revoking it again changes
// nothing.
func (s *Service) RevokeKey(ctx context.Context, actor access.Principal, keyID string) (Key, error) {
	return s.changeKey(ctx, actor, keyID, "revoke", func(_ *sql.Tx, _ access.Principal, k Key, now time.Time) (Key, bool,
		audit.State, error) {
		if k.RevokedMillis != nil {
			return k, false, nil, nil
		}
		k.RevokedMillis = new(clock.Millis(now))
		return k, true, nil, nil
	})
}

// overlapViolations returns the rule that an overlap breaks.
func overlapViolations(overlap time.Duration) []apperr.Detail {
	var v apperr.Violations
	if overlap < 0 || overlap > MaxOverlap {
		v.Add("overlap_seconds", "range", fmt.Sprintf("must be from 0 to %d", int64(MaxOverlap/time.Second)))
	}
	return v.Details()
}

// RotateKey gives a key of the actor's team another secret and returns it with its new text, which cannot be had again.
// The old secret works for the overlap. A key has two secrets at most: while the one before works, rotating it is
// rotation_in_progress, but for an overlap of 0, which ends every secret but the new one. It also returns not_found,
// validation_error, and api_key_revoked.
func (s *Service) RotateKey(ctx context.Context, actor access.Principal, keyID string,
	overlap time.Duration) (Key, secretbox.Secret, error) {
	if violations := overlapViolations(overlap); violations != nil {
		return Key{}, "", apperr.Invalid(violations...)
	}
	var text keyText
	k, err := s.changeKey(ctx, actor, keyID, "rotate", func(tx *sql.Tx, actor access.Principal, k Key, now time.Time) (Key,
		bool, audit.State, error) {
		switch {
		case k.RevokedMillis != nil:
			return k, false, nil, errRevoked()
		case overlap > 0 && k.PreviousUntil(now) != nil:
			return k, false, nil, apperr.New(apperr.CodeRotationInProgress,
				"The secret before the last rotation still works; wait for its end, or rotate with an overlap of 0, which ends it")
		}
		if err := holdsAll(ctx, tx, actor, k); err != nil {
			return k, false, nil, err
		}
		text = rotated(k.Prefix)
		k.LastFour, k.PreviousEndsMillis = text.lastFour(), nil
		if overlap > 0 {
			ends := clock.Millis(now.Add(overlap))
			k.PreviousEndsMillis = &ends
		}
		err := replaceSecret(ctx, tx, k, text.mac(s.pepper))
		return k, true, audit.State{"overlap_seconds": int64(overlap / time.Second)}, err
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, secretbox.Secret(text.String()), nil
}

// DeleteKey removes a key of the actor's team with its grants, or returns not_found or precondition_failed. Its trail
// stays.
func (s *Service) DeleteKey(ctx context.Context, actor access.Principal, keyID string) error {
	team, err := s.teamOfKey(ctx, actor, keyID)
	if err != nil {
		return err
	}
	defer s.keys.drop()
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		k, err := s.lockKey(ctx, tx, team, keyID)
		if err != nil {
			return err
		}
		actor, err := members.ActorNow(ctx, tx, actor, team, s.clock.Now())
		if err != nil {
			return err
		}
		if err := requireKeyAccess(actor, k.Environment, access.APIKeysWrite); err != nil {
			return err
		}
		if err := etag.Check(ctx, k.Version()); err != nil {
			return err
		}
		if err := deleteKey(ctx, tx, team, keyID); err != nil {
			return err
		}
		e := keyEvent(actor, team, k, "delete")
		e.Before = keyState(&k)
		return audit.Record(ctx, tx, s.clock.Now(), e)
	})
}
