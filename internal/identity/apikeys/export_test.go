package apikeys

import (
	"context"
	"fmt"

	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
)

// Limits that tests depend on.
const (
	KeyFresh         = keyFresh
	UsePrecision     = usePrecision
	MaxVerifications = maxVerifications
	VerifyWindow     = verifyWindow
	LastFourLength   = lastFourLength
	SecretLength     = secretLength
)

// NewText returns the text of a key that was never issued.
func NewText(mode team.EnvironmentType) string { return newKeyText(mode).String() }

// NewSecret returns the text of a key with another secret.
func NewSecret(prefix string) string { return rotated(prefix).String() }

// WithChecksum returns the text of a key whose parts before the checksum are given.
func WithChecksum(body string) string { return keyText{body: body}.String() }

// IsText reports whether a text has the form of a key.
func IsText(text string) bool {
	_, ok := parseKey(text)
	return ok
}

// ReadCredential reads a key as a request with its text does, and returns the number of grants that were read; false
// where there is no key with this lookup part.
func (s *Service) ReadCredential(ctx context.Context, q db.Querier, text string, nowMillis int64) (grants int,
	found bool, err error) {
	key, _ := parseKey(text)
	c, err := readCredential(ctx, q, key.lookup(), key.mac(s.pepper), nowMillis)
	if c == nil {
		return 0, false, err
	}
	return c.grants, true, err
}

// CredentialQuery returns the query of ReadCredential.
func (s *Service) CredentialQuery(text string) (query string, args []any) {
	key, _ := parseKey(text)
	return selectKey + keyByLookup, []any{key.lookup(), key.mac(s.pepper)}
}

// Cached returns the number of cached keys, and all that is cached as text.
func (s *Service) Cached() (n int, text string) { return len(s.keys.byText), fmt.Sprint(s.keys.byText) }

// Remembered returns the number of keys whose use is remembered.
func (s *Service) Remembered() int { return len(s.uses.byKey) }

// OpenedBy returns what grants open at a time.
func OpenedBy(grants []Grant, nowMillis int64) *access.Grants {
	opened, _ := openGrants(grants, nowMillis)
	return opened
}
