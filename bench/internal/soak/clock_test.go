//go:build linux

package soak

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A step moves what the wall clock shows and not how much time has passed, as on a machine whose clock is set.
func TestSteppedClock(t *testing.T) {
	t.Parallel()
	for _, step := range []int64{3600, -3600, 0} {
		c := newSteppedClock(0)
		before := c.Now()
		c.seconds.Store(step)
		after := c.Now()
		elapsed := after.Sub(before)
		require.GreaterOrEqual(t, elapsed, time.Duration(0))
		require.Less(t, elapsed, time.Minute, "the monotonic part continues")
		require.InDelta(t, step, after.Round(0).Sub(before.Round(0)).Seconds(), time.Minute.Seconds())
	}
}

// A node's clock follows the lines of its input, and ignores others.
func TestFollow(t *testing.T) {
	t.Parallel()
	c := newSteppedClock(1)
	c.follow(strings.NewReader("60\nnothing\n-5\n"))
	require.EqualValues(t, -5, c.seconds.Load())
}
