package cache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"sallyport/internal/platform/clock"
)

// Timed holds immutable values that are loaded again when they are older than the caller accepts. It is for values of
// other systems, which have no version, and for those whose age must be bounded although versions cannot be compared.
// Callers that find a value too old at the same time share one load. It is safe for concurrent use.
type Timed[V any] struct {
	// Clock measures the age of values.
	Clock clock.Clock
	// Load reads the value of a key. Its errors are returned to the callers that waited for it, and then forgotten.
	Load func(ctx context.Context, key string) (V, error)
	// Timeout bounds one load; with 0, Load does that itself.
	Timeout time.Duration
	// Max bounds how many values are kept; 0 is no bound.
	Max int

	mu     sync.Mutex // never held over a load
	values map[string]timed[V]
	loads  singleflight.Group
}

type timed[V any] struct {
	value V
	// loaded is when the load began, so that the value is not older than it seems.
	loaded time.Time
}

// Get returns the value of the key if it is younger than age, and otherwise loads it.
func (t *Timed[V]) Get(ctx context.Context, key string, age time.Duration) (V, error) {
	kept, ok := t.kept(key)
	if since := t.Clock.Now().Sub(kept.loaded); ok && since >= 0 && since < age {
		return kept.value, nil
	}
	loading := t.loads.DoChan(key, func() (any, error) { return t.load(ctx, key) })
	var none V
	select {
	case <-ctx.Done():
		return none, fmt.Errorf("wait for a load: %w", ctx.Err())
	case r := <-loading:
		if r.Err != nil {
			return none, r.Err
		}
		value, _ := r.Val.(V) // load returns nothing else
		return value, nil
	}
}

// load loads a value for everyone who waits for it, so it does not end with the context of the first.
func (t *Timed[V]) load(ctx context.Context, key string) (V, error) {
	ctx = context.WithoutCancel(ctx)
	if t.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.Timeout)
		defer cancel()
	}
	began := t.Clock.Now()
	value, err := t.Load(ctx, key)
	if err == nil {
		t.keep(key, timed[V]{value, began})
	}
	return value, err
}

// Put keeps a value that the caller has just loaded.
func (t *Timed[V]) Put(key string, value V) { t.keep(key, timed[V]{value, t.Clock.Now()}) }

// Last returns the value that was loaded last, however old it is, and false if there is none.
func (t *Timed[V]) Last(key string) (V, bool) {
	kept, ok := t.kept(key)
	return kept.value, ok
}

func (t *Timed[V]) kept(key string) (timed[V], bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept, ok := t.values[key]
	return kept, ok
}

func (t *Timed[V]) keep(key string, value timed[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values == nil {
		t.values = map[string]timed[V]{}
	}
	t.values[key] = value
	for victim := range t.values { // map order is random enough to choose by
		if t.Max == 0 || len(t.values) <= t.Max {
			return
		}
		if victim != key {
			delete(t.values, victim)
		}
	}
}
