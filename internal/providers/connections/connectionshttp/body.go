package connectionshttp

import (
	"context"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connections"
)

// Change holds the writable fields of a connection. It is exported because only exported embedded structs are
// documented.
type Change struct {
	// The secret with which the provider signs its webhooks, as the provider's settings show it, at most 4096 bytes. It
	// replaces every stored secret. `null` deletes them; then every webhook whose verification needs a secret is rejected.
	// Use `webhook-secrets` to rotate without a gap. It is never returned.
	WebhookSecret patch.Field[secretbox.Secret] `json:"webhook_secret,omitempty" writeOnly:"true" minLength:"1" maxLength:"4096"`
	// How the connection receives webhooks.
	Webhook patch.Optional[WebhookChange] `json:"webhook,omitempty"`
	// The mode of the provider's definition that `credentials` are for. Default: the first mode that they fit.
	AuthMode patch.Optional[string] `json:"auth_mode,omitempty" maxLength:"63" example:"bearer"`
	// The credentials for requests to the provider, by the names that `sallyport providers show` lists. They replace all
	// that are stored, and are tested first: if the provider refuses them, nothing is stored. `null` removes them. They
	// are never returned. An OAuth token that was made elsewhere, an `access_token`, is renewed if its `refresh_token` is
	// given too and the provider configuration has the OAuth client that got them; with `expires_at`, before it expires.
	// One that has expired already is not tested and is renewed within seconds. Without a `refresh_token` it is used
	// until it expires.
	Credentials patch.Field[CredentialsInput] `json:"credentials,omitempty" writeOnly:"true"`
	// The values that the provider's definition needs from each connection, such as a subdomain. Members merge by name: a
	// `null` member resets to its default. If requests would go to another host than before, the credentials have to be
	// given again.
	ConnectionConfig patch.Field[map[string]*string] `json:"connection_config,omitempty"`
	// Whether credentials are tested before they are stored. Default `true`. An environment that has too many credentials
	// tested at one provider gets 429; credentials that are stored without a test do not count.
	Test patch.Optional[bool] `json:"test,omitempty"`
	// Labels: at most 10. Keys have 1 to 63 characters of `a-z`, `0-9`, `_`, `.` and `-`; values have at most 255
	// characters. Members merge by key: a `null` member is removed, and `null` removes all labels.
	Tags patch.Field[map[string]*string] `json:"tags,omitempty" maxProperties:"10"`
	// A JSON object of your own, at most 16 KiB. Members merge as RFC 7396 describes: a `null` member is removed, and
	// `null` removes all members.
	Metadata patch.Field[patch.Object] `json:"metadata,omitempty"`
}

// WebhookChange holds the writable fields of how a connection receives webhooks.
type WebhookChange struct {
	// A readable segment for the webhook URL, unique in the whole service. `null` means no alias. On creation the default
	// is the `connection_id` if no connection has that alias. A released alias stays reserved for its environment for 90
	// days.
	Alias patch.Field[string] `json:"alias,omitempty" maxLength:"255" pattern:"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,254}$"`
	// Parameters of the provider's definition. They are returned, so do not put secrets here. Members merge by name: a
	// `null` member resets to its default, and `null` resets all parameters.
	Params patch.Field[map[string]*string] `json:"params,omitempty"`
	// How long, in seconds, bodies are compared: 0 (never) to 2592000. Within this time a webhook without an id is a
	// duplicate of one with the same body, and is not forwarded; one with an id that is not signed is only suspect. The
	// default `null` makes no duplicates by bodies unless the provider's definition says that its bodies are unique; then,
	// and for suspects, the time is the server's setting `webhook-dedupe-window` (3600 unless it is changed). `duplicates`
	// in the response shows the effect.
	DedupeWindowSeconds patch.Field[int64] `json:"dedupe_window_seconds,omitempty" minimum:"0" maximum:"2592000"`
	// Whether a webhook that the provider resends restarts the dead deliveries of its event. Default `true`.
	RedeliverOnDuplicate patch.Optional[bool] `json:"redeliver_on_duplicate,omitempty"`
	// The maximum size of a body, in bytes: 1 to 26214400. Default 10485760. Larger webhooks are rejected with 413.
	MaxBodyBytes patch.Optional[int64] `json:"max_body_bytes,omitempty" minimum:"1" maximum:"26214400"`
	// How to handle a webhook whose body was received before under another id, if the provider does not sign the id; one
	// without the id counts as one with another. `accept` (default) marks the event as suspect and forwards it. `refuse`
	// marks the event as suspect and does not forward it.
	SameBodyNewID patch.Optional[connections.SameBody] `json:"same_body_new_id,omitempty"`
	// `none` accepts webhooks without verification. A provider whose webhooks cannot be verified requires it; other
	// providers reject it. Such a connection has no alias. The default `null` verifies webhooks as the provider's
	// definition describes.
	Scheme patch.Field[scheme] `json:"scheme,omitempty"`
	// The scheme, host and path prefix of the URL that the provider calls, without a trailing slash, if it differs from
	// the service's public URL. It matters only for providers that sign the URL. The default `null` means the public URL.
	URLBase patch.Field[string] `json:"url_base,omitempty" maxLength:"4096" format:"uri" example:"https://hooks.example.com"`
	// The networks that webhooks may come from, such as `192.0.2.0/24`; at most 100. Webhooks from other networks are
	// rejected. The default, `null` or an empty list, allows all networks.
	SourceCIDRs patch.Field[[]string] `json:"source_cidrs,omitempty" maxItems:"100"`
	// The maximum number of verified webhooks per second, over all nodes: 1 to 10000. Further webhooks get 429 with
	// `Retry-After`. The default `null` means no limit.
	RateLimitPerSecond patch.Field[int64] `json:"rate_limit_per_second,omitempty" minimum:"1" maximum:"10000"`
}

// creation is the body that creates a connection.
type creation struct {
	httpapi.RuleLimits
	// The key of the provider configuration: one that was created, or the slug of a provider, which needs none. Give this
	// or `provider_config_key`; both have the same value.
	Provider patch.Optional[string] `json:"provider,omitempty" example:"github"`
	// The key of the provider configuration, as in `provider`.
	ProviderConfigKey patch.Optional[string] `json:"provider_config_key,omitempty"`
	// The id of the connection within the provider configuration. An id that looks like a UUID or begins with `whk_` is
	// rejected. Default: generated.
	ConnectionID patch.Optional[string] `json:"connection_id,omitempty" maxLength:"255" pattern:"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,254}$" example:"acme-production"`
	// The behaviour if a connection with this id exists. `error` (default) returns 409. `update` updates the connection as
	// PATCH does and returns 200.
	OnConflict patch.Optional[connections.OnConflict] `json:"on_conflict,omitempty"`
	// Creates the connection as `pending`, with a link under which a person connects their account. Give it instead of
	// `credentials`. An `auth_mode` limits the page to that mode, and the page does not ask for values of
	// `connection_config` that are given here. The page offers the modes in the order of the provider's definition, and
	// leaves out those that need an OAuth client while the provider configuration has none; it asks for other credentials
	// then, unless `auth_mode` names the mode that it has to be. `connect_modes` of the response shows both.
	Connect patch.Optional[ConnectTerms] `json:"connect,omitempty"`
	Change
}

// request is the body of a POST to a connection: an operation, or a change.
type request struct {
	httpapi.RuleLimits
	// The operation to run. It must be the only field in the body, but for `connect` of `reconnect`. Without it the body
	// is an update.
	Operation patch.Optional[string] `json:"operation,omitempty" enum:"disable,enable,reconnect,refresh,revoke,delete,rotate_webhook_path"`
	// The terms of the link that `reconnect` makes.
	Connect patch.Optional[ConnectTerms] `json:"connect,omitempty"`
	Change
}

// ConnectTerms are the terms of a link.
type ConnectTerms struct {
	// Where the browser goes at the end: exactly one of the environment's `connect_redirect_urls`. It gets the parameters
	// `state`, `provider`, `connection_id`, `status` (`connected` or `failed`) and, after a failure, `error`. Default: the
	// page says that it can be closed.
	RedirectURL patch.Optional[string] `json:"redirect_url,omitempty" maxLength:"2048" example:"https://app.example.com/connected"`
	// A text of your own that comes back with the browser, at most 512 printable ASCII characters.
	State patch.Optional[string] `json:"state,omitempty" maxLength:"512" example:"order-4711"`
	// The OAuth scopes to request. Default: those of the provider configuration, or of the provider's definition.
	Scopes patch.Optional[[]string] `json:"scopes,omitempty" maxItems:"100" example:"[\"repo\"]"`
	// The member of the team whose connection it is to be, and who has to sign in on the page; they need a role in the
	// environment, and have at most 100 connections there. Only requests with this user's own token use the credentials
	// then: no API key, and no other user. It never changes; with `reconnect` it is not needed. Default: the connection
	// belongs to the environment, and anyone with the link connects it.
	UserID patch.Optional[string] `json:"user_id,omitempty" maxLength:"63" example:"usr_06f3k2m9q0x8v4t7b5n1"`
	// How long the link can be used, in seconds: 60 to 86400. Default 1800.
	ExpiresIn patch.Optional[int64] `json:"expires_in,omitempty" minimum:"60" maximum:"86400" example:"1800"`
}

func (b *ConnectTerms) domain() connecting.Terms {
	t := connecting.Terms{RedirectURL: b.RedirectURL.Value, State: b.State.Value, UserID: b.UserID.Value}
	if b.UserID.Set && b.UserID.Value == "" {
		t.UserID = "-" // which is refused as no id
	}
	if b.Scopes.Set {
		t.Scopes = append([]string{}, b.Scopes.Value...)
	}
	if seconds := b.ExpiresIn.Pointer(); seconds != nil {
		t.Lifetime = 1 // no default, and no overflow, for a value that is out of range
		if *seconds > 0 && *seconds <= int64(connecting.MaxLifetime.Seconds()) {
			t.Lifetime = time.Duration(*seconds) * time.Second
		}
	}
	return t
}

func (b *ConnectTerms) check(v *apperr.Violations) {
	t := b.domain()
	t.Check(v.At("connect"))
}

// Check rejects an empty choice, which means the default to package connections.
func (b *creation) Check(_ context.Context, v *apperr.Violations) {
	if choice := b.OnConflict.Pointer(); choice != nil && *choice == "" {
		v.Add("on_conflict", "enum", "must be error or update")
	}
}

// CheckRefused adds the errors of the link's terms that the service would find without the database.
func (b *creation) CheckRefused(_ context.Context, v *apperr.Violations) { b.Connect.Value.check(v) }

// Check rejects an unknown operation, and a change alongside an operation.
func (b *request) Check(_ context.Context, v *apperr.Violations) {
	op, before := b.Operation.Pointer(), len(v.Details())
	if b.Connect.Set && (op == nil || *op != opReconnect) {
		v.Add("connect", "coherent", "must be given together with the operation reconnect only")
	}
	if op != nil {
		b.checkOperation(v, *op)
	}
	if len(v.Details()) > before {
		b.Connect.Value.check(v)
	}
}

// checkOperation checks a body that runs an operation.
func (b *request) checkOperation(v *apperr.Violations, op string) {
	if _, known := operations()[op]; !known && op != opReconnect {
		v.Add("operation", "enum", "must be disable, enable, reconnect, refresh, revoke, delete or rotate_webhook_path")
	}
	for _, other := range []struct {
		name string
		set  bool
	}{{"webhook_secret", b.WebhookSecret.Set}, {"webhook", b.Webhook.Set}, {"auth_mode", b.AuthMode.Set},
		{"credentials", b.Credentials.Set}, {"connection_config", b.ConnectionConfig.Set}, {"test", b.Test.Set}, {"tags",
			b.Tags.Set},
		{"metadata", b.Metadata.Set}} {
		if other.set {
			v.Add(other.name, "alone", "must not be given together with an operation")
		}
	}
}

// CheckRefused adds the errors of the link's terms that the service would find without the database.
func (b *request) CheckRefused(ctx context.Context, v *apperr.Violations) {
	var own apperr.Violations
	if b.Check(ctx, &own); own.Err() == nil { // else Check has added them
		b.Connect.Value.check(v)
	}
}

// Patch is the body of PATCH.
type Patch struct {
	httpapi.RuleLimits
	Change
}

func (b *creation) domain() connections.NewConnection {
	n := connections.NewConnection{
		Provider: b.Provider.Pointer(), ProviderConfigKey: b.ProviderConfigKey.Pointer(),
		ConnectionID: b.ConnectionID.Pointer(), Change: b.Change.domain(),
	}
	if choice := b.OnConflict.Pointer(); choice != nil {
		n.OnConflict = *choice
	}
	return n
}

func (b *Change) domain() connections.Change {
	w := &b.Webhook.Value
	return connections.Change{
		Secret:               b.WebhookSecret,
		Alias:                w.Alias,
		Params:               w.Params,
		DedupeWindowSeconds:  w.DedupeWindowSeconds,
		RedeliverOnDuplicate: w.RedeliverOnDuplicate.Pointer(),
		MaxBodyBytes:         w.MaxBodyBytes.Pointer(),
		Scheme:               patch.Field[string]{Set: w.Scheme.Set, Null: w.Scheme.Null, Value: string(w.Scheme.Value)},
		URLBase:              w.URLBase,
		SourceCIDRs:          w.SourceCIDRs,
		RatePerSecond:        w.RateLimitPerSecond,
		SameBodyNewID:        w.SameBodyNewID.Pointer(),
		AuthMode:             b.AuthMode.Pointer(),
		Credentials: patch.Field[connections.Credentials]{Set: b.Credentials.Set, Null: b.Credentials.Null,
			Value: b.Credentials.Value.Credentials},
		ConnectionConfig: b.ConnectionConfig,
		Untested:         !b.Test.Or(true),
		Tags:             b.Tags,
		Metadata:         b.Metadata,
	}
}
