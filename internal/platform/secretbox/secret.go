package secretbox

import "log/slog"

// Redacted is the printed form of every Secret.
const Redacted = "[redacted]"

// Secret is a value that must never be printed: its String, GoString, JSON, text and slog forms are Redacted. Only
// Reveal returns the value, so that its uses can be found by name.
type Secret string

// Reveal returns the value.
func (s Secret) Reveal() string { return string(s) }

// String returns Redacted.
func (Secret) String() string { return Redacted }

// GoString returns Redacted, for %#v.
func (Secret) GoString() string { return Redacted }

// MarshalText returns Redacted; encoding/json uses it too.
func (Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue returns Redacted.
func (Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }
