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
	ID                string            `json:"id" doc:"The subscription's id." example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	ProviderConfigKey *string           `json:"provider_config_key" doc:"Only events of this provider configuration; null: of any."`
	ConnectionID      *string           `json:"connection_id" doc:"Only events of this connection; null: of any."`
	EventTypes        []string          `json:"event_types" doc:"The patterns, any of which an event's type must match." example:"[\"issues.*\"]"`
	ForwardURL        string            `json:"forward_url" doc:"Where matching events are posted. The values of its query are shown as *** to users with the role viewer." example:"https://example.com/hooks"`
	HasSigningSecret  bool              `json:"has_signing_secret" doc:"Whether tries are signed; always true."`
	SigningSecretHint string            `json:"signing_secret_hint" doc:"The last four characters of the signing secret; empty when it has fewer than 12 characters." example:"n9w="`
	RetiringSecrets   []retiringSecret  `json:"retiring_signing_secrets" doc:"The secrets that were replaced and still sign every try beside the new one, the last one first; at most 4."`
	Description       string            `json:"description" doc:"The caller's text for people."`
	Enabled           bool              `json:"enabled" doc:"false: deliveries are held until it is true again."`
	DisabledReason    *string           `json:"disabled_reason" doc:"Why the service disabled the subscription; null when it did not."`
	Filter            *string           `json:"filter" doc:"What events must fit beyond their type, as a CEL expression over event; null: nothing." example:"event.body.action == \"opened\""`
	PayloadMode       string            `json:"payload_mode" enum:"envelope,raw" doc:"envelope: a JSON object with the event's type, time, id, origin and data. raw: the provider's bytes and content type as they came."`
	RetrySchedule     []float64         `json:"retry_schedule_seconds" doc:"The seconds to wait before each further try; [] is one try."`
	TimeoutMs         int64             `json:"timeout_ms" doc:"The milliseconds within which one try must be complete."`
	Headers           map[string]string `json:"headers" doc:"The headers added to every try. Of each value only the last four characters are shown, or [redacted] when it has fewer than 12."`
	Metadata          map[string]any    `json:"metadata" doc:"The caller's own JSON object."`
	CreatedAt         httpapi.Time      `json:"created_at" doc:"When the subscription was created."`
	UpdatedAt         httpapi.Time      `json:"updated_at" doc:"When the subscription was last changed."`
}

type retiringSecret struct {
	Hint       string       `json:"hint" doc:"The last four characters of the secret; empty when it has fewer than 12 characters." example:"n9w="`
	SignsUntil httpapi.Time `json:"signs_until" doc:"When it signs no more."`
}

// SubscriptionCreated is the answer to a creation.
type SubscriptionCreated struct {
	Subscription
	SigningSecret string `json:"signing_secret,omitempty" readOnly:"true" doc:"Generated when the request brought no secret of its own, and shown this once; absent otherwise." example:"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"`
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
