package signin

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The delay never shrinks as failures grow, and never exceeds its bound.
func TestDelayGrows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := bucket{free: rapid.Int64Range(0, 100).Draw(t, "free")}
		n := rapid.Int64Range(0, 1<<40).Draw(t, "failures")
		require.LessOrEqual(t, b.delay(n), b.delay(n+1))
		require.LessOrEqual(t, b.delay(n), maxDelay)
		require.Equal(t, n <= b.free, b.delay(n) == 0)
	})
}
