package jobs

import (
	"math"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/clock"
)

// Batcher joins the items that many goroutines submit into batches, which one goroutine commits. An idle service
// commits each item immediately; a busy one commits the items that arrived while it committed the batch before.
type Batcher[T any] struct {
	in    chan T
	limit int
	flush func(batch []T)
	// pace is the least time between the starts of two batches that are not full.
	pace time.Duration
	// wanted is how many items in the channel fill the batch that waits for its pace, and filled says that there are as
	// many: the goroutine that commits sleeps until then instead of waking for each item.
	wanted atomic.Int64
	filled chan struct{}
}

// Pace makes batches that are not full start at least d apart, for items that no caller waits for: fewer, larger
// batches cost less. The first item after a pause is still committed immediately. Call it before Run.
func (b *Batcher[T]) Pace(d time.Duration) { b.pace = d }

// NewBatcher returns a batcher of at most limit items a batch, which flush commits. flush must not keep the slice.
func NewBatcher[T any](limit int, flush func(batch []T)) *Batcher[T] {
	b := &Batcher[T]{in: make(chan T, limit*2), limit: limit, flush: flush, filled: make(chan struct{}, 1)}
	b.wanted.Store(math.MaxInt64)
	return b
}

// Put hands over an item; it waits while two batches are full already.
func (b *Batcher[T]) Put(item T) {
	b.in <- item
	if int64(len(b.in)) < b.wanted.Load() {
		return
	}
	select {
	case b.filled <- struct{}{}:
	default:
	}
}

// Run commits batches until stop is closed and every item submitted before is committed.
func (b *Batcher[T]) Run(stop <-chan struct{}) {
	batch := make([]T, 0, b.limit)
	// The pace follows real time even when a test stops the clock: it only decides how much is joined.
	clk := clock.System()
	last := clk.Now().Add(-b.pace)
	for {
		select {
		case item := <-b.in:
			batch = append(batch[:0], item)
		case <-stop:
			select {
			case item := <-b.in:
				batch = append(batch[:0], item)
			default:
				return
			}
		}
		batch = b.gather(batch)
		if wait := b.pace - clk.Now().Sub(last); wait > 0 && len(batch) < b.limit {
			batch = b.linger(batch, clk.NewTimer(wait), stop)
		}
		last = clk.Now()
		b.flush(batch)
		clear(batch)
	}
}

// linger gathers until the timer fires, the batch is full, or stop is closed.
func (b *Batcher[T]) linger(batch []T, t clock.Timer, stop <-chan struct{}) []T {
	defer t.Stop()
	defer b.wanted.Store(math.MaxInt64)
	for {
		if batch = b.gather(batch); len(batch) == b.limit {
			return batch
		}
		b.wanted.Store(int64(b.limit - len(batch)))
		if int64(len(b.in)) >= b.wanted.Load() {
			continue // they came before Put could see what is wanted
		}
		select {
		case <-b.filled: // or was, before the last batch
		case <-t.C():
			return b.gather(batch)
		case <-stop:
			return b.gather(batch)
		}
	}
}

func (b *Batcher[T]) gather(batch []T) []T {
	for len(batch) < b.limit {
		select {
		case item := <-b.in:
			batch = append(batch, item)
		default:
			return batch
		}
	}
	return batch
}
