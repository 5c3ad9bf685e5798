// Package subscriptions owns the subscriptions, which send events to URLs: their rules, their sealed secrets, and the
// index that finds the subscriptions of an event.
package subscriptions

import (
	"net/url"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
)

// collection is the name under which changes of subscriptions raise the version that caches watch.
const collection = "webhook_subscriptions"

// OwnProvider is the provider configuration of events that come from no provider and no connection: published events
// and the gateway's own. A subscription can be restricted to it.
const OwnProvider = "sallyport"

// PayloadMode says what the body of a forwarded request is.
type PayloadMode string

// The payload modes.
const (
	// Envelope wraps the provider's body in a JSON object with the event's type, time, id and origin.
	Envelope PayloadMode = "envelope"
	// Raw forwards the provider's bytes and content type unchanged.
	Raw PayloadMode = "raw"
)

// payloadModes returns every payload mode.
func payloadModes() []PayloadMode { return []PayloadMode{Envelope, Raw} }

// Schema returns the schema with the payload modes, for the API.
func (PayloadMode) Schema(oas.Registry) *oas.Schema { return oas.Enum(payloadModes()) }

// Limits and defaults of a subscription.
const (
	MaxPatterns     = 100
	MaxURLLength    = 2048 // in bytes
	MaxDescription  = 1000 // in characters
	MaxHeaders      = 20
	MaxHeaderName   = 128  // in bytes
	MaxHeaderValue  = 4096 // in bytes
	MaxMetadata     = 16 << 10
	MinSecret       = 16 // in bytes
	MaxSecret       = 256
	MinSecretKey    = 24 // in bytes, decoded from a secret with SecretPrefix
	MaxSecretKey    = 64
	MaxRetries      = 50
	MinRetryDelay   = 0.1 // in seconds
	MaxRetryDelay   = 604_800.0
	MinTimeout      = time.Second
	MaxTimeout      = 30 * time.Second
	DefaultTimeout  = 15 * time.Second
	SecretPrefix    = "whsec_"
	generatedSecret = 32 // in bytes
	// MaxRetiring is the maximum number of replaced secrets that sign alongside the present one. A further one replaces
	// the oldest.
	MaxRetiring        = 4
	DefaultSecretGrace = 24 * time.Hour
	MaxSecretGrace     = 7 * 24 * time.Hour
)

// defaultRetrySchedule returns the seconds before each retry of a delivery whose subscription sets none: 5 s, 30 s, 2
// min, 10 min, 1 h, 4 h, 12 h and 24 h.
func defaultRetrySchedule() []float64 { return []float64{5, 30, 120, 600, 3600, 14400, 43200, 86400} }

// Header is a header that is added to every forwarded request.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Subscription is a subscription as its readers may see it. It contains no signing secret.
type Subscription struct {
	ID          string
	Environment id.Environment
	// ProviderConfigKey and ConnectionID restrict the events; empty values do not.
	ProviderConfigKey string
	ConnectionID      string
	EventTypes        []string
	ForwardURL        string
	// SecretHint is the last four characters of the signing secret.
	SecretHint string
	// Retiring holds the replaced secrets that still sign alongside the present one, the latest first.
	Retiring    []RetiringSecret
	Description string
	Enabled     bool
	// DisabledReason says why the service disabled the subscription; empty if it did not.
	DisabledReason string
	PayloadMode    PayloadMode
	// Filter is a condition on events in addition to their type, in the language of internal/webhooks/filters; empty for
	// none.
	Filter string
	// RetrySchedule holds the seconds to wait before each retry. Empty means a single attempt.
	RetrySchedule []float64
	// Timeout limits a whole attempt.
	Timeout time.Duration
	// Headers are sorted by name. Their values are secret: responses show a Hint of each.
	Headers []Header
	// Metadata is the caller's own JSON object. Its numbers are json.Number, so that they are returned as they were sent.
	Metadata  map[string]any
	CreatedAt time.Time
	UpdatedAt time.Time
	// Health is how its deliveries go. Only reading sets it.
	Health Health
}

// Version identifies what the subscription's changes have left. Every change makes UpdatedAt later; health and the ends
// of replaced secrets are no changes.
func (sub *Subscription) Version() etag.Tag { return etag.Of(sub.ID, clock.Millis(sub.UpdatedAt)) }

// HealthState says how the deliveries of a subscription go.
type HealthState string

// The states of health.
const (
	// Healthy: deliveries are sent as they come.
	Healthy HealthState = "healthy"
	// Failing: the breaker is open. Most attempts have failed, so deliveries are held and one at a time probes the
	// receiver.
	Failing HealthState = "failing"
)

// healthStates returns every state.
func healthStates() []HealthState { return []HealthState{Healthy, Failing} }

// Schema returns the schema with the states, for the API.
func (HealthState) Schema(oas.Registry) *oas.Schema { return oas.Enum(healthStates()) }

// Health is how the deliveries of a subscription go.
type Health struct {
	// FailingSince is when the breaker opened; nil while it is closed.
	FailingSince *time.Time
	// NextProbe is the earliest time of the next probe while the breaker is open.
	NextProbe time.Time
	// ConsecutiveFailures counts the attempts that have failed since the last one that succeeded, within five days.
	ConsecutiveFailures int64
	// SuccessRate is the part of the attempts of the last hour that succeeded, between 0 and 1; nil if there were none.
	SuccessRate *float64
	// P95 is the 95th percentile of how long the attempts of the last hour took; nil if there were none.
	P95 *time.Duration
}

// State returns the state.
func (h Health) State() HealthState {
	if h.FailingSince == nil {
		return Healthy
	}
	return Failing
}

// RetiringSecret holds the visible fields of a replaced signing secret that still signs.
type RetiringSecret struct {
	// Hint holds the last four characters, as Subscription.SecretHint does.
	Hint string
	// Until is when it stops signing.
	Until time.Time
}

// RetiringKey is the key of a signing secret that was replaced.
type RetiringKey struct {
	// Key is the key of the HMAC, decoded.
	Key []byte
	// Until is when it stops signing.
	Until time.Time
}

// Target holds the parts of a subscription that an attempt needs. It is an immutable, shared snapshot: do not modify
// it.
type Target struct {
	ID          string
	Environment id.Environment
	// URL is for egress.Request. It is nil if the present policy refuses the address; Refused says why.
	URL     *url.URL
	Refused *egress.TargetError
	// RawURL is the URL as it is stored. Its query can contain secrets.
	RawURL string
	// SigningKey is the key of the HMAC, decoded.
	SigningKey []byte
	// Retiring holds the replaced keys, the latest first. Some may have stopped signing.
	Retiring    []RetiringKey
	Headers     []Header
	PayloadMode PayloadMode
	// TypeOf returns the type under which the subscription gets an event of a provider with these types: the first of them
	// that a pattern matches. If none does, because the patterns have changed since or because the event is sent
	// regardless of them, it is the first.
	TypeOf func(provider string, types []string) string
	// Timeout limits a whole attempt.
	Timeout time.Duration
	// Schedule holds the waits before each retry. Empty means a single attempt.
	Schedule []time.Duration
	// Enabled is false for a disabled subscription, whose deliveries are held.
	Enabled bool
	// Deleted is true for a deleted subscription, whose deliveries are cancelled.
	Deleted bool
}
