package subscriptionshttp

import (
	"context"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/webhooks/subscriptions"
)

// Writable holds the fields that a creation and an update have in the same form, as subscriptions.Settings does. It is
// exported because fields of embedded types are found in exported ones only.
type Writable struct {
	// Forward only events from this provider configuration. Default `null`: any provider configuration.
	ProviderConfigKey patch.Field[string] `json:"provider_config_key,omitempty" minLength:"1" example:"github"`
	// Forward only events from connections with this id. Default `null`: any connection.
	ConnectionID patch.Field[string] `json:"connection_id,omitempty" minLength:"1" example:"acme-production"`
	// The secret that signs every attempt (Standard Webhooks): `whsec_` followed by the base64 of 24 to 64 bytes, or any
	// other text of 16 to 256 bytes, which is used as it is. A secret that you send is never returned. `null`, and none at
	// creation, generates one, which is returned only in the response to that request. A new secret signs from the next
	// attempt on. The secret that it replaces continues to sign alongside it; see `secret_grace_seconds`.
	SigningSecret patch.Field[secretbox.Secret] `json:"signing_secret,omitempty" writeOnly:"true" maxLength:"256"`
	// A description for people, at most 1000 characters. Default: empty.
	Description patch.Field[string] `json:"description,omitempty" maxLength:"1000"`
	// `false` disables the subscription: its deliveries are held until this is `true` again. Default `true`.
	Enabled patch.Optional[bool] `json:"enabled,omitempty"`
	// A condition on the event in addition to its type: a boolean CEL expression over `event`. Its fields are `type`,
	// `types`, `provider`, `provider_config_key`, `connection_id`, `received_at`, `headers` (by lower-case name),
	// `content_type`, `control` and `body` (the JSON of the body; absent if the body is not JSON). The expression is
	// checked and its cost is limited. An event does not match if the evaluation fails. Default `null`: no condition.
	Filter patch.Field[string] `json:"filter,omitempty" minLength:"1" maxLength:"4096" example:"event.body.action == \"opened\" && has(event.body.issue)"`
	// The body of forwarded requests:
	// - `envelope` (default): a JSON object with the event's type, time, id, origin, headers and data.
	// - `raw`: the provider's bytes, content type and headers as they were received, with the provider's signature.
	//
	// Neither includes headers about connections or proxies, credentials, or tokens that prove the sender.
	PayloadMode patch.Optional[subscriptions.PayloadMode] `json:"payload_mode,omitempty"`
	// The wait before each retry, in seconds: at most 50 numbers from 0.1 to 604800, fractions allowed. `[]` means a
	// single attempt. Default `[5, 30, 120, 600, 3600, 14400, 43200, 86400]`.
	RetrySchedule patch.Optional[[]float64] `json:"retry_schedule_seconds,omitempty" maxItems:"50"`
	// The time limit of an attempt in milliseconds, from name resolution to the last byte of the response. Default 15000.
	TimeoutMs patch.Optional[int64] `json:"timeout_ms,omitempty" minimum:"1000" maximum:"30000"`
	// A JSON object of your own, at most 16 KiB. Default `{}`. Updates merge members as RFC 7396 describes: a `null`
	// member is removed, and `null` removes all members.
	Metadata patch.Field[patch.Object] `json:"metadata,omitempty"`
}

// creation is the body that creates a subscription.
type creation struct {
	httpapi.RuleLimits
	// 1 to 100 patterns of event types, each of at most 256 characters. Dots separate segments. The segment `*` matches
	// exactly one segment, a last segment `*` matches one or more, and `*` alone matches every type. A pattern can also be
	// written as the provider writes its types: for Shopify's events `orders/create` and `orders.create` are one.
	EventTypes patch.Optional[[]string] `json:"event_types" minItems:"1" maxItems:"100" example:"[\"issues.*\"]"`
	// The URL that matching events are posted to. It must be an https URL with a public address, without user name and
	// password, and must not point to this gateway. The operator can allow http and private addresses.
	ForwardURL patch.Optional[string] `json:"forward_url" maxLength:"2048" example:"https://example.com/hooks"`
	Writable
	// Headers added to every attempt: at most 20, with values of at most 4096 visible ASCII characters. Only the last
	// four characters of each value are shown, or `[redacted]` if it has fewer than 12. Default `{}`. `Host`, `Content-*`,
	// `User-Agent`, hop-by-hop headers and headers that the service sets are rejected, also if another character replaces
	// a hyphen.
	Headers patch.Optional[map[string]string] `json:"headers,omitempty" writeOnly:"true" maxProperties:"20"`
}

// Patch is the body of PATCH.
type Patch struct {
	httpapi.RuleLimits
	// The patterns that replace the present ones. Events received earlier are not matched again.
	EventTypes patch.Optional[[]string] `json:"event_types,omitempty" minItems:"1" maxItems:"100"`
	// The URL that events are posted to from the next attempt on.
	ForwardURL patch.Optional[string] `json:"forward_url,omitempty" maxLength:"2048"`
	Writable
	// How long, in seconds, a replaced secret continues to sign alongside the new `signing_secret`. During this time
	// `webhook-signature` contains a signature of each, the new one first. 0 ends the signatures of all replaced secrets
	// immediately, also without a new secret. Default 86400.
	SecretGrace patch.Optional[int64] `json:"secret_grace_seconds,omitempty" minimum:"0" maximum:"604800"`
	// Headers added to every attempt from now on. They merge by name, case-insensitively: a `null` member is removed, and
	// `null` removes all headers.
	Headers patch.Field[map[string]*string] `json:"headers,omitempty" writeOnly:"true" maxProperties:"20"`
}

// CheckRefused adds the errors that the service would find.
func (b *creation) CheckRefused(_ context.Context, v *apperr.Violations) {
	ch := b.change()
	ch.CheckNew(v)
}

// CheckRefused adds the errors that the service would find.
func (b *Patch) CheckRefused(_ context.Context, v *apperr.Violations) {
	ch := b.change()
	ch.Check(v)
}

func (b *creation) change() subscriptions.Change {
	ch := subscriptions.Change{EventTypes: b.EventTypes, ForwardURL: b.ForwardURL,
		Settings: subscriptions.Settings(b.Writable)}
	if b.Headers.Set {
		ch.Headers = patch.To(make(map[string]*string, len(b.Headers.Value)))
		for name, value := range b.Headers.Value {
			ch.Headers.Value[name] = &value
		}
	}
	return ch
}

func (b *Patch) change() subscriptions.Change {
	return subscriptions.Change{EventTypes: b.EventTypes, ForwardURL: b.ForwardURL, SecretGraceSeconds: b.SecretGrace,
		Headers: b.Headers, Settings: subscriptions.Settings(b.Writable)}
}
