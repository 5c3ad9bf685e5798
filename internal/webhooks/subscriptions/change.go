package subscriptions

import (
	"slices"
	"strings"

	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
)

// Change holds the values that a caller may write on a subscription. A patch.Field can be cleared, a patch.Optional
// cannot.
type Change struct {
	EventTypes patch.Optional[[]string]
	ForwardURL patch.Optional[string]
	// SecretGraceSeconds is for Update: how long a replaced secret continues to sign. 0 ends the signatures of all
	// replaced secrets immediately, also without a new secret. Default: DefaultSecretGrace.
	SecretGraceSeconds patch.Optional[int64]
	// Headers merge by name, ignoring case; a null member removes its name.
	Headers patch.Field[map[string]*string]
	Settings
}

// Settings holds the values that a creation and an update have in the same form.
type Settings struct {
	// ProviderConfigKey and ConnectionID restrict the events.
	ProviderConfigKey patch.Field[string]
	ConnectionID      patch.Field[string]
	// SigningSecret signs every attempt from now on. The secret that it replaces also signs for SecretGraceSeconds. Null
	// generates one at creation and changes nothing later.
	SigningSecret patch.Field[secretbox.Secret]
	Description   patch.Field[string]
	// Enabled enables the subscription or disables it.
	Enabled patch.Optional[bool]
	// Filter restricts the events.
	Filter      patch.Field[string]
	PayloadMode patch.Optional[PayloadMode]
	// RetrySchedule holds the seconds to wait before each retry.
	RetrySchedule patch.Optional[[]float64]
	TimeoutMs     patch.Optional[int64]
	// Metadata merges member by member, at every depth; a null member removes its name.
	Metadata patch.Field[patch.Object]
}

// apply returns the subscription as the change leaves it.
func (ch *Change) apply(sub Subscription) Subscription {
	for _, f := range fields(ch, &sub) {
		f.apply()
	}
	return sub
}

// mergeHeaders returns the headers after the patch, sorted by name. A patched header keeps the name of the patch.
func mergeHeaders(kept []Header, p patch.Field[map[string]*string]) []Header {
	if !p.Set {
		return kept
	}
	out := []Header{}
	if p.Null {
		return out
	}
	for _, h := range kept {
		if !hasName(p.Value, h.Name) {
			out = append(out, h)
		}
	}
	for name, value := range p.Value {
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
