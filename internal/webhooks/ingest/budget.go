package ingest

import (
	"net/netip"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
)

// errOverloaded is the error when the bodies that arrive have used up a budget, or a sender its share of one.
//
//nolint:gochecknoglobals,errname // one value, so that the metric can recognise it
var errOverloaded error = apperr.New(apperr.CodeUnavailable, "Too many large webhooks are arriving; try again").
	RetryIn(time.Second)

// budget is a number of bytes that all bodies share, of which no source holds more than its share. It is safe for
// concurrent use.
type budget struct {
	share int64

	mu   sync.Mutex
	free int64
	held map[netip.Addr]int64
}

// newBudget returns a budget of size bytes. A source's share is half of it, so that one source cannot block the others,
// but never less than one largest body, which would otherwise always be refused.
func newBudget(size, largestBody int64) *budget {
	return &budget{share: min(size, max(size/2, largestBody)), free: size, held: map[netip.Addr]int64{}}
}

func (b *budget) take(source netip.Addr, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.free || b.held[source]+n > b.share {
		return false
	}
	b.free -= n
	b.held[source] += n
	return true
}

func (b *budget) give(source netip.Addr, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	if b.held[source] -= n; b.held[source] == 0 {
		delete(b.held, source) // so that there are only as many sources as bodies
	}
}

// lease is one body's share of a budget. A nil lease holds nothing.
type lease struct {
	of     *budget
	source netip.Addr
	held   int64
}

// grow makes the lease hold size bytes in all, or returns errOverloaded and leaves it as it is.
func (l *lease) grow(size int64) error {
	if !l.of.take(l.source, size-l.held) {
		return errOverloaded
	}
	l.held = size
	return nil
}

// shrink returns all but size bytes to the budget.
func (l *lease) shrink(size int64) {
	l.of.give(l.source, l.held-size)
	l.held = size
}

// release returns everything to the budget; releasing twice is harmless.
func (l *lease) release() {
	if l != nil && l.held > 0 {
		l.shrink(0)
	}
}
