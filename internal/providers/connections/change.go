package connections

import (
	"maps"

	"sallyport/internal/platform/secretbox"
)

// Field is a writable field of a change, as in a merge patch (RFC 7396): absent keeps, null clears.
type Field[T any] struct {
	// Set says that the change speaks of the field.
	Set bool
	// Null clears the field; Value does not count then.
	Null  bool
	Value T
}

// orZero is the value, or the zero value of a cleared field.
func (f Field[T]) orZero() T {
	if f.Null {
		var zero T
		return zero
	}
	return f.Value
}

// To returns a Field that sets v.
func To[T any](v T) Field[T] { return Field[T]{Set: true, Value: v} }

// Clear returns a Field that clears.
func Clear[T any]() Field[T] { return Field[T]{Set: true, Null: true} }

// Change is what a caller may write on a connection. Objects merge member by member; a null member removes its name.
type Change struct {
	// Secret replaces every stored webhook secret. Cleared, deliveries are refused until there is one again.
	Secret Field[secretbox.Secret]
	// Alias moves the connection to another alias, or to none.
	Alias               Field[string]
	Params              Field[map[string]*string]
	DedupeWindowSeconds Field[int64]
	// The next three have no cleared state: nil keeps.
	RedeliverOnDuplicate *bool
	MaxBodyBytes         *int64
	SameBodyNewID        *SameBody
	Scheme               Field[string]
	URLBase              Field[string]
	SourceCIDRs          Field[[]string]
	RatePerSecond        Field[int64]
	Tags                 Field[map[string]*string]
	Metadata             Field[map[string]any]
}

// OnConflict says what creating a connection does where there is one of its id.
type OnConflict string

// The choices.
const (
	// ConflictError refuses with connection_exists.
	ConflictError OnConflict = "error"
	// ConflictUpdate changes the connection that is there.
	ConflictUpdate OnConflict = "update"
)

// NewConnection describes a connection to create.
type NewConnection struct {
	// Provider and ProviderConfigKey are two names for the same thing while each provider has one configuration: one of
	// them is enough, and both must be equal.
	Provider          *string
	ProviderConfigKey *string
	// ConnectionID is the caller's choice; nil has one generated.
	ConnectionID *string
	// OnConflict says what happens where there is a connection of that id; empty is ConflictError.
	OnConflict OnConflict
	// Change sets the rest, from the defaults. An absent Alias asks for the connection id as alias if nobody has it; a
	// cleared one asks for none.
	Change
}

// apply returns c as the change leaves it. Secret and Alias are stored elsewhere and stay as they are.
func (ch *Change) apply(c Connection) Connection {
	c.Webhook.Params = mergeStrings(c.Webhook.Params, ch.Params)
	c.Tags = mergeStrings(c.Tags, ch.Tags)
	if ch.Metadata.Set {
		if ch.Metadata.Null {
			c.Metadata = map[string]any{}
		} else {
			c.Metadata = mergePatch(c.Metadata, ch.Metadata.Value)
		}
	}
	if ch.DedupeWindowSeconds.Set {
		c.Webhook.DedupeWindowSeconds = nil
		if !ch.DedupeWindowSeconds.Null {
			c.Webhook.DedupeWindowSeconds = &ch.DedupeWindowSeconds.Value
		}
	}
	if v := ch.RedeliverOnDuplicate; v != nil {
		c.Webhook.RedeliverOnDuplicate = *v
	}
	if v := ch.MaxBodyBytes; v != nil {
		c.Webhook.MaxBodyBytes = *v
	}
	if v := ch.SameBodyNewID; v != nil {
		c.Webhook.SameBodyNewID = *v
	}
	if v := ch.Scheme; v.Set {
		c.Webhook.Scheme = v.orZero()
	}
	if v := ch.URLBase; v.Set {
		c.Webhook.URLBase = v.orZero()
	}
	if v := ch.SourceCIDRs; v.Set {
		c.Webhook.SourceCIDRs = v.orZero()
	}
	if v := ch.RatePerSecond; v.Set {
		c.Webhook.RatePerSecond = nil
		if !v.Null {
			c.Webhook.RatePerSecond = &v.Value
		}
	}
	return c
}

func mergeStrings(target map[string]string, patch Field[map[string]*string]) map[string]string {
	if !patch.Set {
		return target
	}
	out := map[string]string{}
	if patch.Null {
		return out
	}
	maps.Copy(out, target)
	for name, value := range patch.Value {
		if value == nil {
			delete(out, name)
		} else {
			out[name] = *value
		}
	}
	return out
}

// mergePatch is MergePatch of RFC 7396 section 2 for two objects. It changes neither.
func mergePatch(target, patch map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, target)
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(out, name)
		case map[string]any:
			inner, _ := out[name].(map[string]any)
			out[name] = mergePatch(inner, value)
		default:
			out[name] = value
		}
	}
	return out
}
