package connectionshttp

import (
	"context"
	"encoding/json"
	"time"

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
	// The mode of the provider's definition that the credentials are for. `none`: the connection has no credentials and
	// only receives webhooks, unless the provider's API needs none.
	AuthMode string `json:"auth_mode" example:"none"`
	// The state of the connection:
	//
	// - `pending`: webhooks are accepted. No one has connected an account yet; 7 days after its last link the connection
	//   is deleted.
	// - `active`: webhooks are accepted, and the credentials can be used.
	// - `needs_reauth`: webhooks are accepted. The credentials may not or cannot be used until they are given again.
	// - `expired`: webhooks are accepted. The credentials have expired, and nothing renews them.
	// - `error`: webhooks are accepted. The access token has expired, and the provider gives no other one for now. It is
	//   requested again until it comes.
	// - `revoked`: webhooks are accepted. The credentials were revoked by request and are not stored any more.
	// - `disabled`: webhooks get 503, and the credentials are not used.
	Status connections.Status `json:"status"`
	// Why the connection is not active; `null` while it is active. It is a sentence for `disabled`, and a code for others:
	//
	// - `host_changed`: requests would go to a host for which the credentials were not given.
	// - `credentials_refused`: the provider has refused the credentials in two tests in a row.
	// - `grant_refused`: the provider refuses the refresh token, or the credentials that tokens are made from.
	// - `refresh_interrupted`: new tokens of the provider were lost on their way, and it refuses the former ones.
	// - `token_expired`: the token has expired, and the provider does not renew it.
	// - `client_refused`: the provider refuses the OAuth client of the provider configuration.
	// - `token_endpoint_failing`: the token endpoint cannot be reached, or its responses cannot be used.
	// - `misconfigured`: no request for a token can be made, or the provider never grants it.
	// - `client_changed`: the provider configuration has another OAuth client than the one that got the tokens.
	// - `revoked_by_request`: the credentials were revoked.
	// - `owner_removed`: the member to whom the connection belongs was removed from the team, and the credentials with
	//   them.
	//
	// Of `pending`, it is the `error` of the last attempt to connect:
	//
	// - `access_denied`: the person declined at the provider.
	// - `invalid_credentials`: the provider refuses the credentials.
	// - `account_mismatch`: the account is another than the one that the connection is for.
	// - `client_refused` and `misconfigured`: as above.
	// - `provider_unavailable`: the provider could not be reached, had a problem, or had too many requests.
	// - `provider_error`: any other error of the provider.
	// - `settings_changed`: the connection was changed while the person was at the provider.
	StatusReason *string `json:"status_reason"`
	// The member of the team whose connection it is, and whose requests alone use its credentials; `null` for a connection
	// of the environment.
	OwnerUserID *string `json:"owner_user_id" example:"usr_06f3k2m9q0x8v4t7b5n1"`
	// The values of the provider's `connection_config`, without secrets.
	ConnectionConfig map[string]string `json:"connection_config"`
	// The stored credentials, without their values; `null` if there are none.
	Credentials httpapi.OrNull[storedCredentials] `json:"credentials"`
	// The OAuth scopes; `null` without credentials.
	Scopes httpapi.OrNull[scopes] `json:"scopes"`
	// The account at the provider; `null` if no test has found it.
	Account httpapi.OrNull[account] `json:"account"`
	// The outcome of the last test of the credentials; `null` before the first.
	Health httpapi.OrNull[health] `json:"health"`
	// The connection's rate limit, as far as the provider has said; `null` if nothing is known.
	RateLimit httpapi.OrNull[rateLimit] `json:"rate_limit"`
	// Your labels.
	Tags map[string]string `json:"tags"`
	// A JSON object of your own.
	Metadata map[string]any `json:"metadata"`
	// The URL to register at the provider. It ends with the path token. `null` if the provider sends no webhooks that this
	// service can verify.
	WebhookURL *string `json:"webhook_url"`
	// Generated by `connect` and `reconnect`: the URL of the page on which a person connects their account. It is shown
	// once, or again to a request with the same `Idempotency-Key`; `null` in every other response. The page gives the
	// account to your environment, so send the URL only to the person whose account it is.
	ConnectURL *string `json:"connect_url" readOnly:"true" example:"https://gateway.example.com/connect/6vXo0c6nq1y1b3a2Q0m5Zr4Wc8Yt7Ud9Ke1Lf2Mg3Nh"`
	// When `connect_url` expires; `null` where that is.
	ConnectExpiresAt *httpapi.Time `json:"connect_expires_at" nullable:"true" example:"2026-12-24T18:00:00.000Z"`
	// The ways to connect, in the order of the provider's definition; `null` where `connect_url` is.
	ConnectModes []connectMode `json:"connect_modes" nullable:"true"`
	// Generated for a connection that works only after a person has connected the same account again (`needs_reauth`,
	// `expired` or `revoked`): the URL of a page on which they do that. `null` for others, for callers who may not write
	// connections, and where the provider configuration has no way to connect. It changes every 12 hours and can be used
	// for 12 to 24, or until the account is connected. The person who opens it needs no other right.
	ReconnectURL *string `json:"reconnect_url" readOnly:"true" example:"https://gateway.example.com/connect/6vXo0c6nq1y1b3a2Q0m5Zr4Wc8Yt7Ud9Ke1Lf2Mg3Nh.0198b2f4-6f0e-7c3a-9d52-6a1f0c7e8b34.env_06f3k2m9q0x8v4t7b5n1"`
	// When `reconnect_url` expires; `null` where that is.
	ReconnectExpiresAt *httpapi.Time `json:"reconnect_expires_at" nullable:"true" example:"2026-12-24T12:00:00.000Z"`
	// When the connection was created.
	CreatedAt httpapi.Time `json:"created_at"`
	// When the connection was last changed.
	UpdatedAt httpapi.Time `json:"updated_at"`
}

type connectMode struct {
	// The mode of the provider's definition.
	AuthMode string `json:"auth_mode" example:"oauth2"`
	// Its name for people.
	Title string `json:"title" example:"OAuth 2.0"`
	// Whether the page offers it. `false`: it needs an OAuth client, which the provider configuration does not have.
	Offered bool `json:"offered"`
}

type webhook struct {
	// The parameters of the provider's definition that the connection sets.
	Params map[string]string `json:"params"`
	// How long, in seconds, bodies are compared; 0 means never, and `null` the provider's default. `duplicates` shows the
	// effect.
	DedupeWindowSeconds *int64 `json:"dedupe_window_seconds"`
	// Which webhooks count as duplicates of earlier ones. A duplicate is stored and not forwarded.
	Duplicates duplicates `json:"duplicates"`
	// Whether the type of an event can be read. `false`: the parameters name no place of it, so that the type of every
	// event is `unknown`, and patterns such as `invoice.*` match none.
	EventTypeKnown bool `json:"event_type_known"`
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
	// Whether the verification needs a webhook secret: `false` where the provider signs with a key of its own, where
	// nothing is verified, and where `webhook_url` is `null`.
	SecretRequired bool `json:"secret_required"`
	// The last four characters of the webhook secret; `null` if there is no secret or it has fewer than 16 characters.
	SecretHint *string `json:"secret_hint"`
}

type duplicates struct {
	// It in words.
	Summary string `json:"summary"`
	// The places of the provider's id, in the order of their use: a webhook with the id of an earlier one is a duplicate.
	IDs []idSource `json:"ids"`
	// The places of signed values that the provider uses only once: a webhook with a known one is a duplicate.
	SingleUse []string `json:"single_use"`
	// How long, in seconds, a webhook without an id is a duplicate of an earlier one with the same body; 0 if it never is.
	SameBodySeconds int64 `json:"same_body_seconds"`
	// How long, in seconds, a webhook whose id is not signed is suspect if its body was received before under another id
	// or without one; 0 if it never is. So is a webhook without an id if the provider's definition names one that is not
	// signed, because a replay could leave it out. `same_body_new_id` says what happens to it.
	SuspectSeconds int64 `json:"suspect_seconds"`
}

type idSource struct {
	// The place of the id.
	Source string `json:"source" example:"header:x-github-delivery"`
	// Whether the signature covers the id.
	Signed bool `json:"signed"`
}

func viewDuplicates(d connections.Duplicates) duplicates {
	out := duplicates{Summary: d.Summary(), IDs: []idSource{}, SingleUse: append([]string{}, d.SingleUses...),
		SameBodySeconds: int64(d.BodyWindow / time.Second), SuspectSeconds: int64(d.SuspectWindow / time.Second)}
	for _, id := range d.IDs {
		out.IDs = append(out.IDs, idSource{id.Place, id.Signed})
	}
	return out
}

// view returns the wire form of a connection.
func (h *handlers) view(ctx context.Context, c connections.Connection) connection {
	received := h.svc.Duplicates(&c)
	reconnectURL, reconnectUntil := h.standing(ctx, &c)
	return connection{
		UUID:         c.UUID,
		ConnectionID: c.ConnectionID,
		WebhookAlias: c.Alias,
		Webhook: webhook{
			Params:               c.Webhook.Params,
			DedupeWindowSeconds:  c.Webhook.DedupeWindowSeconds,
			Duplicates:           viewDuplicates(received),
			EventTypeKnown:       !received.NoType,
			RedeliverOnDuplicate: c.Webhook.RedeliverOnDuplicate,
			MaxBodyBytes:         c.Webhook.MaxBodyBytes,
			SameBodyNewID:        c.Webhook.SameBodyNewID,
			Scheme:               scheme(c.Webhook.Scheme),
			URLBase:              httpapi.NullIfEmpty(c.Webhook.URLBase),
			SourceCIDRs:          append([]string{}, c.Webhook.SourceCIDRs...),
			RateLimitPerSecond:   c.Webhook.RatePerSecond,
			HasSecret:            c.HasSecret,
			SecretRequired:       received.NeedsSecret,
			SecretHint:           httpapi.NullIfEmpty(c.SecretHint),
		},
		ProviderConfigKey:  c.ProviderConfigKey,
		Provider:           c.Provider,
		EnvironmentID:      string(c.Environment),
		AuthMode:           c.AuthMode,
		OwnerUserID:        httpapi.NullIfEmpty(c.OwnerUserID),
		ConnectionConfig:   c.Config,
		Credentials:        viewCredentials(&c),
		Scopes:             viewScopes(c.Credentials),
		Account:            viewAccount(c.Account),
		Health:             viewHealth(c.Health),
		RateLimit:          viewRateLimit(c.RateLimit),
		Status:             c.Status,
		StatusReason:       httpapi.NullIfEmpty(c.StatusReason),
		Tags:               c.Tags,
		Metadata:           c.Metadata,
		WebhookURL:         h.webhookURL(&c),
		ReconnectURL:       reconnectURL,
		ReconnectExpiresAt: reconnectUntil,
		CreatedAt:          httpapi.Time(c.CreatedAt),
		UpdatedAt:          httpapi.Time(c.UpdatedAt),
	}
}

// scheme is a connection's own scheme: none, or null.
type scheme string

// MarshalJSON writes the name or null.
func (s scheme) MarshalJSON() ([]byte, error) { return json.Marshal(httpapi.NullIfEmpty(string(s))) }

// Schema returns the schema of the names and null.
func (scheme) Schema(oas.Registry) *oas.Schema { return oas.NullableEnum(connections.SchemeNone) }

// deletion is the response of the operations delete and revoke.
type deletion struct {
	// Whether the connection was deleted.
	Deleted bool `json:"deleted"`
	// Whether the provider has revoked the credentials, now or before.
	UpstreamRevoked bool `json:"upstream_revoked"`
	// Why the provider has not revoked them; `null` if it has.
	Reason *string `json:"reason"`
}
