package subscriptions

import (
	"sync"

	"sallyport/internal/webhooks/filters"
)

// filterGeneration is how many filters a generation of the cache holds.
const filterGeneration = 4096

// filterCache keeps filters by their text, so that a change of one subscription does not compile those of all others
// again. It has two generations: a full one replaces the other, so a filter that is used in neither is dropped.
type filterCache struct {
	mu           sync.Mutex
	young, older map[string]*filters.Filter
}

// get returns the filter of a text. It returns the same filter as long as the cache keeps it.
func (c *filterCache) get(text string) *filters.Filter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.young[text]; f != nil {
		return f
	}
	f := c.older[text]
	if f == nil {
		f = filters.New(text)
	}
	if c.young == nil || len(c.young) >= filterGeneration {
		c.young, c.older = map[string]*filters.Filter{}, c.young
	}
	c.young[text] = f
	return f
}
