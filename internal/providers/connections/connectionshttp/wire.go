package connectionshttp

import (
	"encoding/json"

	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/providers/connections"
)

// connection is the wire form of a connection.
type connection struct {
	// The UUID of the connection, unique in the whole service.
	UUID string `json:"uuid"`
	// The id of the connection within its provider configuration.
	ConnectionID string `json:"connection_id"`
	// A readable segment that can replace the path token in the webhook URL; `null` if the connection has none.
	WebhookAlias *string `json:"webhook_alias"`
	// How the connection receives webhooks.
	Webhook webhook `json:"webhook"`
	// The provider configuration that the connection belongs to.
	ProviderConfigKey string `json:"provider_config_key"`
	// The slug of the provider's definition.
	Provider string `json:"provider"`
	// The environment that the connection belongs to.
	EnvironmentID string `json:"environment_id"`
	// How calls to the provider are authorised. `none`: the connection only receives webhooks.
	AuthMode string `json:"auth_mode" enum:"none"`
	// `active`: webhooks are accepted. `disabled`: webhooks get 503.
	Status connections.Status `json:"status"`
	// Why the connection is not active; `null` while it is active.
	StatusReason *string `json:"status_reason"`
	// Your labels.
	Tags map[string]string `json:"tags"`
	// A JSON object of your own.
	Metadata map[string]any `json:"metadata"`
	// The URL to register at the provider. It ends with the path token.
	WebhookURL string `json:"webhook_url"`
	// When the connection was created.
	CreatedAt httpapi.Time `json:"created_at"`
	// When the connection was last changed.
	UpdatedAt httpapi.Time `json:"updated_at"`
}

type webhook struct {
	// The parameters of the provider's definition that the connection sets.
	Params map[string]string `json:"params"`
	// How long, in seconds, a webhook without its own id is recognised as a duplicate by its body. 0 means never. `null`
	// means the server's setting `webhook-dedupe-window` (3600 unless it is changed), or 0 if the provider can send equal
	// bodies for different events.
	DedupeWindowSeconds *int64 `json:"dedupe_window_seconds"`
	// Whether a webhook that the provider resends restarts the dead deliveries of its event.
	RedeliverOnDuplicate bool `json:"redeliver_on_duplicate"`
	// The maximum size of a body, in bytes.
	MaxBodyBytes int64 `json:"max_body_bytes"`
	// How to handle a webhook whose body was received before under another id, if the provider does not sign the id.
	SameBodyNewID connections.SameBody `json:"same_body_new_id"`
	// `none`: webhooks are accepted without verification. `null`: webhooks are verified as the provider's definition
	// describes.
	Scheme scheme `json:"scheme"`
	// The scheme, host and path prefix of the URL that the provider calls; `null` if it is the service's public URL.
	URLBase *string `json:"url_base"`
	// The networks that webhooks may come from; empty for all.
	SourceCIDRs []string `json:"source_cidrs"`
	// The maximum number of verified webhooks per second, over all nodes; `null` for no limit.
	RateLimitPerSecond *int64 `json:"rate_limit_per_second"`
	// Whether a webhook secret is stored. Without a secret, every webhook is rejected if its verification needs one.
	HasSecret bool `json:"has_secret"`
	// The last four characters of the webhook secret; `null` if there is no secret or it has fewer than 16 characters.
	SecretHint *string `json:"secret_hint"`
}

// viewConnection returns the wire form. webhookBase is the part of a webhook URL before the path token.
func viewConnection(c connections.Connection, webhookBase string) connection {
	return connection{
		UUID:         c.UUID,
		ConnectionID: c.ConnectionID,
		WebhookAlias: c.Alias,
		Webhook: webhook{
			Params:               c.Webhook.Params,
			DedupeWindowSeconds:  c.Webhook.DedupeWindowSeconds,
			RedeliverOnDuplicate: c.Webhook.RedeliverOnDuplicate,
			MaxBodyBytes:         c.Webhook.MaxBodyBytes,
			SameBodyNewID:        c.Webhook.SameBodyNewID,
			Scheme:               scheme(c.Webhook.Scheme),
			URLBase:              httpapi.NullIfEmpty(c.Webhook.URLBase),
			SourceCIDRs:          append([]string{}, c.Webhook.SourceCIDRs...),
			RateLimitPerSecond:   c.Webhook.RatePerSecond,
			HasSecret:            c.HasSecret,
			SecretHint:           httpapi.NullIfEmpty(c.SecretHint),
		},
		ProviderConfigKey: c.ProviderConfigKey,
		Provider:          c.Provider,
		EnvironmentID:     string(c.Environment),
		AuthMode:          "none",
		Status:            c.Status,
		StatusReason:      httpapi.NullIfEmpty(c.StatusReason),
		Tags:              c.Tags,
		Metadata:          c.Metadata,
		WebhookURL:        webhookBase + c.PathToken,
		CreatedAt:         httpapi.Time(c.CreatedAt),
		UpdatedAt:         httpapi.Time(c.UpdatedAt),
	}
}

// scheme is a connection's own scheme: none, or null.
type scheme string

// MarshalJSON writes the name or null.
func (s scheme) MarshalJSON() ([]byte, error) { return json.Marshal(httpapi.NullIfEmpty(string(s))) }

// Schema returns the schema of the names and null.
func (scheme) Schema(oas.Registry) *oas.Schema { return oas.NullableEnum(connections.SchemeNone) }

// deletion is the response of the delete operation.
type deletion struct {
	// Whether the connection was deleted.
	Deleted bool `json:"deleted"`
	// Whether the provider was asked to revoke the credentials.
	UpstreamRevoked bool `json:"upstream_revoked"`
	// Why the provider was not asked.
	Reason string `json:"reason"`
}
