package deliveries

import (
	"container/heap"
	"container/list"
	"sync"
	"time"

	"sallyport/internal/platform/id"
)

// backlog knows which subscriptions have deliveries that wait in the table, and when the first of each is due, so that
// a claim goes by subscription and looks at none in vain. It learns of them from the changes of this process, and from
// the follower, which finds those of other processes and of the past. It need not be right: a claim finds out.
type backlog struct {
	mu   sync.Mutex
	subs map[string]*backlogged
	// ring holds the environments with subscriptions that are ready, each a *list.List of them.
	ring         list.List
	environments map[id.Environment]*list.Element
	later        laterHeap
}

// backlogged is a subscription with deliveries in the table.
type backlogged struct {
	env            id.Environment
	subscriptionID string
	// due is when the first of its deliveries is due that are known to wait, if known is set.
	due   time.Time
	known bool
	// notBefore is the earliest time of the next claim after one that the database refused.
	notBefore time.Time
	state     backlogState
	// freed is set when places in memory were freed since the turn began.
	freed bool
	// element is its place in the list of its environment while it is ready, index that in the heap while it is later.
	element *list.Element
	index   int
}

// backlogState says what a subscription with deliveries in the table waits for.
type backlogState int

const (
	// backlogLater waits for the time at which its first delivery is due.
	backlogLater backlogState = iota
	// backlogReady waits for its turn.
	backlogReady
	// backlogClaiming is being claimed for.
	backlogClaiming
	// backlogBlocked has no room in memory.
	backlogBlocked
)

func newBacklog() *backlog {
	return &backlog{subs: map[string]*backlogged{}, environments: map[id.Environment]*list.Element{}}
}

// note records that a delivery of the subscription waits in the table and when it is due.
func (b *backlog) note(env id.Environment, subscriptionID string, due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.subs[subscriptionID]
	if x == nil {
		x = &backlogged{env: env, subscriptionID: subscriptionID, due: due, known: true}
		b.subs[subscriptionID] = x
		heap.Push(&b.later, x)
		return
	}
	if due.Before(x.notBefore) {
		due = x.notBefore
	}
	if !x.known || due.Before(x.due) {
		x.due, x.known = due, true
		if x.state == backlogLater {
			heap.Fix(&b.later, x.index)
		}
	}
}

// isBehind reports whether deliveries of the subscription that were due are known to wait in the table.
func (b *backlog) isBehind(subscriptionID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.subs[subscriptionID]
	return x != nil && x.state != backlogLater
}

// next returns the next subscription in turn with deliveries that are due, and nil if there is none. Environments take
// turns, except those to skip. The caller ends the turn with retry, block, suspend or end.
func (b *backlog) next(now time.Time, skip map[id.Environment]bool) *backlogged {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.later) > 0 && !b.later[0].due.After(now) {
		if x, ok := heap.Pop(&b.later).(*backlogged); ok {
			b.makeReady(x)
		}
	}
	for range b.ring.Len() {
		element := b.ring.Front()
		ready, ok := element.Value.(*list.List)
		if !ok {
			return nil
		}
		b.ring.MoveToBack(element)
		x, ok := ready.Front().Value.(*backlogged)
		if !ok || skip[x.env] {
			continue
		}
		b.takeTurn(x)
		x.state, x.known, x.freed = backlogClaiming, x.known && x.due.After(now), false
		return x
	}
	return nil
}

// retry ends a turn after which more is known to wait, or nothing is known.
func (b *backlog) retry(x *backlogged) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.makeReady(x)
}

// block ends the turn of a subscription that has no room in memory; unblock continues. If places were freed since the
// turn began, there may be room now, and no other unblock may follow: then it gets another turn.
func (b *backlog) block(x *backlogged) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.freed {
		b.makeReady(x)
		return
	}
	x.state = backlogBlocked
}

// suspend ends a turn whose claim the database refused; the next is not before the time given.
func (b *backlog) suspend(x *backlogged, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x.notBefore, x.due, x.known, x.state = until, until, true, backlogLater
	heap.Push(&b.later, x)
}

// end ends a turn after which nothing waits that was due when it began.
func (b *backlog) end(x *backlogged) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !x.known {
		delete(b.subs, x.subscriptionID)
		return
	}
	x.state = backlogLater
	heap.Push(&b.later, x)
}

// unblock gives the subscription another turn, because one of its places in memory is free.
func (b *backlog) unblock(subscriptionID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.subs[subscriptionID]
	switch {
	case x == nil:
	case x.state == backlogBlocked:
		b.makeReady(x)
	case x.state == backlogClaiming:
		x.freed = true
	}
}

// hasReady reports whether a subscription waits for its turn.
func (b *backlog) hasReady() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ring.Len() > 0
}

// nextDue returns when the first delivery that is not due yet will be, and false if none is known.
func (b *backlog) nextDue() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.later) == 0 {
		return time.Time{}, false
	}
	return b.later[0].due, true
}

func (b *backlog) makeReady(x *backlogged) {
	element := b.environments[x.env]
	if element == nil {
		element = b.ring.PushBack(list.New())
		b.environments[x.env] = element
	}
	x.state = backlogReady
	if ready, ok := element.Value.(*list.List); ok {
		x.element = ready.PushBack(x)
	}
}

// takeTurn removes x from the list of its environment.
func (b *backlog) takeTurn(x *backlogged) {
	element := b.environments[x.env]
	ready, ok := element.Value.(*list.List)
	if !ok {
		return
	}
	ready.Remove(x.element)
	x.element = nil
	if ready.Len() == 0 {
		b.ring.Remove(element)
		delete(b.environments, x.env)
	}
}

// laterHeap is a heap by due time, for container/heap.
type laterHeap []*backlogged

func (h laterHeap) Len() int           { return len(h) }
func (h laterHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

func (h laterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *laterHeap) Push(v any) {
	if x, ok := v.(*backlogged); ok {
		x.index = len(*h)
		*h = append(*h, x)
	}
}

// Pop implements heap.Interface.
func (h *laterHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}
