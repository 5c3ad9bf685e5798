package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/jobs"
)

// piece is an item of a TurnBatcher.
type piece struct {
	owner   string
	n, cost int
}

func ownerOf(p *piece) (string, int) { return p.owner, p.cost }

// runTurns submits pieces, runs the batcher until all are committed, and returns the batches.
func runTurns(limits jobs.TurnLimits, pieces []*piece) (batches [][]*piece) {
	b := jobs.NewTurnBatcher(limits, ownerOf, func(batch []*piece) {
		batches = append(batches, append([]*piece{}, batch...))
	})
	for _, p := range pieces {
		b.Submit(p)
	}
	stop := make(chan struct{})
	close(stop)
	b.Run(stop)
	return batches
}

// A batch holds what the limits allow, or one item that costs more. Every item is in one batch, those of an owner in
// the order of their submission.
func TestTurnBatcherKeepsAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := jobs.TurnLimits{Items: rapid.IntRange(1, 10).Draw(t, "items"), Cost: rapid.IntRange(1, 50).Draw(t, "cost"),
			Turn: rapid.IntRange(1, 50).Draw(t, "turn")}
		var pieces []*piece
		for n := range rapid.IntRange(0, 60).Draw(t, "n") {
			pieces = append(pieces, &piece{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "owner"), n,
				rapid.IntRange(0, 80).Draw(t, "cost of one")})
		}
		last, seen := map[string]int{}, 0
		for _, batch := range runTurns(limits, pieces) {
			total := 0
			require.LessOrEqual(t, len(batch), limits.Items)
			for _, p := range batch {
				total += p.cost
				seen++
				require.Greater(t, p.n+1, last[p.owner])
				last[p.owner] = p.n + 1
			}
			require.True(t, total <= limits.Cost || len(batch) == 1, "%d for %d", total, len(batch))
		}
		require.Len(t, pieces, seen)
	})
}

// An owner whose items are few and cheap waits for a batch or two, no matter how many items another has waiting before
// and how expensive they are.
func TestTurnBatcherDelaysNoOwner(t *testing.T) {
	t.Parallel()
	limits := jobs.TurnLimits{Items: 100, Cost: 500, Turn: 100}
	for _, cost := range []int{1, 5, 90, 101, 482, 2300} {
		t.Run(fmt.Sprint(cost), func(t *testing.T) {
			t.Parallel()
			var pieces []*piece
			for n := range 1000 {
				pieces = append(pieces, &piece{"a", n, cost})
			}
			for n := range 3 {
				pieces = append(pieces, &piece{"b", n, 5})
			}
			before, found := 0, 0
			for _, batch := range runTurns(limits, pieces) {
				for _, p := range batch {
					if p.owner == "b" {
						found++
					} else if found < 3 {
						before += p.cost
					}
				}
			}
			require.Equal(t, 3, found)
			require.LessOrEqual(t, before, 2*limits.Turn)
		})
	}
}

// An owner who is alone fills the batch: each transaction has a price of its own.
func TestTurnBatcherFillsBatchOfOneOwner(t *testing.T) {
	t.Parallel()
	var pieces []*piece
	for n := range 200 {
		pieces = append(pieces, &piece{"a", n, 5})
	}
	batches := runTurns(jobs.TurnLimits{Items: 100, Cost: 450, Turn: 100}, pieces)
	require.Len(t, batches, 3)
	require.Len(t, batches[0], 90)
}

// After a batch of several items, the next waits until it is full or its time has expired; after a smaller one it does
// not.
func TestTurnBatcherLingers(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Now())
	batches, goOn := make(chan int), make(chan struct{})
	b := jobs.NewTurnBatcher(jobs.TurnLimits{Items: 10, Cost: 100, Turn: 100}, ownerOf,
		func(batch []*piece) {
			batches <- len(batch)
			<-goOn
		})
	b.SetClock(clk)
	b.Linger(3, time.Second)
	submit := func(n int) {
		for range n {
			b.Submit(&piece{"a", 0, 1})
		}
	}
	// next returns the size of the next batch, during whose commit n items arrive.
	next := func(n int) int {
		size := <-batches
		submit(n)
		goOn <- struct{}{}
		return size
	}
	rests := func() { require.NoError(t, clk.AwaitTimers(t.Context(), 1, time.Second)) }
	stop, ended := make(chan struct{}), make(chan struct{})
	submit(2)
	go func() {
		defer close(ended)
		b.Run(stop)
	}()
	require.Equal(t, 2, next(1))
	require.Equal(t, 1, next(20))
	require.Equal(t, 10, next(0))
	require.Equal(t, 10, next(0), "it was full already")
	rests()
	submit(9)
	clk.Advance(time.Second)
	require.Equal(t, 9, next(0), "its time has expired")
	rests()
	submit(10)
	require.Equal(t, 10, next(0), "it has become full")
	rests()
	submit(1)
	close(stop)
	require.Equal(t, 1, next(0), "nothing more is to be expected")
	<-ended
}

// Over a long time, owners that always have items get the same cost each.
func TestTurnBatcherSharesByCost(t *testing.T) {
	t.Parallel()
	var pieces []*piece
	for n := range 4000 {
		pieces = append(pieces, &piece{"cheap", n, 5})
	}
	for n := range 40 {
		pieces = append(pieces, &piece{"dear", n, 500})
	}
	got := map[string]int{}
	batches := runTurns(jobs.TurnLimits{Items: 100, Cost: 500, Turn: 100}, pieces)
	for _, batch := range batches[:len(batches)/2] {
		for _, p := range batch {
			got[p.owner] += p.cost
		}
	}
	require.InDelta(t, got["cheap"], got["dear"], 1000)
}

// An item that is withdrawn is not committed, and one that is in a batch cannot be withdrawn.
func TestTurnBatcherWithdraws(t *testing.T) {
	t.Parallel()
	first, second := &piece{"a", 0, 1}, &piece{"a", 1, 1}
	var got []*piece
	var b *jobs.TurnBatcher[*piece]
	b = jobs.NewTurnBatcher(jobs.TurnLimits{Items: 1, Cost: 1, Turn: 1}, ownerOf, func(batch []*piece) {
		got = append(got, batch...)
		require.False(t, b.Withdraw(first), "it is being committed")
	})
	b.Submit(first)
	b.Submit(second)
	require.True(t, b.Withdraw(second))
	require.False(t, b.Withdraw(second))
	stop := make(chan struct{})
	close(stop)
	b.Run(stop)
	require.Equal(t, []*piece{first}, got)
	b.Submit(second)
	b.Run(stop)
	require.Equal(t, []*piece{first, second}, got)
}
