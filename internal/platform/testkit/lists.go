package testkit

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit/await"
)

// FillLists takes every place that an owner may have among the reads of db.List, until end is called or the test ends.
func FillLists(t *testing.T, d *db.DB, owner string) (end func()) {
	t.Helper()
	ending := make(chan struct{})
	var running sync.WaitGroup
	var once sync.Once
	end = func() { once.Do(func() { close(ending); running.Wait() }) }
	t.Cleanup(end)
	before := listsWaiting(t, d)
	for full := false; !full; {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		inside := make(chan struct{})
		running.Go(func() {
			_ = d.List(ctx, owner, func(context.Context, db.Querier) error {
				close(inside)
				<-ending
				return nil
			})
		})
		await.Condition(t, "a place, or a wait for one", func() bool {
			select {
			case <-inside:
				return true
			default:
				full = listsWaiting(t, d) > before
				return full
			}
		})
		if full {
			cancel()
			await.Condition(t, "the end of that wait", func() bool { return listsWaiting(t, d) == before })
		}
		t.Cleanup(cancel)
	}
	return end
}

// TakesTurn requires that a read waits while others of the owner fill their places, and succeeds then.
func TakesTurn(t *testing.T, d *db.DB, owner, what string, read func() error) {
	t.Helper()
	end := FillLists(t, d, owner)
	before := listsWaiting(t, d)
	done := make(chan error, 1)
	go func() { done <- read() }()
	await.Condition(t, what+" to wait for its turn", func() bool {
		require.Empty(t, done, "%s has not taken its turn", what)
		return listsWaiting(t, d) > before
	})
	end()
	require.NoError(t, <-done, what)
}

// listsWaiting returns how many reads of db.List wait for their turn.
func listsWaiting(t *testing.T, d *db.DB) float64 {
	t.Helper()
	return Metric(t, d.Metrics(), "sallyport_database_lists_waiting")
}
