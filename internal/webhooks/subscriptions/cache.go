package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// loadTimeout bounds one load. A load serves everybody who waits for it, so it does not end with the first one's
// context.
const loadTimeout = 5 * time.Second

var errLoad = errors.New("the load ended without a result")

// cache holds immutable values that are read from the database when first asked for and dropped when they may have
// changed. Who asks while a load runs waits for it.
//
// Dropping a key forgets its slot. A load that began before the drop goes on in the forgotten slot, where only those
// who asked before the drop find it: the identity of the slot is the generation, and an old load cannot be installed
// into a new one.
type cache[K comparable, V any] struct {
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

// loader reads a value. The version it returns with it was read first, so that the value is at least as new.
type loader[V any] func(ctx context.Context) (value V, version int64, err error)

// get returns the value of the key. A failed load is told to those who waited for it and then forgotten.
func (c *cache[K, V]) get(ctx context.Context, key K, load loader[V]) (V, error) {
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

// slot returns the key's slot, and true when the caller is the one to fill it.
func (c *cache[K, V]) slot(key K) (*slot[V], bool) {
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

func (c *cache[K, V]) fill(ctx context.Context, key K, s *slot[V], load loader[V]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	defer func() {
		if s.err != nil { // also when load panicked
			c.forget(key, s)
		}
		close(s.ready)
	}()
	s.value, s.version, s.err = load(ctx)
}

// forget drops the slot unless the key has a newer one.
func (c *cache[K, V]) forget(key K, s *slot[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots[key] == s {
		delete(c.slots, key)
	}
}

// drop makes the next get of the key load again.
func (c *cache[K, V]) drop(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.slots, key)
}

// dropOthers drops every value that was read at another version, and every load that is still under way.
func (c *cache[K, V]) dropOthers(version int64) {
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
