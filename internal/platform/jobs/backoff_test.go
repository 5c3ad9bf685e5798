package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// However many failures there were, the wait is within the jitter of what it should be, and never beyond the greatest.
func TestBackoff(t *testing.T) {
	t.Parallel()
	b := Backoff{First: 5 * time.Second, Max: 10 * time.Minute}
	for failures, seconds := range map[int64]int{0: 5, 1: 5, 2: 10, 3: 20, 7: 320, 8: 600, 9: 600, 1 << 40: 600} {
		require.Equal(t, time.Duration(seconds)*time.Second, b.wait(failures, 0.9), "%d failures", failures)
	}
	b.Jitter = 0.2
	rapid.Check(t, func(rt *rapid.T) {
		failures := rapid.Int64Range(1, 100).Draw(rt, "failures")
		wait := b.wait(failures, rapid.Float64Range(0, 1).Draw(rt, "random"))
		middle := Backoff{First: b.First, Max: b.Max}.wait(failures, 0)
		require.InDelta(rt, middle.Seconds(), wait.Seconds(), 0.2*middle.Seconds()+0.001)
	})
	require.Equal(t, 8*time.Second, Jitter(10*time.Second, 0.2, 0))
	require.Equal(t, 12*time.Second, Jitter(10*time.Second, 0.2, 1))
}

// Claim ids of a node begin with its name, and no two are the same, in any processes.
func TestClaims(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 20 {
		c := NewClaims("node")
		for range 50 {
			id := c.Next()
			require.False(t, seen[id])
			seen[id] = true
			require.True(t, strings.HasPrefix(id, c.NodePrefix()))
		}
	}
}
