package connectionshttp

import (
	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connections"
)

// Change is what a caller may write on a connection. It is exported because Huma looks only into exported embedded
// types.
type Change struct {
	// The secret under which the provider signs, as its settings show it, at most 4096 bytes. It replaces every stored
	// secret; null deletes them, and then every delivery is refused. To rotate without a gap use webhook-secrets. It is
	// never returned.
	WebhookSecret httpapi.Nullable[string] `json:"webhook_secret,omitempty" writeOnly:"true" minLength:"1" maxLength:"4096"`
	// How deliveries are taken.
	Webhook httpapi.Optional[WebhookChange] `json:"webhook,omitempty"`
	// Labels: at most 10, keys of 1 to 63 characters of a-z, 0-9 and _ . -, values of at most 255 characters. Members
	// merge by key; a null member is removed, and null removes all.
	Tags httpapi.Nullable[map[string]*string] `json:"tags,omitempty" maxProperties:"10"`
	// A JSON object of the caller's own, at most 16 KiB. Members merge as RFC 7396 says; a null member is removed, and
	// null removes all.
	Metadata httpapi.Nullable[httpapi.Object] `json:"metadata,omitempty"`
}

// WebhookChange is the part of a Change that is about deliveries.
type WebhookChange struct {
	// A readable segment for the webhook URL, unique in the whole service. On creation the default is the connection_id
	// where nobody has it; null is none. A released alias stays its environment's for 90 days.
	Alias httpapi.Nullable[string] `json:"alias,omitempty" maxLength:"255" pattern:"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,254}$"`
	// Parameters of the provider's definition. They are returned, so no secret belongs here. Members merge by name; a null
	// member goes back to its default, and null sets all back.
	Params httpapi.Nullable[map[string]*string] `json:"params,omitempty"`
	// For how many seconds a delivery without an id of its own is recognised by its body: 0 (never) to 2592000. null, the
	// default, is 3600, and 0 where the provider's bodies may repeat.
	DedupeWindowSeconds httpapi.Nullable[int64] `json:"dedupe_window_seconds,omitempty" minimum:"0" maximum:"2592000"`
	// Whether a redelivery by the provider starts the dead deliveries of its event again. Default true.
	RedeliverOnDuplicate httpapi.Optional[bool] `json:"redeliver_on_duplicate,omitempty"`
	// The largest body taken, in bytes: 1 to 26214400. Default 10485760. Larger deliveries are refused with 413.
	MaxBodyBytes httpapi.Optional[int64] `json:"max_body_bytes,omitempty" minimum:"1" maximum:"26214400"`
	// What happens to a delivery whose body came before under another id, where the provider does not sign the id. accept,
	// the default, forwards it marked as suspect; refuse stores it marked as suspect and forwards it to nobody.
	SameBodyNewID httpapi.Optional[string] `json:"same_body_new_id,omitempty" enum:"accept,refuse"`
	// none says that the connection takes deliveries that nothing proves; a provider whose deliveries are not proved needs
	// it, any other refuses it. Such a connection has no alias. null, the default: deliveries are proved as the provider's
	// definition says.
	Scheme httpapi.Nullable[scheme] `json:"scheme,omitempty"`
	// Scheme, host and path prefix of the URL that the provider calls, without a slash at the end, where it is not the
	// service's public URL. Only providers that sign the URL look at it. null, the default, is the public URL.
	URLBase httpapi.Nullable[string] `json:"url_base,omitempty" maxLength:"4096" format:"uri" example:"https://hooks.example.com"`
	// The networks that deliveries may come from, such as 192.0.2.0/24; at most 100. Deliveries from elsewhere are
	// refused. null or an empty list, the default, is all.
	SourceCIDRs httpapi.Nullable[[]string] `json:"source_cidrs,omitempty" maxItems:"100"`
	// How many verified deliveries a second all nodes together take, 1 to 10000; those beyond are answered with 429 and
	// Retry-After. null, the default, is no limit.
	RateLimitPerSecond httpapi.Nullable[int64] `json:"rate_limit_per_second,omitempty" minimum:"1" maximum:"10000"`
}

// creation is the body that makes a connection.
type creation struct {
	// The provider's slug. It and provider_config_key name the same; one is enough.
	Provider httpapi.Optional[string] `json:"provider,omitempty" example:"github"`
	// The provider configuration's key, which is the provider's slug.
	ProviderConfigKey httpapi.Optional[string] `json:"provider_config_key,omitempty"`
	// The id of the connection inside the provider configuration. What looks like a UUID or begins with whk_ is refused.
	// Generated when absent.
	ConnectionID httpapi.Optional[string] `json:"connection_id,omitempty" maxLength:"255" pattern:"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,254}$" example:"acme-production"`
	// What happens where a connection of that id exists. error, the default: 409. update: it is changed as PATCH would,
	// and the answer is 200.
	OnConflict httpapi.Optional[string] `json:"on_conflict,omitempty" enum:"error,update"`
	Change
}

// request is the body of a POST to a connection: an operation, or a change.
type request struct {
	// What to do with the connection. It stands alone in the body; without it the body is a change.
	Operation httpapi.Optional[string] `json:"operation,omitempty" enum:"disable,enable,delete,rotate_webhook_path"`
	Change
}

// Resolve refuses a choice that is empty, which to the domain is the default.
func (b *creation) Resolve(huma.Context) []error {
	var f apperr.Faults
	if choice := b.OnConflict.Pointer(); choice != nil && *choice == "" {
		f.Add("body.on_conflict", "enum", "must be error or update")
	}
	return errorsOf(&f)
}

// Resolve refuses an unknown operation, and a change beside an operation.
func (b *request) Resolve(huma.Context) []error {
	op := b.Operation.Pointer()
	if op == nil {
		return nil
	}
	var f apperr.Faults
	if _, known := operations()[*op]; !known {
		f.Add("body.operation", "enum", "must be disable, enable, delete or rotate_webhook_path")
	}
	for _, other := range []struct {
		name string
		set  bool
	}{{"webhook_secret", b.WebhookSecret.Set}, {"webhook", b.Webhook.Set}, {"tags", b.Tags.Set},
		{"metadata", b.Metadata.Set}} {
		if other.set {
			f.Add("body."+other.name, "alone", "an operation stands alone in the body")
		}
	}
	return errorsOf(&f)
}

// patch is the body of PATCH.
type patch struct{ Change }

func errorsOf(f *apperr.Faults) []error {
	if err := f.Err(); err != nil {
		return []error{err}
	}
	return nil
}

func (b *creation) domain() connections.New {
	n := connections.New{
		Provider: b.Provider.Pointer(), ProviderConfigKey: b.ProviderConfigKey.Pointer(),
		ConnectionID: b.ConnectionID.Pointer(), Change: b.Change.domain(),
	}
	if choice := b.OnConflict.Pointer(); choice != nil {
		n.OnConflict = connections.OnConflict(*choice)
	}
	return n
}

func (b *Change) domain() connections.Change {
	w := &b.Webhook.Value
	return connections.Change{
		Secret:               field(b.WebhookSecret, func(s string) secretbox.Secret { return secretbox.Secret(s) }),
		Alias:                same(w.Alias),
		Params:               same(w.Params),
		DedupeWindowSeconds:  same(w.DedupeWindowSeconds),
		RedeliverOnDuplicate: w.RedeliverOnDuplicate.Pointer(),
		MaxBodyBytes:         w.MaxBodyBytes.Pointer(),
		Scheme:               field(w.Scheme, func(s scheme) string { return string(s) }),
		URLBase:              same(w.URLBase),
		SourceCIDRs:          same(w.SourceCIDRs),
		RatePerSecond:        same(w.RateLimitPerSecond),
		SameBodyNewID:        (*connections.SameBody)(w.SameBodyNewID.Pointer()),
		Tags:                 same(b.Tags),
		Metadata:             field(b.Metadata, func(o httpapi.Object) map[string]any { return o }),
	}
}

func field[T, U any](n httpapi.Nullable[T], convert func(T) U) connections.Field[U] {
	return connections.Field[U]{Set: n.Set, Null: n.Null, Value: convert(n.Value)}
}

func same[T any](n httpapi.Nullable[T]) connections.Field[T] {
	return connections.Field[T]{Set: n.Set, Null: n.Null, Value: n.Value}
}
