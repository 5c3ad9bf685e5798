package subscriptionshttp

import (
	"math"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/subscriptions"
)

// masked replaces a query value that the reader may not see.
const masked = "***"

// Subscription is the wire form of a subscription. It is exported because only exported embedded structs are
// documented.
type Subscription struct {
	// The subscription's id.
	ID string `json:"id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The only provider configuration whose events are forwarded; `null` for any.
	ProviderConfigKey *string `json:"provider_config_key"`
	// The only connection whose events are forwarded; `null` for any.
	ConnectionID *string `json:"connection_id"`
	// The patterns of event types. An event matches if its type matches any of them.
	EventTypes []string `json:"event_types" example:"[\"issues.*\"]"`
	// The URL that matching events are posted to. Users without the permission `webhook_subscriptions:write` see the
	// values of its query as `***`.
	ForwardURL string `json:"forward_url" example:"https://example.com/hooks"`
	// Whether attempts are signed; always `true`.
	HasSigningSecret bool `json:"has_signing_secret"`
	// The last four characters of the signing secret; empty if it has fewer than 12 characters.
	SigningSecretHint string `json:"signing_secret_hint" example:"n9w="`
	// The replaced secrets that still sign every attempt alongside the present one, the latest first; at most 4.
	RetiringSecrets []retiringSecret `json:"retiring_signing_secrets"`
	// A description for people.
	Description string `json:"description"`
	// Whether the subscription is enabled. Deliveries of a disabled subscription are held until it is enabled again.
	Enabled bool `json:"enabled"`
	// Why the service disabled the subscription; `null` if it did not.
	DisabledReason *string `json:"disabled_reason"`
	// How deliveries to the receiver go.
	Health health `json:"health"`
	// A CEL expression over `event` as a condition in addition to the event types; `null` for none.
	Filter *string `json:"filter" example:"event.body.action == \"opened\""`
	// The body of forwarded requests:
	// - `envelope`: a JSON object with the event's type, time, id, origin, headers and data.
	// - `raw`: the provider's bytes, content type and headers as they were received, with the provider's signature.
	//
	// Neither includes headers about connections or proxies, credentials, or tokens that prove the sender.
	PayloadMode subscriptions.PayloadMode `json:"payload_mode"`
	// The wait before each retry, in seconds. `[]` means a single attempt.
	RetrySchedule []float64 `json:"retry_schedule_seconds"`
	// The time limit of an attempt, in milliseconds.
	TimeoutMs int64 `json:"timeout_ms"`
	// The headers added to every attempt. Only the last four characters of each value are shown, or `[redacted]` if it has
	// fewer than 12.
	Headers map[string]string `json:"headers"`
	// A JSON object of your own.
	Metadata map[string]any `json:"metadata"`
	// When the subscription was created.
	CreatedAt httpapi.Time `json:"created_at"`
	// When the subscription was last changed.
	UpdatedAt httpapi.Time `json:"updated_at"`
}

type health struct {
	// Whether the receiver takes deliveries:
	// - `healthy`: deliveries are sent as they come.
	// - `failing`: of at least 10 attempts within 5 minutes, 70 % or more failed. Deliveries are held, and every 30
	//   seconds at most one of them is sent as a probe. When a probe succeeds, the others are released.
	State subscriptions.HealthState `json:"state"`
	// Since when the receiver is `failing`; `null` otherwise.
	FailingSince *httpapi.Time `json:"failing_since" nullable:"true"`
	// The earliest time of the next probe; `null` unless the receiver is `failing`.
	NextProbeAt *httpapi.Time `json:"next_probe_at" nullable:"true"`
	// How many attempts have failed since the last one that succeeded, within the last five days. Attempts that were
	// refused before anything was sent do not count. The number is up to a second late. Failures within the minute of the
	// last success can be missing if another node made these attempts, or if the node has restarted since.
	ConsecutiveFailures int64 `json:"consecutive_failures" example:"0"`
	// The part of the attempts of the last hour that succeeded, between 0 and 1, with four decimals; `null` if there were
	// none.
	SuccessRate *float64 `json:"success_rate_1h" nullable:"true" example:"0.9984"`
	// The 95th percentile of the duration of the attempts of the last hour in milliseconds, accurate to 10%; `null` if
	// there were none.
	P95 *float64 `json:"p95_ms" nullable:"true" example:"127.9"`
}

func viewHealth(h subscriptions.Health) health {
	out := health{State: h.State(), ConsecutiveFailures: h.ConsecutiveFailures}
	if h.FailingSince != nil {
		probe := httpapi.Time(h.NextProbe)
		out.FailingSince, out.NextProbeAt = (*httpapi.Time)(h.FailingSince), &probe
	}
	if h.SuccessRate != nil { // rounded down, so that 1 means that all succeeded
		out.SuccessRate = new(math.Floor(*h.SuccessRate*10_000) / 10_000)
	}
	if h.P95 != nil {
		out.P95 = new(httpapi.Milliseconds(*h.P95))
	}
	return out
}

type retiringSecret struct {
	// The last four characters of the secret; empty if it has fewer than 12 characters.
	Hint string `json:"hint" example:"n9w="`
	// When the secret stops signing.
	SignsUntil httpapi.Time `json:"signs_until"`
}

// SubscriptionChanged is a subscription that was changed.
type SubscriptionChanged struct {
	Subscription
	// Parts of the subscription that are valid and probably not what was meant: patterns that no type fits which its
	// providers are known to send, and `raw` for a provider whose signature a receiver cannot verify in every attempt. The
	// providers of a subscription without `provider_config_key` and `connection_id` are those with connections in the
	// environment.
	Warnings []httpapi.Warning `json:"warnings"`
}

// SubscriptionSecretCreated is the response to an update.
type SubscriptionSecretCreated struct {
	SubscriptionChanged
	// Generated if the request set `signing_secret` to `null`, and shown only in this response; otherwise absent.
	SigningSecret string `json:"signing_secret,omitempty" readOnly:"true" example:"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"`
}

// SubscriptionCreated is the response to a creation.
type SubscriptionCreated struct {
	SubscriptionChanged
	// Generated if the request contained no secret, and shown only in this response; otherwise absent.
	SigningSecret string `json:"signing_secret,omitempty" readOnly:"true" example:"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"`
}

// viewWarnings returns the wire form of warnings.
func viewWarnings(list []subscriptions.Warning) []httpapi.Warning {
	out := make([]httpapi.Warning, len(list))
	for i, w := range list {
		out[i] = httpapi.Warning(w)
	}
	return out
}

// viewSubscription returns the wire form that the reader may see.
func viewSubscription(sub subscriptions.Subscription, reader access.Principal) Subscription {
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
		ProviderConfigKey: httpapi.NullIfEmpty(sub.ProviderConfigKey),
		ConnectionID:      httpapi.NullIfEmpty(sub.ConnectionID),
		EventTypes:        sub.EventTypes,
		ForwardURL:        url,
		HasSigningSecret:  true,
		SigningSecretHint: sub.SecretHint,
		RetiringSecrets:   retiring,
		Description:       sub.Description,
		Enabled:           sub.Enabled,
		DisabledReason:    httpapi.NullIfEmpty(sub.DisabledReason),
		Health:            viewHealth(sub.Health),
		Filter:            httpapi.NullIfEmpty(sub.Filter),
		PayloadMode:       sub.PayloadMode,
		RetrySchedule:     sub.RetrySchedule,
		TimeoutMs:         sub.Timeout.Milliseconds(),
		Headers:           headers,
		Metadata:          sub.Metadata,
		CreatedAt:         httpapi.Time(sub.CreatedAt),
		UpdatedAt:         httpapi.Time(sub.UpdatedAt),
	}
}

// maskQuery masks the values of the URL's query. A part without a name is a value.
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
