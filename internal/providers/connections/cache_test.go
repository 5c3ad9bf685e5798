package connections

import (
	"fmt"
	"testing"
	"testing/synctest"

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

// A delivery that arrives after a change is not given the result of a read that began before it; deliveries that arrive
// together share one read.
func TestReadsAreSharedWithinAGeneration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Service{}
		release := make(chan struct{})
		old, fresh := &Inbound{}, &Inbound{ByAlias: true}
		results := make([]*Inbound, 3)
		look := func(i int, generation uint64, read func() (*Inbound, error)) {
			go func() { results[i], _ = s.once("segment", generation, read) }()
			synctest.Wait()
		}
		look(0, 1, func() (*Inbound, error) { <-release; return old, nil })
		look(1, 1, func() (*Inbound, error) { return fresh, nil })
		look(2, 2, func() (*Inbound, error) { return fresh, nil })
		close(release)
		synctest.Wait()
		require.Same(t, old, results[0])
		require.Same(t, old, results[1])
		require.Same(t, fresh, results[2])
	})
}
