package jobs_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/testkit/await"
)

// A batch that waits for its pace starts as soon as it is full, however its items arrive. Every item that is submitted
// before the stop is committed once.
func TestPacedBatcherStartsFullBatches(t *testing.T) {
	t.Parallel()
	const limit, total = 8, 30 * 8
	var mu sync.Mutex
	seen := map[int]int{}
	b := jobs.NewBatcher(limit, func(batch []int) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range batch {
			seen[n]++
		}
	})
	b.Pace(time.Hour)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		b.Run(stop)
	}()
	var senders sync.WaitGroup
	for s := range limit {
		senders.Go(func() {
			for n := s; n < total; n += limit {
				b.Put(n)
			}
		})
	}
	await.Return(t, "the items to be submitted", senders.Wait)
	await.Condition(t, "all full batches to be committed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) > total-limit
	})
	close(stop)
	await.Value(t, "the end of the batcher", stopped)
	require.Len(t, seen, total)
	for n, times := range seen {
		require.Equal(t, 1, times, "item %d", n)
	}
}
