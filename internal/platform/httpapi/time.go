package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/clock"
)

// Time is the wire form of a time: RFC 3339 in UTC with milliseconds, the precision of stored times. It reads any RFC
// 3339 time and truncates it to the millisecond. A field that can be null is a *Time with the tag nullable:"true".
type Time time.Time

// TimeMillis returns the wire form of a stored time in Unix milliseconds.
func TimeMillis(ms int64) Time { return Time(clock.FromMillis(ms)) }

// TimePtr returns the wire form of a stored time that can be absent.
func TimePtr(ms *int64) *Time {
	if ms == nil {
		return nil
	}
	t := TimeMillis(*ms)
	return &t
}

// Millis returns the time as Unix milliseconds.
func (t Time) Millis() int64 { return clock.Millis(time.Time(t)) }

// MillisPtr returns the time as Unix milliseconds, or nil if it is absent.
func (t *Time) MillisPtr() *int64 {
	if t == nil {
		return nil
	}
	ms := t.Millis()
	return &ms
}

// String returns the wire form.
func (t Time) String() string { return clock.Wire(time.Time(t)) }

// MarshalJSON writes the wire form as a string.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// UnmarshalJSON reads an RFC 3339 time.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read a time: %w", err)
	}
	return t.UnmarshalText([]byte(s))
}

// exactTime is the form of RFC 3339 section 5.6. time.Parse accepts more: an hour of one digit, a comma as the decimal
// point, and offsets of 24 hours.
var exactTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

var errTime = errors.New("read a time: not in the form of RFC 3339")

// UnmarshalText reads an RFC 3339 time, for parameters.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339, string(b))
	if err != nil || !exactTime.Match(b) {
		return errTime
	}
	*t = TimeMillis(clock.Millis(v))
	return nil
}

// Schema returns the schema of the wire form.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}
