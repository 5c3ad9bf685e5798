package subscriptions

import (
	"maps"
	"slices"
	"strings"
	"time"

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

// To returns a Field that sets v.
func To[T any](v T) Field[T] { return Field[T]{Set: true, Value: v} }

// Clear returns a Field that clears.
func Clear[T any]() Field[T] { return Field[T]{Set: true, Null: true} }

// or returns the value that the field leads to, where cleared is what null stands for.
func (f Field[T]) or(kept, cleared T) T {
	switch {
	case !f.Set:
		return kept
	case f.Null:
		return cleared
	default:
		return f.Value
	}
}

// Change is what a caller may write on a subscription. The fields down to TimeoutMs cannot be cleared: null is a fault.
type Change struct {
	EventTypes Field[[]string]
	ForwardURL Field[string]
	// SigningSecret signs every try from now on, and the one that it replaces signs beside it for SecretGraceSeconds.
	SigningSecret Field[secretbox.Secret]
	// SecretGraceSeconds is for Update: how long a replaced secret goes on signing. 0 ends that at once for all of them,
	// which is what it means without a new secret, too; absent it is DefaultSecretGrace.
	SecretGraceSeconds Field[int64]
	// Enabled pauses the subscription or lets it go on.
	Enabled     Field[bool]
	PayloadMode Field[PayloadMode]
	// RetrySchedule holds the seconds to wait before each further try.
	RetrySchedule Field[[]float64]
	TimeoutMs     Field[int64]

	// ProviderConfigKey and ConnectionID narrow the events; cleared, they do not.
	ProviderConfigKey Field[string]
	ConnectionID      Field[string]
	Description       Field[string]
	// Filter narrows the events; cleared, it does not.
	Filter Field[string]
	// Headers merge by name, in which case does not count; a null member removes its name.
	Headers Field[map[string]*string]
	// Metadata merges member by member, at every depth; a null member removes its name.
	Metadata Field[map[string]any]
}

// apply returns the subscription as the change leaves it.
func (ch *Change) apply(sub Subscription) Subscription {
	sub.EventTypes = ch.EventTypes.or(sub.EventTypes, nil)
	sub.ForwardURL = ch.ForwardURL.or(sub.ForwardURL, "")
	sub.PayloadMode = ch.PayloadMode.or(sub.PayloadMode, Envelope)
	sub.RetrySchedule = ch.RetrySchedule.or(sub.RetrySchedule, []float64{})
	sub.Timeout = time.Duration(ch.TimeoutMs.or(sub.Timeout.Milliseconds(), 0)) * time.Millisecond
	sub.ProviderConfigKey = ch.ProviderConfigKey.or(sub.ProviderConfigKey, "")
	sub.ConnectionID = ch.ConnectionID.or(sub.ConnectionID, "")
	sub.Description = ch.Description.or(sub.Description, "")
	sub.Filter = ch.Filter.or(sub.Filter, "")
	if enabled := ch.Enabled.or(sub.Enabled, false); enabled {
		sub.Enabled, sub.DisabledReason = true, ""
	} else {
		sub.Enabled = false
	}
	if ch.SigningSecret.Set {
		sub.SecretHint = secretHint(ch.SigningSecret.Value)
	}
	if ch.Headers.Set {
		sub.Headers = mergeHeaders(sub.Headers, ch.Headers)
	}
	if ch.Metadata.Set {
		if ch.Metadata.Null {
			sub.Metadata = map[string]any{}
		} else {
			sub.Metadata = mergePatch(sub.Metadata, ch.Metadata.Value)
		}
	}
	return sub
}

// mergeHeaders returns the headers after the patch, sorted by name. A patched header keeps the name of the patch.
func mergeHeaders(kept []Header, patch Field[map[string]*string]) []Header {
	out := []Header{}
	if patch.Null {
		return out
	}
	for _, h := range kept {
		if !hasName(patch.Value, h.Name) {
			out = append(out, h)
		}
	}
	for name, value := range patch.Value {
		if value != nil {
			out = append(out, Header{name, *value})
		}
	}
	slices.SortFunc(out, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func hasName(members map[string]*string, name string) bool {
	for member := range members {
		if strings.EqualFold(member, name) {
			return true
		}
	}
	return false
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
