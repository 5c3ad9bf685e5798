package jobs

import "sallyport/internal/platform/clock"

// SetClock makes Linger follow a clock.
func (b *TurnBatcher[T]) SetClock(c clock.Clock) { b.clk = c }
