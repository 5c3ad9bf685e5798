package signin

import (
	"context"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
)

// Limits that tests depend on.
const (
	FreeAccountFailures = freeAccountFailures
	FreeAddressFailures = freeAddressFailures
	ForgetAfter         = forgetAfter
	MaxDelay            = maxDelay
	FreeWrongCodes      = freeWrongCodes
	MaxCodeDelay        = maxCodeDelay
	WaitingHashes       = waitingHashes
	MaxResets           = maxResets
	MaxSessions         = maxSessions
	RecoveryCodes       = recoveryCodes
	TOTPPeriod          = totpPeriod
	FamilyBytes         = familyBytes
	RotatedBytes        = rotatedBytes
)

// ErrResetToken is the reason why a reset token is refused.
var ErrResetToken = errResetToken

// ConcurrentHashes is how many passwords are hashed at a time.
func ConcurrentHashes() int { return concurrentHashes() }

// HashTwoAtATime lets two passwords be hashed at a time, regardless of the number of processors.
func (s *Service) HashTwoAtATime() { s.hasher.running = make(chan struct{}, 2) }

// BeforeHash calls fn before each hash.
func (s *Service) BeforeHash(fn func()) {
	derive := s.hasher.derive
	s.hasher.derive = func(password, salt []byte, passes, memoryKiB uint32, lanes uint8, length uint32) []byte {
		fn()
		return derive(password, salt, passes, memoryKiB, lanes, length)
	}
}

// HashBy replaces the function that hashes passwords.
func (s *Service) HashBy(derive DeriveFunc) { s.hasher.derive = derive }

// FillQueue takes every place to hash in, and every place to wait in.
func (s *Service) FillQueue() {
	for range concurrentHashes() {
		s.hasher.running <- struct{}{}
	}
	for range waitingHashes {
		s.hasher.waiting <- struct{}{}
	}
}

// HashUnderOtherCosts returns a hash of a password that was made under other costs than today's.
func (s *Service) HashUnderOtherCosts(password secretbox.Secret) string {
	old := passwordHash{params: hashParams{memoryKiB: 64, passes: 1, lanes: 1}, salt: make([]byte, saltBytes)}
	old.sum = s.hasher.sum(old, password)
	return old.String()
}

// HasCurrentCosts reports whether a hash was made under today's costs.
func HasCurrentCosts(hash string) bool {
	h, err := parseHash(hash)
	return err == nil && h.params == currentParams()
}

// UnknownHash is the hash that no password has.
func UnknownHash() string { return unknownUser().String() }

// NewRefreshToken returns a token that was never issued.
func NewRefreshToken() RefreshToken { return newRefreshToken().encode() }

// ParseRefreshToken returns the parts of a refresh token.
func ParseRefreshToken(token RefreshToken) (family, rotated []byte, ok bool) {
	t, ok := parseRefreshToken(token)
	return t.family, t.rotated, ok
}

// TOTPCode is the code of an authenticator app some steps after a time.
func TOTPCode(secret []byte, now time.Time, later int64) string {
	return totpCode(secret, totpStep(now)+later)
}

// MatchesTOTP reports whether a code is one of those near a time.
func MatchesTOTP(secret []byte, code string, now time.Time) bool {
	_, ok := matchTOTP(secret, code, now, 0)
	return ok
}

// ReadSignedIn reads a signed-in user through a Querier.
func (s *Service) ReadSignedIn(ctx context.Context, q db.Querier, p access.Principal) (access.Principal, error) {
	return s.readSignedIn(ctx, q, p.ID, p.Team, p.Session)
}
