package team

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A value that was read before a change is not kept after it.
func TestRetentionCacheForgetsOldReads(t *testing.T) {
	t.Parallel()
	var c retentionCache
	_, generation, ok := c.get("env_a")
	require.False(t, ok)
	c.drop()
	c.put("env_a", Retention{}, generation)
	_, generation, ok = c.get("env_a")
	require.False(t, ok)
	c.put("env_a", Retention{PayloadDays: new(int64(1))}, generation)
	r, _, ok := c.get("env_a")
	require.True(t, ok)
	require.EqualValues(t, 1, *r.PayloadDays)
	c.observe(0)
	_, _, ok = c.get("env_a")
	require.True(t, ok, "nothing has changed")
	c.observe(1)
	_, _, ok = c.get("env_a")
	require.False(t, ok)
}
