package testkit

import (
	"time"

	"sallyport/internal/platform/id"
)

// UUIDs returns a function whose calls return UUIDv7s that carry a time: each a millisecond later than the one before,
// so that they sort in the order of the calls. Events that tests have received at that time get them, as they would
// have then.
func UUIDs(at time.Time) func() string {
	return func() string {
		const timeLength = 13 // of 36 characters
		uuid := id.FirstUUID(at)[:timeLength] + id.NewUUID()[timeLength:]
		at = at.Add(time.Millisecond)
		return uuid
	}
}
