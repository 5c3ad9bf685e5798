package subscriptionshttp

import (
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/subscriptions"
)

// masked stands for a query value that the reader may not see.
const masked = "***"

// Subscription is a subscription on the wire. It is exported because Huma looks only into exported embedded types.
type Subscription struct {
	// The subscription's id.
	ID string `json:"id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Only events of this provider configuration; null: of any.
	ProviderConfigKey *string `json:"provider_config_key"`
	// Only events of this connection; null: of any.
	ConnectionID *string `json:"connection_id"`
	// The patterns, any of which an event's type must match.
	EventTypes []string `json:"event_types" example:"[\"issues.*\"]"`
	// Where matching events are posted. The values of its query are shown as *** to users with the role viewer.
	ForwardURL string `json:"forward_url" example:"https://example.com/hooks"`
	// Whether tries are signed; always true.
	HasSigningSecret bool `json:"has_signing_secret"`
	// The last four characters of the signing secret; empty when it has fewer than 12 characters.
	SigningSecretHint string `json:"signing_secret_hint" example:"n9w="`
	// The secrets that were replaced and still sign every try beside the new one, the last one first; at most 4.
	RetiringSecrets []retiringSecret `json:"retiring_signing_secrets"`
	// The caller's text for people.
	Description string `json:"description"`
	// false: deliveries are held until it is true again.
	Enabled bool `json:"enabled"`
	// Why the service disabled the subscription; null when it did not.
	DisabledReason *string `json:"disabled_reason"`
	// What events must fit beyond their type, as a CEL expression over event; null: nothing.
	Filter *string `json:"filter" example:"event.body.action == \"opened\""`
	// envelope: a JSON object with the event's type, time, id, origin and data. raw: the provider's bytes and content type
	// as they came.
	PayloadMode string `json:"payload_mode" enum:"envelope,raw"`
	// The seconds to wait before each further try; [] is one try.
	RetrySchedule []float64 `json:"retry_schedule_seconds"`
	// The milliseconds within which one try must be complete.
	TimeoutMs int64 `json:"timeout_ms"`
	// The headers added to every try. Of each value only the last four characters are shown, or [redacted] when it has
	// fewer than 12.
	Headers map[string]string `json:"headers"`
	// The caller's own JSON object.
	Metadata map[string]any `json:"metadata"`
	// When the subscription was created.
	CreatedAt httpapi.Time `json:"created_at"`
	// When the subscription was last changed.
	UpdatedAt httpapi.Time `json:"updated_at"`
}

type retiringSecret struct {
	// The last four characters of the secret; empty when it has fewer than 12 characters.
	Hint string `json:"hint" example:"n9w="`
	// When it signs no more.
	SignsUntil httpapi.Time `json:"signs_until"`
}

// SubscriptionCreated is the answer to a creation.
type SubscriptionCreated struct {
	Subscription
	// Generated when the request brought no secret of its own, and shown this once; absent otherwise.
	SigningSecret string `json:"signing_secret,omitempty" readOnly:"true" example:"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"`
}

// view returns the wire form as the reader may see it.
func view(sub subscriptions.Subscription, reader access.Principal) Subscription {
	headers := make(map[string]string, len(sub.Headers))
	for _, h := range sub.Headers {
		headers[h.Name] = h.Hint()
	}
	url := sub.ForwardURL
	if reader.Kind == access.KindUser && !reader.Has(access.SubscriptionsWrite) {
		url = maskQuery(url)
	}
	retiring := make([]retiringSecret, len(sub.Retiring))
	for i, old := range sub.Retiring {
		retiring[i] = retiringSecret{old.Hint, httpapi.Time(old.Until)}
	}
	return Subscription{
		ID:                sub.ID,
		ProviderConfigKey: orNull(sub.ProviderConfigKey),
		ConnectionID:      orNull(sub.ConnectionID),
		EventTypes:        sub.EventTypes,
		ForwardURL:        url,
		HasSigningSecret:  true,
		SigningSecretHint: sub.SecretHint,
		RetiringSecrets:   retiring,
		Description:       sub.Description,
		Enabled:           sub.Enabled,
		DisabledReason:    orNull(sub.DisabledReason),
		Filter:            orNull(sub.Filter),
		PayloadMode:       string(sub.PayloadMode),
		RetrySchedule:     sub.RetrySchedule,
		TimeoutMs:         sub.Timeout.Milliseconds(),
		Headers:           headers,
		Metadata:          sub.Metadata,
		CreatedAt:         httpapi.Time(sub.CreatedAt),
		UpdatedAt:         httpapi.Time(sub.UpdatedAt),
	}
}

// maskQuery hides the values of the URL's query. A part without a name is a value.
func maskQuery(url string) string {
	base, query, ok := strings.Cut(url, "?")
	if !ok || query == "" {
		return url
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, named := strings.Cut(part, "=")
		if !named {
			parts[i] = masked
			continue
		}
		parts[i] = name + "=" + masked
	}
	return base + "?" + strings.Join(parts, "&")
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
