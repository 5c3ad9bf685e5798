package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
)

// A counting clock goes on as before when the clock under it is set, and moments of either show both.
func TestCounting(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, set := range []time.Duration{time.Hour, -time.Hour} {
		base := clock.NewManual(start)
		c, began := clock.Counting(base), clock.MomentOf(base)
		base.Advance(time.Minute)
		base.Set(set)
		base.Advance(time.Minute)
		require.Equal(t, start.Add(2*time.Minute), c.Now())
		now := clock.MomentOf(c)
		require.Equal(t, clock.MomentOf(base), now)
		require.Equal(t, 2*time.Minute, began.Elapsed(now))
		require.Equal(t, set, began.Jump(now))
		require.Equal(t, max(2*time.Minute, 2*time.Minute+set), began.AtMost(now))
	}
}

// The moments of the system's clock go on.
func TestMomentsOfTheSystem(t *testing.T) {
	t.Parallel()
	before := clock.MomentOf(clock.System())
	after := clock.MomentOf(clock.System())
	require.GreaterOrEqual(t, before.Elapsed(after), time.Duration(0))
	require.Less(t, before.AtMost(after), time.Hour)
	require.False(t, before.IsZero())
}
