package connections

import "sync"

// maxCached bounds the cache. Only segments that name a connection are kept, so a stranger cannot fill it.
const maxCached = 20_000

// cache holds snapshots by path segment. A generation counts how often it was emptied: a snapshot read before that is
// not kept, so a slow read cannot bring back what a change has just removed.
type cache struct {
	mu         sync.RWMutex
	bySegment  map[string]*Inbound
	generation uint64
	// version is the collection's version when the cache was last compared with it; -1 before that.
	version int64
}

func newCache() *cache { return &cache{bySegment: map[string]*Inbound{}, version: -1} }

// get returns the snapshot, or nil and the generation to hand to put.
func (c *cache) get(segment string) (*Inbound, uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.bySegment[segment], c.generation
}

// put keeps a snapshot that was read since the given generation began.
func (c *cache) put(segment string, in *Inbound, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return
	}
	if len(c.bySegment) >= maxCached {
		for victim := range c.bySegment { // map order is random enough to choose by
			delete(c.bySegment, victim)
			break
		}
	}
	c.bySegment[segment] = in
}

// drop empties the cache.
func (c *cache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked()
}

// observe empties the cache when the collection's version is another than the one last seen.
func (c *cache) observe(version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == version {
		return
	}
	c.version = version
	c.dropLocked()
}

func (c *cache) dropLocked() {
	c.generation++
	c.bySegment = map[string]*Inbound{}
}
