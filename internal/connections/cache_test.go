package connections

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A read that began before a change cannot put back what the change removed.
func TestCacheRefusesWhatIsOlderThanADrop(t *testing.T) {
	t.Parallel()
	c := newCache()
	stale := &Inbound{}
	_, generation := c.get("segment")
	c.drop()
	c.put("segment", stale, generation)
	in, generation := c.get("segment")
	require.Nil(t, in)

	c.put("segment", stale, generation)
	in, _ = c.get("segment")
	require.Same(t, stale, in)

	_, generation = c.get("other")
	c.observe(7)
	c.put("other", stale, generation)
	in, _ = c.get("other")
	require.Nil(t, in)
}

// The cache is emptied when the version moves, in either direction, and only then.
func TestCacheFollowsTheVersion(t *testing.T) {
	t.Parallel()
	c := newCache()
	for _, step := range []struct {
		version int64
		kept    bool
	}{{0, false}, {0, true}, {3, false}, {3, true}, {2, false}} {
		_, generation := c.get("segment")
		c.put("segment", &Inbound{}, generation)
		c.observe(step.version)
		in, _ := c.get("segment")
		require.Equal(t, step.kept, in != nil, "version %d", step.version)
	}
}

// Many connections cannot make the cache grow without end.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newCache()
	_, generation := c.get("")
	for i := range maxCached + 10 {
		c.put(fmt.Sprint(i), &Inbound{}, generation)
	}
	require.Len(t, c.bySegment, maxCached)
	in, _ := c.get(fmt.Sprint(maxCached + 9))
	require.NotNil(t, in)
}
