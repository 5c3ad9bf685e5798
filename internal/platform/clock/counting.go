package clock

import "time"

// Counting returns a clock that shows the time of base now and then counts what passes: it never jumps if the time of
// base does. It suits times that only this process compares.
func Counting(base Clock) Clock {
	return &counting{Clock: base, start: base.Now().Round(0), from: MomentOf(base)}
}

type counting struct {
	Clock
	start time.Time
	from  Moment
}

func (c *counting) Now() time.Time { return c.start.Add(c.from.Elapsed(MomentOf(c.Clock))) }

func (c *counting) Moment() Moment { return MomentOf(c.Clock) }
