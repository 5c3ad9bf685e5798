// Package subscriptions owns the subscriptions, which send events to URLs: their rules, their sealed secrets, and the
// index that finds the subscriptions of an event.
package subscriptions

import (
	"net/url"
	"time"

	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
)

// Collection is the name under which changes to subscriptions raise the version that caches watch.
const Collection = "webhook_subscriptions"

// OwnProvider is the provider configuration of events that come from no provider and no connection: those that are
// published over the API, and the gateway's own. A subscription can be narrowed to it.
const OwnProvider = "sallyport"

// PayloadMode says what the body of a forwarded request is. The set is closed: PayloadModes lists it.
type PayloadMode string

// The payload modes.
const (
	// Envelope wraps the provider's body into a JSON object with the event's type, time, id and origin.
	Envelope PayloadMode = "envelope"
	// Raw forwards the provider's bytes and content type as they came.
	Raw PayloadMode = "raw"
)

// PayloadModes returns every payload mode.
func PayloadModes() []PayloadMode { return []PayloadMode{Envelope, Raw} }

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
	// MaxRetiring is how many replaced secrets sign beside the present one at most: the oldest gives way.
	MaxRetiring        = 4
	DefaultSecretGrace = 24 * time.Hour
	MaxSecretGrace     = 7 * 24 * time.Hour
)

// DefaultRetrySchedule returns the seconds between the tries of a delivery where a subscription sets none: 5 s, 30 s,
// 2 min, 10 min, 1 h, 4 h, 12 h and 24 h.
func DefaultRetrySchedule() []float64 { return []float64{5, 30, 120, 600, 3600, 14400, 43200, 86400} }

// Header is a header that is added to every forwarded request.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Subscription is one subscription as its readers may see it. It holds no signing secret.
type Subscription struct {
	ID          string
	Environment id.Environment
	// ProviderConfigKey and ConnectionID narrow the events; empty stands for all.
	ProviderConfigKey string
	ConnectionID      string
	EventTypes        []string
	ForwardURL        string
	// SecretHint is the last four characters of the signing secret.
	SecretHint string
	// Retiring are the secrets that were replaced and still sign beside it, the last one first.
	Retiring    []RetiringSecret
	Description string
	Enabled     bool
	// DisabledReason says why the service disabled the subscription; empty when a person did, or nobody.
	DisabledReason string
	PayloadMode    PayloadMode
	// Filter is what the subscription asks of events beyond their type, in the language of internal/webhooks/filters;
	// empty asks for nothing.
	Filter string
	// RetrySchedule holds the seconds to wait before each further try; empty means one try.
	RetrySchedule []float64
	// Timeout bounds one whole try.
	Timeout time.Duration
	// Headers are sorted by name. Their values are secret: an answer shows a Hint of each.
	Headers []Header
	// Metadata is the caller's own JSON object; numbers are json.Number, so that they come back as they were sent.
	Metadata  map[string]any
	CreatedAt time.Time
	UpdatedAt time.Time
}

// RetiringSecret is what may be shown of a signing secret that was replaced and still signs.
type RetiringSecret struct {
	// Hint is the last four characters, as Subscription.SecretHint.
	Hint string
	// Until is when it signs no more.
	Until time.Time
}

// RetiringKey is the key of a signing secret that was replaced.
type RetiringKey struct {
	// Key is the key of the HMAC, decoded.
	Key []byte
	// Until is when it signs no more.
	Until time.Time
}

// Target is everything that a try needs to know of a subscription. It is an immutable snapshot and shared: read it
// only.
type Target struct {
	ID          string
	Environment id.Environment
	// URL is for egress.Request. It is nil when the policy that holds now refuses the address; Refused says why.
	URL     *url.URL
	Refused *egress.TargetError
	// RawURL is the URL as the subscription has it. Its query may hold secrets.
	RawURL string
	// SigningKey is the key of the HMAC, decoded.
	SigningKey []byte
	// Retiring are the keys that sign beside it until their time is over, the last one first. Some may be over.
	Retiring    []RetiringKey
	Headers     []Header
	PayloadMode PayloadMode
	// Timeout bounds one whole try.
	Timeout time.Duration
	// Schedule holds the waits before each further try; empty means one try.
	Schedule []time.Duration
	// Enabled is false for a paused subscription, whose deliveries are held.
	Enabled bool
	// Deleted is true for a subscription that no longer exists to anybody else: its deliveries are cancelled.
	Deleted bool
}
