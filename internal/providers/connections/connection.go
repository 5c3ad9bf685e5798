// Package connections owns the connections of each environment: links to accounts at providers, their webhook paths and
// secrets. The inbound endpoint asks it for the connection of a path and for its verification.
package connections

import (
	"time"

	"sallyport/internal/platform/id"
)

// Collection is the name under which changes to connections raise the version that caches watch.
const Collection = "connections"

// Status says whether a connection works. The set is closed: Statuses lists it.
type Status string

// The statuses.
const (
	Active Status = "active"
	// Disabled connections refuse deliveries until they are enabled again.
	Disabled Status = "disabled"
)

// Statuses returns every status.
func Statuses() []Status { return []Status{Active, Disabled} }

// SameBody says what happens to a delivery whose body came before under another id, where the provider's id is outside
// its signature.
type SameBody string

// The choices.
const (
	// SameBodyAccept stores and forwards the delivery, marked as suspect.
	SameBodyAccept SameBody = "accept"
	// SameBodyRefuse stores the delivery, marked as suspect, and forwards it to nobody.
	SameBodyRefuse SameBody = "refuse"
)

// Limits and defaults of a connection.
const (
	// DefaultDedupeWindow is the window of body-hash keys where the connection sets none.
	DefaultDedupeWindow = time.Hour
	// MaxDedupeWindow is the longest window that a connection may set.
	MaxDedupeWindow = 30 * 24 * time.Hour
	// DefaultMaxBodyBytes and MaxBodyBytes bound a delivery's body.
	DefaultMaxBodyBytes int64 = 10 << 20
	MaxBodyBytes        int64 = 25 << 20
	// AliasHold is how long a released alias stays its environment's: providers go on posting to URLs long after they
	// have been replaced.
	AliasHold = 90 * 24 * time.Hour
	// MaxSecretBytes bounds a webhook secret.
	MaxSecretBytes = 4096
	// MaxSourceCIDRs bounds the networks that a connection may name, MaxRate the deliveries per second.
	MaxSourceCIDRs = 100
	MaxRate        = 10_000
	// MaxTags, MaxTagValue (in characters) and MaxMetadataBytes (as compact JSON) bound what callers attach.
	MaxTags          = 10
	MaxTagValue      = 255
	MaxMetadataBytes = 16 << 10
)

// Connection is one link to one account at a provider. What Lookup returns is shared: read it only.
type Connection struct {
	// UUID names the connection in the whole service.
	UUID        string
	Environment id.Environment
	// Provider is the slug of the provider's definition.
	Provider string
	// ProviderConfigKey and ConnectionID name the connection inside its environment.
	ProviderConfigKey string
	ConnectionID      string
	// PathToken is the last segment of the webhook URL: whk_ and 128 random bits.
	PathToken string
	// Alias is the readable segment that leads to the connection too; nil when it has none.
	Alias  *string
	Status Status
	// StatusReason says why the status is not active; empty when it is.
	StatusReason string
	Tags         map[string]string
	// Metadata is the caller's own JSON object; numbers are json.Number, so that they come back as they were sent.
	Metadata map[string]any
	Webhook  WebhookConfig
	// HasSecret says whether a webhook secret is stored. Without one every delivery is refused.
	HasSecret bool
	// SecretHint is the last four characters of the webhook secret; empty where the secret is too short to show any.
	SecretHint string
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// WebhookConfig says how deliveries to a connection are taken.
type WebhookConfig struct {
	// Params are the values of the provider definition's parameters that the connection sets. They hold no secrets.
	Params map[string]string `json:"params"`
	// DedupeWindowSeconds is how long a body-hash key lives; nil for DefaultDedupeWindow, 0 for no such keys.
	DedupeWindowSeconds *int64 `json:"dedupe_window_seconds"`
	// RedeliverOnDuplicate lets a provider's redelivery start the dead deliveries of its event again.
	RedeliverOnDuplicate bool `json:"redeliver_on_duplicate"`
	// MaxBodyBytes is the largest body taken.
	MaxBodyBytes  int64    `json:"max_body_bytes"`
	SameBodyNewID SameBody `json:"same_body_new_id"`
	// Scheme is SchemeNone where the connection takes deliveries that nothing proves, and else empty: the provider's
	// definition says how they are proved.
	Scheme string `json:"scheme,omitempty"`
	// URLBase is scheme, host and path prefix under which the provider calls, where that is not the service's public URL.
	// Only schemes that sign the URL look at it.
	URLBase string `json:"url_base,omitempty"`
	// SourceCIDRs are the networks that deliveries may come from; empty for all.
	SourceCIDRs []string `json:"source_cidrs,omitempty"`
	// RatePerSecond is how many verified deliveries a second all nodes together take; nil for no limit.
	RatePerSecond *int64 `json:"rate_limit_per_second,omitempty"`
}

// SchemeNone is the scheme by which nothing is proved.
const SchemeNone = "none"

// DedupeWindow is how long a body-hash key lives; 0 means that bodies are not compared.
func (w WebhookConfig) DedupeWindow() time.Duration {
	if w.DedupeWindowSeconds == nil {
		return DefaultDedupeWindow
	}
	return time.Duration(*w.DedupeWindowSeconds) * time.Second
}

// blankConnection is a connection before anybody has chosen anything.
func blankConnection() Connection {
	return Connection{
		Status:   Active,
		Tags:     map[string]string{},
		Metadata: map[string]any{},
		Webhook: WebhookConfig{
			Params:               map[string]string{},
			RedeliverOnDuplicate: true,
			MaxBodyBytes:         DefaultMaxBodyBytes,
			SameBodyNewID:        SameBodyAccept,
		},
	}
}
