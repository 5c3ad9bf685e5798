// Package turnstile lets a few pieces of work run at a time, and their owners in turn.
package turnstile

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
)

// retryIn is when a client may retry what has waited in vain.
const retryIn = time.Second

// Gate lets a few pieces of work in at a time, and their owners in turn: the next place goes to the owner who has
// waited longest since its last one, so an owner with much work delays others by no more than the pieces in progress.
type Gate struct {
	// places is how many may be inside, and each how many of one owner.
	places, each int
	// wait limits how long a piece waits.
	wait time.Duration
	// busy is the error after that.
	busy string
	clk  clock.Clock

	mu     sync.Mutex
	inside map[string]int
	total  int
	// turns holds the owners that wait, the next one first.
	turns []*queue

	waiting, refused, waited atomic.Int64
}

// queue holds the waiting work of an owner. Each piece is let in by closing its channel.
type queue struct {
	owner string
	work  []chan struct{}
}

// New returns a Gate with a number of places, of which one owner gets up to each. After wait, the error of a piece of
// work is unavailable with the message busy.
func New(places, each int, wait time.Duration, busy string) *Gate {
	return &Gate{places: places, each: each, wait: wait, busy: busy, clk: clock.System(), inside: map[string]int{}}
}

// Counts describes what has waited at a Gate.
type Counts struct {
	// Waiting counts the work that waits now, and Refused the work that has waited in vain.
	Waiting, Refused int64
	// Waited is how long work has waited, in total.
	Waited time.Duration
}

// Counts returns the present counts.
func (g *Gate) Counts() Counts {
	return Counts{Waiting: g.waiting.Load(), Refused: g.refused.Load(), Waited: time.Duration(g.waited.Load())}
}

// Enter waits for a turn of the owner. The caller calls leave, once, when it is done.
func (g *Gate) Enter(ctx context.Context, owner string) (leave func(), err error) {
	leave = func() { g.leave(owner) }
	entered := g.queueUp(owner)
	select {
	case <-entered:
		return leave, nil
	default:
	}
	g.waiting.Add(1)
	began := g.clk.Now()
	defer func() {
		g.waiting.Add(-1)
		g.waited.Add(int64(g.clk.Now().Sub(began)))
	}()
	bounded, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	select {
	case <-entered:
		return leave, nil
	case <-bounded.Done():
	}
	if !g.quit(owner, entered) { // it was let in at the same moment
		return leave, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.refused.Add(1)
	return nil, apperr.New(apperr.CodeUnavailable, g.busy).RetryIn(retryIn)
}

// queueUp returns a channel that is closed when the work is let in.
func (g *Gate) queueUp(owner string) chan struct{} {
	entered := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.turns, func(q *queue) bool { return q.owner == owner })
	if i < 0 {
		i = len(g.turns)
		g.turns = append(g.turns, &queue{owner: owner})
	}
	g.turns[i].work = append(g.turns[i].work, entered)
	g.letIn()
	return entered
}

// quit removes work that waits no longer, and reports whether it was still waiting.
func (g *Gate) quit(owner string, entered chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, q := range g.turns {
		if at := slices.Index(q.work, entered); q.owner == owner && at >= 0 {
			if q.work = slices.Delete(q.work, at, at+1); len(q.work) == 0 {
				g.turns = slices.Delete(g.turns, i, i+1)
			}
			return true
		}
	}
	return false
}

func (g *Gate) leave(owner string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	if g.inside[owner]--; g.inside[owner] == 0 {
		delete(g.inside, owner)
	}
	g.letIn()
}

// letIn fills the free places: one piece of work of the first owner that may have another place, which then goes to the
// end.
func (g *Gate) letIn() {
	for g.total < g.places {
		i := slices.IndexFunc(g.turns, func(q *queue) bool { return g.inside[q.owner] < g.each })
		if i < 0 {
			return
		}
		q := g.turns[i]
		g.turns = slices.Delete(g.turns, i, i+1)
		g.total++
		g.inside[q.owner]++
		close(q.work[0])
		if q.work = q.work[1:]; len(q.work) > 0 {
			g.turns = append(g.turns, q)
		}
	}
}
