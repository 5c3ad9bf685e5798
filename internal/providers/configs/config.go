// Package configs owns provider configurations: a team's own settings of a provider in an environment, such as its
// OAuth client. See README.md.
package configs

import (
	"slices"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// collection is the name under which changes to provider configurations raise the version that caches watch.
const collection = "provider_configs"

// Limits of a provider configuration.
const (
	// MaxConfigs is how many an environment can have. All of them are in memory together.
	MaxConfigs = 200
	// MaxDisplayName is in characters.
	MaxDisplayName = 100
	// MaxClientID, MaxClientSecret and MaxPrivateKey are in bytes. Some providers give out whole tokens as secrets.
	MaxClientID     = 512
	MaxClientSecret = 4096
	MaxPrivateKey   = 16 << 10
	// MaxKeyID bounds the name of a private key, in bytes.
	MaxKeyID = 255
	// MaxClientHosts bounds the hosts of a client.
	MaxClientHosts = 20
	// MaxScopes bounds the scopes, and MaxScope each of them, in bytes.
	MaxScopes = 100
	MaxScope  = 255
	// MaxBaseURL is in bytes.
	MaxBaseURL = 2048
	// MaxRequests and MaxPerSeconds bound a rate limit.
	MaxRequests   = 1_000_000
	MaxPerSeconds = 86_400
	// MaxPatterns bounds the patterns that choose actions, and MaxOverrides the overrides of risk.
	MaxPatterns  = 100
	MaxOverrides = 200
	// MaxReason bounds the reason of an override, in characters.
	MaxReason = 200
)

// Config is a provider configuration. Those that Resolve returns are shared and read-only.
type Config struct {
	// ID names the row. It is empty if there is none: the slug of a provider is a configuration that sets nothing.
	ID          string
	Environment id.Environment
	// Key names the configuration in its environment. It never changes.
	Key string
	// Provider is the slug of the provider's definition. It never changes.
	Provider string
	// DisplayName is for people; empty for none.
	DisplayName string
	// ClientID is that of the OAuth client; empty if there is no client.
	ClientID string
	// SecretHint is the last four characters of the client secret; empty if it is too short to show any.
	SecretHint string
	// KeyID is the name of the private key at the provider, which signatures with it carry as kid; empty for none.
	KeyID string
	// ClientHosts are hosts to which the client may be sent although the setting of a connection names them. They are
	// sorted, and written as egress.HostKey writes them, after http:// where that is their scheme.
	ClientHosts []string
	// Scopes are what the client requests; nil for what the definition says.
	Scopes []string
	// BaseURL replaces that of the definition; empty for none.
	BaseURL string
	// RateLimit replaces the budget that the definition declares; nil for none.
	RateLimit *RateLimit
	// Include and Exclude choose actions, as actions.IsChosen does. Without Include all are included.
	Include, Exclude []string
	// Risk overrides the risk of actions: the first override counts whose pattern matches.
	Risk      []RiskOverride
	CreatedAt time.Time
	UpdatedAt time.Time

	// sealedSecret and sealedKey are nil where nothing is stored.
	sealedSecret, sealedKey []byte
}

// RateLimit is how many requests a connection may make in a time.
type RateLimit struct {
	Requests   int64 `json:"requests"`
	PerSeconds int64 `json:"per_seconds"`
}

// Version identifies what the configuration's changes have left. Every change makes UpdatedAt later.
func (c *Config) Version() etag.Tag { return etag.Of(c.ID, clock.Millis(c.UpdatedAt)) }

// HasSecret reports whether a client secret is stored.
func (c *Config) HasSecret() bool { return len(c.sealedSecret) > 0 }

// HasPrivateKey reports whether a private key is stored.
func (c *Config) HasPrivateKey() bool { return len(c.sealedKey) > 0 }

// Withholds returns the first of the hosts, which settings of a connection name, to which the secrets of the client may
// not be sent; empty if there is none. A client without secrets has nothing to protect.
func (c *Config) Withholds(hosts []string) string {
	if c.HasSecret() || c.HasPrivateKey() {
		for _, host := range hosts {
			if !slices.Contains(c.ClientHosts, host) {
				return host
			}
		}
	}
	return ""
}

// RedirectURI returns the URL to which a provider sends browsers back, for the configuration of a key. It has the
// environment, because two environments may use one key for different authorization servers, and a response of one must
// not pass for a response of the other (RFC 9700, section 4.4.2).
func RedirectURI(publicURL string, env id.Environment, key string) string {
	return strings.TrimRight(publicURL, "/") + "/oauth/callback/" + string(env) + "/" + key
}

// blank returns the configuration that a provider's slug is without a row.
func blank(env id.Environment, slug string) *Config {
	return &Config{Environment: env, Key: slug, Provider: slug}
}

// Client is the OAuth client of a configuration, opened.
type Client struct {
	// ID is empty if the configuration has no client.
	ID string
	// Secret is empty for a public client, and for one that proves itself by its key.
	Secret secretbox.Secret
	// PrivateKey is in PEM; empty if there is none.
	PrivateKey secretbox.Secret
	// KeyID is the name of PrivateKey at the provider; empty if it has none.
	KeyID string
}
