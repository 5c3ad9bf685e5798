// Package cache keeps values in memory that were read from the database, and drops them when they may have changed: on
// every change by this process, and after a change by another process when the caller compares versions (see
// db.Versions). Timed is for values that go by their age instead.
package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// loadTimeout bounds one load. A load serves all callers that wait for it, so it does not end with the first one's
// context.
const loadTimeout = 5 * time.Second

var errLoad = errors.New("the load ended without a result")

// Cache holds immutable values that are read from the database when first requested. Callers that miss at the same time
// share one load. The zero Cache is empty and has no bound. It is safe for concurrent use.
//
// Dropping a key forgets its slot. A load that began before the drop continues in the forgotten slot, which only
// callers from before the drop have: an old load cannot be installed into a new slot.
type Cache[K comparable, V any] struct {
	// Max bounds how many values are kept; 0 is no bound. It must not change after the first use.
	Max int

	mu    sync.RWMutex
	slots map[K]*slot[V]
}

type slot[V any] struct {
	ready chan struct{} // closed when the fields below are set
	value V
	// version is the collection's version, read before the value.
	version int64
	err     error
}

// Get returns the value of the key. Load reads it, and the version that it returns before it: so the value is at least
// as new as the version. The error of a failed load is returned to the callers that waited for it and then forgotten.
func (c *Cache[K, V]) Get(ctx context.Context, key K, load func(context.Context) (V, int64, error)) (V, error) {
	s, first := c.slot(key)
	if first {
		c.fill(ctx, key, s, load)
		return s.value, s.err
	}
	select {
	case <-s.ready:
		return s.value, s.err
	default:
	}
	select {
	case <-s.ready:
		return s.value, s.err
	case <-ctx.Done():
		var none V
		return none, fmt.Errorf("wait for a load: %w", ctx.Err())
	}
}

// Reload loads the values of keys in one load, in place of those that are there. Callers of Get wait for it, and get
// the error missing for a key of which the load has no value.
func (c *Cache[K, V]) Reload(ctx context.Context, keys []K, missing error,
	load func(context.Context) (map[K]V, int64, error)) error {
	slots := make(map[K]*slot[V], len(keys))
	c.mu.Lock()
	if c.slots == nil {
		c.slots = map[K]*slot[V]{}
	}
	for _, key := range keys {
		if slots[key] == nil {
			slots[key] = &slot[V]{ready: make(chan struct{}), err: errLoad}
			c.slots[key] = slots[key]
		}
	}
	c.mu.Unlock()
	defer func() {
		for key, s := range slots {
			c.end(key, s)
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	values, version, err := load(ctx)
	for key, s := range slots {
		value, found := values[key]
		switch s.value, s.version = value, version; {
		case err != nil:
			s.err = err
		case !found:
			s.err = missing
		default:
			s.err = nil
		}
	}
	return err
}

// slot returns the key's slot, and true when the caller is the one to fill it.
func (c *Cache[K, V]) slot(key K) (*slot[V], bool) {
	c.mu.RLock()
	s := c.slots[key]
	c.mu.RUnlock()
	if s != nil {
		return s, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.slots[key]; s != nil {
		return s, false
	}
	s = &slot[V]{ready: make(chan struct{}), err: errLoad}
	if c.slots == nil {
		c.slots = map[K]*slot[V]{}
	}
	c.slots[key] = s
	return s, true
}

func (c *Cache[K, V]) fill(ctx context.Context, key K, s *slot[V], load func(context.Context) (V, int64, error)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	defer c.end(key, s)
	s.value, s.version, s.err = load(ctx)
}

// end ends the load of a slot, also of one that panicked.
func (c *Cache[K, V]) end(key K, s *slot[V]) {
	if s.err != nil {
		c.forget(key, s)
	} else {
		c.evict(key)
	}
	close(s.ready)
}

// forget drops the slot unless the key has a newer one.
func (c *Cache[K, V]) forget(key K, s *slot[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots[key] == s {
		delete(c.slots, key)
	}
}

// evict drops a value other than that of the key where there are too many. Failed loads never evict one.
func (c *Cache[K, V]) evict(key K) {
	if c.Max == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for victim := range c.slots { // map order is random enough to choose by
		if len(c.slots) <= c.Max {
			return
		}
		if victim != key {
			delete(c.slots, victim)
		}
	}
}

// DropAll empties the cache.
func (c *Cache[K, V]) DropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.slots)
}

// Drop makes the next Get of the key load again.
func (c *Cache[K, V]) Drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.slots, key)
}

// DropOthers drops every value that was read at another version, and every load in progress.
func (c *Cache[K, V]) DropOthers(version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, s := range c.slots {
		select {
		case <-s.ready:
			if s.version == version {
				continue
			}
		default:
		}
		delete(c.slots, key)
	}
}
