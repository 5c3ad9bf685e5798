// Package credentials keeps the credentials of connections: each value sealed for its own place in the database, and
// opened only to make a request with it. It knows nothing about providers: which values there are, and to which hosts
// they may be sent, is decided by those who store them.
package credentials

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// collection is the name under which changes to credentials raise the version that caches watch.
const collection = "credentials"

// Limits of the credentials of a connection.
const (
	// MaxValues is how many values a connection may have, those of its provider's refreshes included.
	MaxValues = 32
	// MaxValueBytes bounds a value. Private keys are the longest: one of RSA with 8,192 bits takes 6.4 KiB as PEM.
	MaxValueBytes = 16 << 10
	// maxName bounds the name of a value.
	maxName = 63
)

// Values are credentials by their names, such as "api_key" or "refresh_token".
type Values map[string]secretbox.Secret

// names returns the names, sorted.
func (v Values) names() []string { return slices.Sorted(maps.Keys(v)) }

// check returns an error for values that cannot be stored. Validation of what clients send comes before; this guards
// the vault's own rules.
func (v Values) check() error {
	if len(v) > MaxValues {
		return fmt.Errorf("%d credentials: at most %d can be stored", len(v), MaxValues)
	}
	for name, value := range v {
		if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '.'
		}) {
			return fmt.Errorf("the name %.80q of a credential: must be 1 to %d of a-z, 0-9, the dot and _", name, maxName)
		}
		if n := len(value.Reveal()); n > MaxValueBytes {
			return fmt.Errorf("the credential %s: %d bytes, at most %d can be stored", name, n, MaxValueBytes)
		}
	}
	return nil
}

// Set describes the stored credentials of one connection. It has no value of any.
type Set struct {
	ConnectionUUID string
	Environment    id.Environment
	// Mode is the entry of the definition's auth that the values are for.
	Mode string
	// Fields are the names of the stored values, sorted.
	Fields []string
	// Hosts are the hosts that the values were given for, sorted: host names in lower case, with a port unless it is that
	// of https. The values must never be sent to another.
	Hosts []string
	// BaseURL is the base URL of the provider configuration for which they were given; empty for none, nil if it is not
	// known.
	BaseURL *string
	// ClientID is the OAuth client to which they belong; empty for none, or if it is not known.
	ClientID string
	// ScopesRequested and ScopesGranted are OAuth scopes in the order in which they were given; empty if unknown.
	ScopesRequested, ScopesGranted []string
	// Fingerprint is the same for two sets of one environment exactly if they have the same values: 16 hexadecimal
	// digits of a keyed hash.
	Fingerprint string
	// Revision grows with every change of a value.
	Revision int64
	// StoredAt is when the values were given; refreshes do not change it.
	StoredAt time.Time
	// ExpiresAt is when the access token expires; nil if nothing does, or it is not known.
	ExpiresAt *time.Time
	// RefreshedAt is when the values were last refreshed; nil for never.
	RefreshedAt *time.Time
	// RefreshFailures counts the failed refreshes since the last that succeeded, and RefreshError says why the last one
	// failed, in words without a secret.
	RefreshFailures int64
	RefreshError    string
}

// New are credentials to store.
type New struct {
	ConnectionUUID string
	Environment    id.Environment
	Mode           string
	Values         Values
	Hosts          []string
	// BaseURL and ClientID are as in Set.
	BaseURL, ClientID string
	// ScopesRequested and ScopesGranted are nil where a mode has none.
	ScopesRequested, ScopesGranted []string
	// ExpiresAt is as in Set.
	ExpiresAt *time.Time
}

// Renewal is what a refresh has brought.
type Renewal struct {
	// Of are the credentials that were refreshed. Another revision of them by now wins over the renewal.
	Of *Sealed
	// Announced says that the transaction has called Announce for the connection.
	Announced bool
	// Values replace those of the same names; others stay.
	Values Values
	// ScopesGranted replaces the granted scopes unless it is nil.
	ScopesGranted []string
	// Hosts replaces those of the set unless it is nil: where a provider names them with the first token.
	Hosts     []string
	ExpiresAt *time.Time
}

func notFound() error { return apperr.NotFound("credentials") }
