package jobs

import (
	"slices"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
)

// TurnBatcher is a Batcher whose items belong to owners. Owners take turns by what their items cost, so that one with
// many or expensive items delays an item of another by little: by the batch in progress, and by what the same cost of
// each other owner takes. (This is deficit round robin, by Shreedhar and Varghese, 1995.)
type TurnBatcher[T comparable] struct {
	limits TurnLimits
	of     func(item T) (owner string, cost int)
	flush  func(batch []T)
	wake   chan struct{}
	// linger is how long a batch waits for more items after a batch of several; 0 for never. It follows real time even
	// when a test stops the clock: it only decides how much is joined.
	linger  time.Duration
	several int
	clk     clock.Clock

	mu    sync.Mutex
	lanes map[string]*lane[T]
	// turns holds the lanes, the next one first.
	turns []*lane[T]
	batch []T
	// waiting counts the items of all lanes. While resting, items do not wake Run until they fill a batch.
	waiting int
	resting bool
}

// TurnLimits bounds the batches of a TurnBatcher.
type TurnLimits struct {
	// Items and Cost are the most of a batch. An item that costs more is a batch alone.
	Items, Cost int
	// Turn is what an owner may add to a batch while others have items. An item that costs more waits until its owner has
	// let that many turns pass, unless no one else has items.
	Turn int
}

// lane holds the waiting items of an owner, which is in turn for as long as there are any.
type lane[T comparable] struct {
	owner string
	items []T
	// credit is what the owner may still add in this turn, and has saved in those before.
	credit  int
	started bool
}

// NewTurnBatcher returns a batcher of batches that flush commits. flush must not keep the slice. of returns the owner
// and the cost of an item, which must not change while the item waits.
func NewTurnBatcher[T comparable](limits TurnLimits, of func(item T) (owner string, cost int),
	flush func(batch []T)) *TurnBatcher[T] {
	return &TurnBatcher[T]{limits: limits, of: of, flush: flush, wake: make(chan struct{}, 1),
		lanes: map[string]*lane[T]{}, clk: clock.System()}
}

// Linger makes a batch wait for d after a batch of at least several items, unless it is full already: under load fewer,
// larger batches cost less, while items that come one by one never wait. Call it before Run.
func (b *TurnBatcher[T]) Linger(several int, d time.Duration) { b.several, b.linger = several, d }

// Submit hands over an item.
func (b *TurnBatcher[T]) Submit(item T) {
	owner, _ := b.of(item)
	b.mu.Lock()
	l := b.lanes[owner]
	if l == nil {
		l = &lane[T]{owner: owner}
		b.lanes[owner] = l
		b.turns = append(b.turns, l)
	}
	l.items = append(l.items, item)
	b.waiting++
	quiet := b.resting && b.waiting < b.limits.Items
	b.mu.Unlock()
	if quiet {
		return
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Withdraw takes an item back that no batch has yet, and reports whether it did.
func (b *TurnBatcher[T]) Withdraw(item T) bool {
	owner, _ := b.of(item)
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[owner]
	if l == nil {
		return false
	}
	i := slices.Index(l.items, item)
	if i < 0 {
		return false
	}
	b.waiting--
	if l.items = slices.Delete(l.items, i, i+1); len(l.items) == 0 {
		b.remove(slices.Index(b.turns, l))
	}
	return true
}

// Run commits batches until stop is closed and every item submitted before is committed.
func (b *TurnBatcher[T]) Run(stop <-chan struct{}) {
	for {
		batch := b.take()
		if n := len(batch); n > 0 {
			b.flush(batch)
			clear(batch)
			b.rest(n, stop)
			continue
		}
		select {
		case <-b.wake:
		case <-stop:
			if batch := b.take(); len(batch) > 0 {
				b.flush(batch)
				continue
			}
			return
		}
	}
}

// rest lets items arrive after a batch of n items.
func (b *TurnBatcher[T]) rest(n int, stop <-chan struct{}) {
	if b.linger == 0 || n < b.several || !b.setResting(true) {
		return
	}
	defer b.setResting(false)
	t := b.clk.NewTimer(b.linger)
	defer t.Stop()
	for {
		select {
		case <-b.wake:
			if !b.setResting(true) {
				return
			}
		case <-t.C():
			return
		case <-stop:
			return
		}
	}
}

// setResting sets whether Run rests, which it does not while a batch is full, and reports whether it does.
func (b *TurnBatcher[T]) setResting(resting bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resting = resting && b.waiting < b.limits.Items
	return b.resting
}

// take removes the next batch; none if nothing waits.
func (b *TurnBatcher[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch, total, passed := b.batch[:0], 0, 0
	for len(b.turns) > 0 && len(batch) < b.limits.Items {
		l := b.turns[0]
		if !l.started {
			l.started = true
			l.credit += b.limits.Turn
		}
		_, cost := b.of(l.items[0])
		if cost > l.credit {
			if passed++; len(b.turns) > 1 && passed >= len(b.turns) && len(batch) > 0 {
				break // the others save for what they have
			}
			b.pass()
			continue
		}
		if total+cost > b.limits.Cost && len(batch) > 0 {
			break
		}
		passed = 0
		total += cost
		l.credit -= cost
		batch = append(batch, l.items[0])
		var none T
		l.items[0] = none
		b.waiting--
		if l.items = l.items[1:]; len(l.items) == 0 {
			b.remove(0)
		}
	}
	b.batch = batch
	return batch
}

// pass ends the turn of the first owner.
func (b *TurnBatcher[T]) pass() {
	l := b.turns[0]
	l.started = false
	copy(b.turns, b.turns[1:])
	b.turns[len(b.turns)-1] = l
}

// remove removes the lane at a place, with what its owner has saved.
func (b *TurnBatcher[T]) remove(i int) {
	delete(b.lanes, b.turns[i].owner)
	b.turns = slices.Delete(b.turns, i, i+1)
}
