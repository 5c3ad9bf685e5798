package subscriptions

import (
	"maps"
	"slices"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
)

// field is a writable field of a subscription.
type field struct {
	// name is the field's name on the wire and in the audit trail.
	name string
	// column binds the field's column, or none, where the value is sealed.
	column db.Columns
	// apply writes the field as the change says.
	apply func()
	// check adds the violations that the change shows by itself; nil where it can show none.
	check func(v *apperr.Violations)
	// state returns the value for the audit trail.
	state func() any
}

// fields returns the writable fields of a subscription: how they are stored and shown, and what a change does to them,
// in the order in which their violations are reported.
func fields(ch *Change, sub *Subscription) []field {
	return []field{
		value("event_types", &ch.EventTypes, &sub.EventTypes, checkEventTypes).stored("event_types",
			db.JSON(&sub.EventTypes)),
		hidden(value("forward_url", &ch.ForwardURL, &sub.ForwardURL, checkURLForm)),
		field{name: "secret_hint", apply: func() { applySecret(ch, sub) }, state: func() any { return sub.SecretHint },
			check: func(v *apperr.Violations) { checkSecret(v, ch) }}.stored("signing_secret_hint", &sub.SecretHint),
		field{name: "enabled", apply: func() { applyEnabled(ch, sub) }, state: func() any { return sub.Enabled }}.
			stored("enabled", &sub.Enabled),
		value("payload_mode", &ch.PayloadMode, &sub.PayloadMode, checkPayloadMode).stored("payload_mode", &sub.PayloadMode),
		value("retry_schedule_seconds", &ch.RetrySchedule, &sub.RetrySchedule, checkSchedule).
			stored("retry_schedule", db.JSON(&sub.RetrySchedule)),
		milliseconds("timeout_ms", &ch.TimeoutMs, &sub.Timeout, MinTimeout, MaxTimeout),
		text("description", &ch.Description, &sub.Description, checkDescription),
		nullableText("filter", &ch.Filter, &sub.Filter, checkFilter),
		hidden(field{name: "headers", apply: func() { sub.Headers = mergeHeaders(sub.Headers, ch.Headers) },
			check: func(v *apperr.Violations) { checkHeaders(v.At("headers"), ch.Headers.Value) },
			state: func() any { return sub.Headers }}),
		field{name: "metadata", apply: func() { sub.Metadata = patch.Merge(sub.Metadata, ch.Metadata) },
			state: func() any { return audit.Hidden{Value: sub.Metadata, Shown: memberNames(sub.Metadata)} }}.
			stored("metadata", db.JSON(&sub.Metadata)),
		// Whether these two exist is checked in checkScope, which needs the database.
		nullableText("provider_config_key", &ch.ProviderConfigKey, &sub.ProviderConfigKey, nil),
		nullableText("connection_id", &ch.ConnectionID, &sub.ConnectionID, nil),
	}
}

// stored returns the field with its column; see db.Col.
func (f field) stored(column string, binding any) field {
	f.column = db.Columns{db.Col(column, binding)}
	return f
}

// value returns a field that a change replaces and cannot clear.
func value[T any](name string, in *patch.Optional[T], out *T, check func(v *apperr.Violations, value T)) field {
	return field{name: name, apply: func() { *out = in.Or(*out) }, state: func() any { return *out },
		check: func(v *apperr.Violations) {
			if in.Set {
				check(v.At(name), in.Value)
			}
		}}
}

// text returns a field that a change can clear.
func text(name string, in *patch.Field[string], out *string, check func(v *apperr.Violations, value string)) field {
	return field{name: name, apply: func() { *out = in.Or(*out, "") }, state: func() any { return *out },
		check: func(v *apperr.Violations) {
			if in.Given() && check != nil {
				check(v.At(name), in.Value)
			}
		}}.stored(name, out)
}

// nullableText is text for a field that is stored and shown as null where it is empty.
func nullableText(name string, in *patch.Field[string], out *string,
	check func(v *apperr.Violations, value string)) field {
	f := text(name, in, out, check).stored(name, db.Null(out))
	f.state = func() any { return orNil(*out) }
	return f
}

// milliseconds returns a field with a length of time that a change cannot clear.
func milliseconds(name string, in *patch.Optional[int64], out *time.Duration, least, most time.Duration) field {
	ms := out.Milliseconds()
	f := value(name, in, &ms, func(v *apperr.Violations, value int64) {
		checkRange(v, value, least.Milliseconds(), most.Milliseconds())
	})
	f.apply = func() { *out = time.Duration(in.Or(ms)) * time.Millisecond }
	return f.stored(name, db.Duration(out, time.Millisecond))
}

// hidden makes the audit trail show only that a field has changed: its value is sealed at rest.
func hidden(f field) field {
	shown := f.state
	f.state = func() any { return audit.Hidden{Value: shown(), Shown: secretbox.Redacted} }
	return f
}

func applySecret(ch *Change, sub *Subscription) {
	if ch.SigningSecret.Given() {
		sub.SecretHint = secretHint(ch.SigningSecret.Value)
	}
}

// applyEnabled disables or enables the subscription. Enabling clears the reason for which the service disabled it.
func applyEnabled(ch *Change, sub *Subscription) {
	if sub.Enabled = ch.Enabled.Or(sub.Enabled); sub.Enabled {
		sub.DisabledReason = ""
	}
}

// state returns the subscription as the audit trail shows it: its writable fields, and what only the service writes.
// The signing secret has changed if its version has. Metadata is shown by the names of its members: their values may be
// personal data, and the trail is kept.
func state(sub Subscription, secretVersion int) audit.State {
	out := audit.State{
		"signing_secret":  audit.Hidden{Value: secretVersion, Shown: secretbox.Redacted},
		"disabled_reason": orNil(sub.DisabledReason),
	}
	for _, f := range fields(&Change{}, &sub) {
		out[f.name] = f.state()
	}
	return out
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// memberNames returns the names of an object's members, sorted.
func memberNames(object map[string]any) []string {
	return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(object))))
}
