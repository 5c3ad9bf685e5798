package connectionshttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/connections"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
)

// Change is what a caller may write on a connection. It is exported because Huma looks only into exported embedded types.
type Change struct {
	WebhookSecret httpapi.Nullable[string]             `json:"webhook_secret,omitempty" writeOnly:"true" minLength:"1" maxLength:"4096" doc:"The secret under which the provider signs, as its settings show it, at most 4096 bytes. It replaces the one stored; null deletes it, and then every delivery is refused. It is never returned."`
	Webhook       definite[WebhookChange]              `json:"webhook,omitempty" doc:"How deliveries are taken."`
	Tags          httpapi.Nullable[map[string]*string] `json:"tags,omitempty" maxProperties:"10" doc:"Labels: at most 10, keys of 1 to 63 characters of a-z, 0-9 and _ . -, values of at most 255 characters. Members merge by key; a null member is removed, and null removes all."`
	Metadata      httpapi.Nullable[object]             `json:"metadata,omitempty" doc:"A JSON object of the caller's own, at most 16 KiB. Members merge as RFC 7396 says; a null member is removed, and null removes all."`
}

// WebhookChange is the part of a Change that is about deliveries.
type WebhookChange struct {
	Alias                httpapi.Nullable[string]             `json:"alias,omitempty" maxLength:"255" pattern:"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,254}$" doc:"A readable segment for the webhook URL, unique in the whole service. On creation the default is the connection_id where nobody has it; null is none. A released alias stays its environment's for 90 days."`
	Params               httpapi.Nullable[map[string]*string] `json:"params,omitempty" doc:"Parameters of the provider's definition. They are returned, so no secret belongs here. Members merge by name; a null member goes back to its default, and null sets all back."`
	DedupeWindowSeconds  httpapi.Nullable[int64]              `json:"dedupe_window_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"For how many seconds a delivery without an id of its own is recognised by its body: 0 (never) to 2592000. null, the default, is 3600."`
	RedeliverOnDuplicate definite[bool]                       `json:"redeliver_on_duplicate,omitempty" doc:"Whether a redelivery by the provider starts the dead deliveries of its event again. Default true."`
	MaxBodyBytes         definite[int64]                      `json:"max_body_bytes,omitempty" minimum:"1" maximum:"26214400" doc:"The largest body taken, in bytes: 1 to 26214400. Default 10485760. Larger deliveries are refused with 413."`
	SameBodyNewID        definite[string]                     `json:"same_body_new_id,omitempty" enum:"accept,refuse" doc:"What happens to a delivery whose body came before under another id, where the provider does not sign the id. accept, the default, forwards it marked as suspect; refuse stores it marked as suspect and forwards it to nobody."`
}

// creation is the body that makes a connection.
type creation struct {
	Provider          definite[string] `json:"provider,omitempty" doc:"The provider's slug. It and provider_config_key name the same; one is enough." example:"github"`
	ProviderConfigKey definite[string] `json:"provider_config_key,omitempty" doc:"The provider configuration's key, which is the provider's slug."`
	ConnectionID      definite[string] `json:"connection_id,omitempty" maxLength:"255" pattern:"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,254}$" doc:"The id of the connection inside the provider configuration. What looks like a UUID or begins with whk_ is refused. Generated when absent." example:"acme-production"`
	OnConflict        definite[string] `json:"on_conflict,omitempty" enum:"error,update" doc:"What happens where a connection of that id exists. error, the default: 409. update: it is changed as PATCH would, and the answer is 200."`
	Change
}

// request is the body of a POST to a connection: an operation, or a change.
type request struct {
	Operation definite[string] `json:"operation,omitempty" enum:"disable,enable,delete,rotate_webhook_path" doc:"What to do with the connection. It stands alone in the body; without it the body is a change."`
	Change
}

// definite is a field that may be absent and must not be null.
type definite[T any] struct{ httpapi.Nullable[T] }

// Schema is the schema of T.
func (definite[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
}

func (d *definite[T]) refuseNull(f *apperr.Faults, location string) {
	if d.Null {
		f.Add(location, "not_null", "the field cannot be null")
	}
}

func (d *definite[T]) pointer() *T {
	if !d.Set || d.Null {
		return nil
	}
	return &d.Value
}

// object is a JSON object whose numbers are kept as they were written.
type object map[string]any

// UnmarshalJSON reads an object; null leaves it nil.
func (o *object) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var members map[string]any
	if err := d.Decode(&members); err != nil {
		return fmt.Errorf("read a JSON object: %w", err)
	}
	*o = members
	return nil
}

// Resolve refuses null where it means nothing.
func (b *creation) Resolve(huma.Context) []error {
	var f apperr.Faults
	b.Provider.refuseNull(&f, "body.provider")
	b.ProviderConfigKey.refuseNull(&f, "body.provider_config_key")
	b.ConnectionID.refuseNull(&f, "body.connection_id")
	b.OnConflict.refuseNull(&f, "body.on_conflict")
	if choice := b.OnConflict.pointer(); choice != nil && *choice == "" {
		f.Add("body.on_conflict", "enum", "must be error or update") // to the domain it is the default
	}
	b.refuseNulls(&f)
	return errorsOf(&f)
}

// Resolve refuses null where it means nothing, an unknown operation, and a change beside an operation.
func (b *request) Resolve(huma.Context) []error {
	var f apperr.Faults
	b.Operation.refuseNull(&f, "body.operation")
	b.refuseNulls(&f)
	if op := b.Operation.pointer(); op != nil {
		if _, known := operations()[*op]; !known {
			f.Add("body.operation", "enum", "must be disable, enable, delete or rotate_webhook_path")
		}
		for _, other := range []struct {
			name string
			set  bool
		}{{"webhook_secret", b.WebhookSecret.Set}, {"webhook", b.Webhook.Set}, {"tags", b.Tags.Set}, {"metadata", b.Metadata.Set}} {
			if other.set {
				f.Add("body."+other.name, "alone", "an operation stands alone in the body")
			}
		}
	}
	return errorsOf(&f)
}

// Resolve refuses null where it means nothing.
func (b *patch) Resolve(huma.Context) []error {
	var f apperr.Faults
	b.refuseNulls(&f)
	return errorsOf(&f)
}

// patch is the body of PATCH.
type patch struct{ Change }

func (b *Change) refuseNulls(f *apperr.Faults) {
	b.Webhook.refuseNull(f, "body.webhook")
	w := &b.Webhook.Value
	w.RedeliverOnDuplicate.refuseNull(f, "body.webhook.redeliver_on_duplicate")
	w.MaxBodyBytes.refuseNull(f, "body.webhook.max_body_bytes")
	w.SameBodyNewID.refuseNull(f, "body.webhook.same_body_new_id")
}

func errorsOf(f *apperr.Faults) []error {
	if err := f.Err(); err != nil {
		return []error{err}
	}
	return nil
}

func (b *creation) domain() connections.New {
	n := connections.New{
		Provider: b.Provider.pointer(), ProviderConfigKey: b.ProviderConfigKey.pointer(),
		ConnectionID: b.ConnectionID.pointer(), Change: b.Change.domain(),
	}
	if choice := b.OnConflict.pointer(); choice != nil {
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
		RedeliverOnDuplicate: w.RedeliverOnDuplicate.pointer(),
		MaxBodyBytes:         w.MaxBodyBytes.pointer(),
		SameBodyNewID:        (*connections.SameBody)(w.SameBodyNewID.pointer()),
		Tags:                 same(b.Tags),
		Metadata:             field(b.Metadata, func(o object) map[string]any { return o }),
	}
}

func field[T, U any](n httpapi.Nullable[T], convert func(T) U) connections.Field[U] {
	return connections.Field[U]{Set: n.Set, Null: n.Null, Value: convert(n.Value)}
}

func same[T any](n httpapi.Nullable[T]) connections.Field[T] {
	return connections.Field[T]{Set: n.Set, Null: n.Null, Value: n.Value}
}
