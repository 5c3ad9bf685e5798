package apikeys

import (
	"context"
	"crypto/hmac"
	"errors"
	"sync"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

// maxVerifications is how many texts one user may have looked at within verifyWindow.
const (
	maxVerifications = 30
	verifyWindow     = time.Minute
)

// Verification describes a text that was verified.
type Verification struct {
	// Key is the key whose text it is; nil where it is none of the team's.
	Key *Key
	// Works says that the text is let in now, from where the key may be used.
	Works bool
	// Previous says that it has the secret before the last rotation.
	Previous bool
}

// verifications counts, so that no one can test texts at the speed of the network.
type verifications struct {
	mu     sync.Mutex
	window time.Time
	byUser map[string]int
}

func (v *verifications) take(user string, now time.Time) (wait time.Duration, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.window) >= verifyWindow || v.byUser == nil {
		v.window, v.byUser = now, map[string]int{}
	}
	if v.byUser[user] >= maxVerifications {
		return v.window.Add(verifyWindow).Sub(now), false
	}
	v.byUser[user]++
	return 0, true
}

// VerifyKey reports whether a text is a working key of the actor's team. The response is the same for a text that is
// not a key, for a wrong or rotated secret, and for another team's key. VerifyKey returns rate_limited.
func (s *Service) VerifyKey(ctx context.Context, actor access.Principal, text secretbox.Secret) (Verification, error) {
	team, err := s.team.TeamOf(ctx, actor)
	if err != nil {
		return Verification{}, err
	}
	now := s.clock.Now()
	if wait, ok := s.verifying.take(actor.ID, now); !ok && actor.Kind != access.KindSystem {
		return Verification{}, apperr.New(apperr.CodeRateLimited, "Too many keys were verified; try again later").
			RetryIn(wait)
	}
	parsed, ok := parseKey(text.Reveal())
	if !ok {
		return Verification{}, nil
	}
	mac := parsed.mac(s.pepper)
	c, err := readCredential(ctx, s.db.Read(), parsed.lookup(), mac, clock.Millis(now))
	if err != nil || c == nil || c.team != team || !c.matchesMAC(mac, clock.Millis(now)) {
		return Verification{}, err
	}
	k, err := s.GetKey(ctx, actor, c.id)
	var gone *apperr.Error
	if errors.As(err, &gone) && gone.Code == apperr.CodeNotFound {
		return Verification{}, nil
	}
	if err != nil {
		return Verification{}, err
	}
	return Verification{Key: &k, Works: k.Status(now) == KeyActive, Previous: !hmac.Equal(mac, c.mac)}, nil
}
