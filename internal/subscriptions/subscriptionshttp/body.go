package subscriptionshttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/subscriptions"
)

// Writable is what creation and patch have in common. It is exported because Huma looks only into exported embedded types.
type Writable struct {
	ProviderConfigKey httpapi.Nullable[string] `json:"provider_config_key,omitempty" minLength:"1" doc:"Only events of this provider configuration. Default null: of any." example:"github"`
	ConnectionID      httpapi.Nullable[string] `json:"connection_id,omitempty" minLength:"1" doc:"Only events of this connection. Default null: of any." example:"acme-production"`
	SigningSecret     definite[string]         `json:"signing_secret,omitempty" writeOnly:"true" maxLength:"256" doc:"The secret that signs every try (Standard Webhooks): whsec_ and the base64 of 24 to 64 bytes, or any other text of 16 to 256 bytes, which is used as it is. It is never returned. Default: generated at creation and returned in that answer alone. A new secret signs from the next try on."`
	Description       httpapi.Nullable[string] `json:"description,omitempty" maxLength:"1000" doc:"A text for people, at most 1000 characters. Default empty."`
	Enabled           definite[bool]           `json:"enabled,omitempty" doc:"false pauses the subscription: its deliveries are held until it is true again. Default true."`
	PayloadMode       definite[string]         `json:"payload_mode,omitempty" enum:"envelope,raw" doc:"envelope (default): a JSON object with the event's type, time, id, origin and data. raw: the provider's bytes and content type as they came."`
	RetrySchedule     definite[[]float64]      `json:"retry_schedule_seconds,omitempty" maxItems:"50" doc:"The seconds to wait before each further try: at most 50 numbers of 0.1 to 604800, fractions allowed. [] is one try. Default [5, 30, 120, 600, 3600, 14400, 43200, 86400]."`
	TimeoutMs         definite[int64]          `json:"timeout_ms,omitempty" minimum:"1000" maximum:"30000" doc:"The milliseconds within which one try must be complete, from name resolution to the last byte of the answer. Default 15000."`
	Metadata          httpapi.Nullable[object] `json:"metadata,omitempty" doc:"A JSON object of the caller's own, at most 16 KiB. Default {}. In a change, members merge as RFC 7396 says: a null member is removed, and null removes all."`
}

// creation is the body that makes a subscription.
type creation struct {
	EventTypes definite[[]string] `json:"event_types" minItems:"1" maxItems:"100" doc:"1 to 100 patterns of event types, each of at most 256 characters. Segments are separated by dots. A segment * stands for exactly one segment, a last segment * for one or more, and * alone for every type." example:"[\"issues.*\"]"`
	ForwardURL definite[string]   `json:"forward_url" maxLength:"2048" doc:"Where matching events are posted: an https URL whose address is public, without user name and password. The operator may allow http and private addresses." example:"https://example.com/hooks"`
	Writable
	Headers   definite[map[string]string] `json:"headers,omitempty" writeOnly:"true" maxProperties:"20" doc:"Headers added to every try: at most 20, values of at most 4096 visible ASCII characters. Values are not returned. Default {}. Host, Content-*, hop-by-hop headers and those that the service sets are refused."`
	misshapen bool                        // not of the schema's shape
}

// patch is the body of PATCH.
type patch struct {
	EventTypes definite[[]string] `json:"event_types,omitempty" minItems:"1" maxItems:"100" doc:"The patterns that replace the present ones. Events that arrived before are not matched again."`
	ForwardURL definite[string]   `json:"forward_url,omitempty" maxLength:"2048" doc:"Where events are posted from the next try on."`
	Writable
	Headers   httpapi.Nullable[map[string]*string] `json:"headers,omitempty" writeOnly:"true" maxProperties:"20" doc:"Headers added to every try from now on. They merge by name, in which case does not count: a null member is removed, and null removes all."`
	misshapen bool                                 // not of the schema's shape
}

// definite is a field that may be absent and must not be null.
type definite[T any] struct{ httpapi.Nullable[T] }

// Schema is the schema of T.
func (definite[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
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

// UnmarshalJSON reads as much of the body as can be read.
func (b *creation) UnmarshalJSON(raw []byte) error {
	type plain creation
	b.misshapen = misshapen(raw, (*plain)(b))
	return nil
}

// UnmarshalJSON reads as much of the body as can be read.
func (b *patch) UnmarshalJSON(raw []byte) error {
	type plain patch
	b.misshapen = misshapen(raw, (*plain)(b))
	return nil
}

// misshapen reads raw into v and reports whether it has an unknown field or a value of the wrong type. The schema has
// said so already, each fault in its place.
func misshapen(raw []byte, v any) bool {
	lenient := json.Unmarshal(raw, v)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	strict := d.Decode(reflect.New(reflect.TypeOf(v).Elem()).Interface())
	return lenient != nil || strict != nil
}

// Resolve adds the faults against the rules to those of the schema.
func (b *creation) Resolve(huma.Context) []error {
	missing := !b.EventTypes.Set || b.EventTypes.Null || !b.ForwardURL.Set || b.ForwardURL.Null
	ch := b.change()
	return besideSchema(b.misshapen || missing, ch.CheckNew)
}

// Resolve adds the faults against the rules to those of the schema.
func (b *patch) Resolve(huma.Context) []error {
	ch := b.change()
	return besideSchema(b.misshapen, ch.Check)
}

// besideSchema returns the faults that check finds when the schema has found faults too, because the service is not
// asked then. Otherwise the service finds them, together with those that only a look at the database or the target can
// tell.
func besideSchema(refused bool, check func(*apperr.Faults)) []error {
	if !refused {
		return nil
	}
	var f apperr.Faults
	check(&f)
	if err := f.Err(); err != nil {
		return []error{err}
	}
	return nil
}

func (b *creation) change() subscriptions.Change {
	ch := b.Writable.change()
	ch.EventTypes, ch.ForwardURL = same(b.EventTypes.Nullable), same(b.ForwardURL.Nullable)
	ch.Headers = field(b.Headers.Nullable, func(members map[string]string) map[string]*string {
		out := make(map[string]*string, len(members))
		for name, value := range members {
			out[name] = &value
		}
		return out
	})
	return ch
}

func (b *patch) change() subscriptions.Change {
	ch := b.Writable.change()
	ch.EventTypes, ch.ForwardURL, ch.Headers = same(b.EventTypes.Nullable), same(b.ForwardURL.Nullable), same(b.Headers)
	return ch
}

func (b *Writable) change() subscriptions.Change {
	return subscriptions.Change{
		ProviderConfigKey: same(b.ProviderConfigKey),
		ConnectionID:      same(b.ConnectionID),
		SigningSecret:     field(b.SigningSecret.Nullable, func(s string) secretbox.Secret { return secretbox.Secret(s) }),
		Description:       same(b.Description),
		Enabled:           same(b.Enabled.Nullable),
		PayloadMode:       field(b.PayloadMode.Nullable, func(s string) subscriptions.PayloadMode { return subscriptions.PayloadMode(s) }),
		RetrySchedule:     same(b.RetrySchedule.Nullable),
		TimeoutMs:         same(b.TimeoutMs.Nullable),
		Metadata:          field(b.Metadata, func(o object) map[string]any { return o }),
	}
}

func field[T, U any](n httpapi.Nullable[T], convert func(T) U) subscriptions.Field[U] {
	return subscriptions.Field[U]{Set: n.Set, Null: n.Null, Value: convert(n.Value)}
}

func same[T any](n httpapi.Nullable[T]) subscriptions.Field[T] {
	return subscriptions.Field[T]{Set: n.Set, Null: n.Null, Value: n.Value}
}
