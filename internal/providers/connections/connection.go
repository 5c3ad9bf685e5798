// Package connections owns the connections of each environment: links to accounts at providers, their webhook paths and
// secrets. It gives the inbound endpoint the connection of a path, ready to verify.
package connections

import (
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/verification"
)

// Collection is the name under which changes to connections raise the version that caches watch.
const Collection = "connections"

// Status is what a connection can be used for. Webhooks are accepted in any state of the credentials.
type Status string

// The statuses.
const (
	// Pending connections wait for a person to connect an account.
	Pending Status = "pending"
	// Active connections accept webhooks and, if they have credentials, requests to the provider.
	Active Status = "active"
	// NeedsReauth connections have credentials that may not or cannot be used until they are given again.
	NeedsReauth Status = "needs_reauth"
	// Expired connections have credentials with an end that nothing renews. They have to be given again.
	Expired Status = "expired"
	// Error connections have no valid access token, and get none for now: the token endpoint fails, or the provider
	// configuration is wrong. They become active by themselves.
	Error Status = "error"
	// Revoked connections had credentials that were revoked by request, and are not stored any more.
	Revoked Status = "revoked"
	// Disabled connections refuse webhooks and requests until they are enabled again.
	Disabled Status = "disabled"
)

// statuses returns every status.
func statuses() []Status {
	return []Status{Pending, Active, NeedsReauth, Expired, Error, Revoked, Disabled}
}

// The reasons of NeedsReauth, with tokens.ReasonGrantRefused and tokens.ReasonRefreshInterrupted.
const (
	// ReasonHostChanged: requests would go to a host for which the credentials were not given.
	ReasonHostChanged = "host_changed"
	// ReasonCredentialsRefused: the provider has refused the credentials in two tests in a row.
	ReasonCredentialsRefused = "credentials_refused"
	// ReasonClientChanged: the provider configuration has another OAuth client than the one that got the tokens.
	ReasonClientChanged = "client_changed"
	// ReasonRevoked is that of Revoked.
	ReasonRevoked = "revoked_by_request"
)

// NoAuth is the auth mode of a connection without credentials, which only receives webhooks, and of one to an API that
// needs none.
const NoAuth = "none"

// Schema returns the schema with the statuses, for the API.
func (Status) Schema(oas.Registry) *oas.Schema { return oas.Enum(statuses()) }

// SameBody selects what happens to a webhook whose body was received before under another id or without one, if the
// provider does not sign the id.
type SameBody string

// The choices.
const (
	// SameBodyAccept stores and forwards the webhook, marked as suspect.
	SameBodyAccept SameBody = "accept"
	// SameBodyRefuse stores the webhook, marked as suspect, and does not forward it.
	SameBodyRefuse SameBody = "refuse"
)

// sameBodies returns every choice.
func sameBodies() []SameBody { return []SameBody{SameBodyAccept, SameBodyRefuse} }

// Schema returns the schema with the choices, for the API.
func (SameBody) Schema(oas.Registry) *oas.Schema { return oas.Enum(sameBodies()) }

// Limits and defaults of a connection.
const (
	// MaxDedupeWindow is the longest window that a connection may set.
	MaxDedupeWindow = 30 * 24 * time.Hour
	// DefaultMaxBodyBytes and MaxBodyBytes bound a webhook's body.
	DefaultMaxBodyBytes int64 = 10 << 20
	MaxBodyBytes              = verification.MaxBodyBytes
	// AliasHold is how long a released alias stays reserved for its environment, because providers continue to post to
	// URLs long after they were replaced.
	AliasHold = 90 * 24 * time.Hour
	// MaxSecretBytes bounds a webhook secret.
	MaxSecretBytes = 4096
	// MaxSourceCIDRs bounds the networks that a connection may name, MaxRate the webhooks per second.
	MaxSourceCIDRs = 100
	MaxRate        = 10_000
	// MaxTags, MaxTagValue (in characters) and MaxMetadataBytes (as compact JSON) bound what callers attach.
	MaxTags          = 10
	MaxTagValue      = 255
	MaxMetadataBytes = 16 << 10
)

// Connection is one link to one account at a provider. The connections that Lookup returns are shared and read-only.
type Connection struct {
	// UUID names the connection in the whole service.
	UUID        string
	Environment id.Environment
	// Provider is the slug of the provider's definition.
	Provider string
	// ProviderConfigKey and ConnectionID name the connection inside its environment.
	ProviderConfigKey string
	ConnectionID      string
	// OwnerUserID is the member of the team whose connection it is; empty for one of the environment. It never changes.
	OwnerUserID string
	// PathToken is the last segment of the webhook URL: whk_ and 128 random bits.
	PathToken string
	// Alias is a readable segment that can replace the path token; nil if there is none.
	Alias  *string
	Status Status
	// StatusReason says why the status is not active; empty when it is. It is a sentence for Disabled, and a code for
	// others.
	StatusReason string
	// EnabledStatus and EnabledReason are the status and its reason while no user has disabled the connection.
	EnabledStatus Status
	EnabledReason string
	// AuthMode is the name of the entry of the definition's auth that the credentials are for; NoAuth without any.
	AuthMode string
	// Config has the values of the definition's connection_config that are no secrets.
	Config map[string]string
	// Account is what the provider calls the account; empty if no test has found it.
	Account outbound.Account
	// Credentials describes the stored credentials; nil without any.
	Credentials *credentials.Set
	// NextRefreshAt is when the access token is renewed; nil if it is not, or only when a request needs it.
	NextRefreshAt *time.Time
	// Health is the outcome of the last test; nil before the first.
	Health *Health
	// RateLimit is what the provider has said about its limit; nil if nothing is known.
	RateLimit *limiter.State
	Tags      map[string]string
	// Metadata is the caller's own JSON object. Its numbers are json.Number, so that they are returned as they were sent.
	Metadata map[string]any
	Webhook  WebhookConfig
	// HasSecret reports whether a webhook secret is stored. Without one every webhook is refused.
	HasSecret bool
	// SecretHint is the last four characters of the webhook secret; empty if the secret is too short to show any.
	SecretHint string
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Version identifies what the connection's changes have left. Every change makes UpdatedAt later.
func (c *Connection) Version() etag.Tag { return etag.Of(c.UUID, clock.Millis(c.UpdatedAt)) }

// WebhookConfig configures how a connection receives webhooks.
type WebhookConfig struct {
	// Params are the values of the provider definition's parameters that the connection sets. They hold no secrets.
	Params map[string]string `json:"params"`
	// DedupeWindowSeconds is how long bodies are compared, 0 for never; nil for BodyWindows' default.
	DedupeWindowSeconds *int64 `json:"dedupe_window_seconds"`
	// RedeliverOnDuplicate restarts the dead deliveries of an event when the provider resends it.
	RedeliverOnDuplicate bool `json:"redeliver_on_duplicate"`
	// MaxBodyBytes is the size of the largest body accepted.
	MaxBodyBytes  int64    `json:"max_body_bytes"`
	SameBodyNewID SameBody `json:"same_body_new_id"`
	// Scheme is SchemeNone if the connection accepts webhooks without verification. Empty means that the provider's
	// definition applies.
	Scheme string `json:"scheme,omitempty"`
	// URLBase is the scheme, host and path prefix that the provider calls, if it is not the service's public URL. Only
	// schemes that sign the URL use it.
	URLBase string `json:"url_base,omitempty"`
	// SourceCIDRs are the networks that webhooks may come from; empty for all.
	SourceCIDRs []string `json:"source_cidrs,omitempty"`
	// RatePerSecond is how many verified webhooks per second all nodes together accept; nil for no limit.
	RatePerSecond *int64 `json:"rate_limit_per_second,omitempty"`
}

// SchemeNone is the scheme that verifies nothing.
const SchemeNone = "none"

// blankConnection returns a connection with the defaults.
func blankConnection() Connection {
	return Connection{
		Status: Active, EnabledStatus: Active, AuthMode: NoAuth, Config: map[string]string{},
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
