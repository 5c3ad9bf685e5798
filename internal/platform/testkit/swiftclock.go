package testkit

import (
	"time"

	"sallyport/internal/platform/clock"
)

// SwiftClock returns the system's clock with timers that fire in a twentieth of their time, so that periodic work
// happens often.
func SwiftClock() clock.Clock { return swift{clock.System()} }

type swift struct{ clock.Clock }

func (s swift) NewTimer(d time.Duration) clock.Timer { return s.Clock.NewTimer(d / 20) }
