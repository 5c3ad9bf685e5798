package ingest

import (
	"net/netip"
	"sync"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// errOverloaded is the error when the bodies that arrive have used up a budget, or a sender its share of one.
//
//nolint:gochecknoglobals,errname // one value, so that the metric can recognise it
var errOverloaded error = apperr.New(apperr.CodeUnavailable, "Too many large webhooks are arriving; try again").
	RetryIn(time.Second)

// holder is who a body counts for: its sender, and before anything is verified also the connection that it names.
type holder struct {
	source      netip.Addr
	connection  string
	environment id.Environment
}

// sender returns the sender at the connection.
func (h holder) sender() holder { return holder{source: h.source, connection: h.connection} }

const (
	// environmentFactor is how many times what is free all bodies of an environment may hold, connectionFactor those of a
	// connection, and senderFactor how many times what its connection may still take those of one sender to it. So others
	// find room as long as few are greedy, and no one has to know how many there are.
	environmentFactor, connectionFactor, senderFactor = 3, 1, 2
	// arrivingPart is the part of a budget that bodies over slowOver may use while they arrive, and arrivingShare that of
	// one connection.
	arrivingPart, arrivingShare = 2, 8
)

// budget is a number of bytes that all bodies share, of which no sender, connection and environment holds more than its
// share. It is safe for concurrent use.
type budget struct {
	size, share int64
	// scarce is set if a connection's share is less than a largest body. Then one body at a time may exceed it.
	scarce bool

	mu   sync.Mutex
	free int64
	held map[netip.Addr]int64
	// senders, connections and environments hold what each has: a sender at each connection.
	senders      map[holder]int64
	connections  map[string]int64
	environments map[id.Environment]int64
}

// newBudget returns a budget of size bytes. A source's share is half of it, so that one source cannot block the others,
// but never less than one largest body, which would otherwise always be refused.
func newBudget(size, largestBody int64) *budget {
	return &budget{size: size, share: min(size, max(size/2, largestBody)), scarce: size/2 < largestBody, free: size,
		held: map[netip.Addr]int64{}, senders: map[holder]int64{}, connections: map[string]int64{},
		environments: map[id.Environment]int64{}}
}

// take takes n bytes for a body that has own bytes already.
func (b *budget) take(h holder, own, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n == 0 {
		return true
	}
	if n > b.free || b.held[h.source]+n > b.share || !b.fits(h, own, n) {
		return false
	}
	b.change(h, n)
	return true
}

// takeEarly is take for a body that could wait in a file.
func (b *budget) takeEarly(h holder, own, n int64) bool {
	b.mu.Lock()
	early := b.size-b.free+n <= b.size/arrivingPart && b.connections[h.connection]+n <= b.size/arrivingShare
	b.mu.Unlock()
	return early && b.take(h, own, n)
}

// fits reports whether n bytes more are within the shares of the connection, its environment and its sender.
func (b *budget) fits(h holder, own, n int64) bool {
	atConnection := b.connections[h.connection]
	if b.scarce && atConnection == own {
		return true
	}
	free := b.free - n
	left := connectionFactor*free - (atConnection + n)
	sent := b.senders[h.sender()]
	return left >= 0 && b.environments[h.environment]+n <= environmentFactor*free &&
		(sent == own || sent+n <= senderFactor*left)
}

func (b *budget) give(h holder, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.change(h, -n)
}

func (b *budget) change(h holder, n int64) {
	b.free -= n
	add(b.held, h.source, n)
	add(b.senders, h.sender(), n)
	add(b.connections, h.connection, n)
	add(b.environments, h.environment, n)
}

// add adds n to what a map counts for a key, and forgets the key at 0, so that there are only as many as bodies.
func add[K comparable](m map[K]int64, key K, n int64) {
	if m[key] += n; m[key] == 0 {
		delete(m, key)
	}
}

// lease is one body's share of a budget. A nil lease holds nothing.
type lease struct {
	of *budget
	holder
	held int64
}

// grow makes the lease hold size bytes in all, or returns errOverloaded and leaves it as it is.
func (l *lease) grow(size int64) error {
	if !l.of.take(l.holder, l.held, size-l.held) {
		return errOverloaded
	}
	l.held = size
	return nil
}

// growEarly is grow for a body that could wait in a file.
func (l *lease) growEarly(size int64) bool {
	if !l.of.takeEarly(l.holder, l.held, size-l.held) {
		return false
	}
	l.held = size
	return true
}

// shrink returns all but size bytes to the budget.
func (l *lease) shrink(size int64) {
	l.of.give(l.holder, l.held-size)
	l.held = size
}

// release returns everything to the budget; releasing twice is harmless.
func (l *lease) release() {
	if l != nil && l.held > 0 {
		l.shrink(0)
	}
}
