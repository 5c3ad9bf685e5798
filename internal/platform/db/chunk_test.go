package db_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// Transactions of work that takes many are cut when they take long, and grow again when they do not, within bounds.
func TestChunkFollowsTime(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		c := s.DB.NewChunk(20, 200)
		require.Equal(t, 200, c.Limit())
		c.Observe(200, 40*time.Millisecond)
		if s.DB.Engine() == db.Postgres {
			require.Equal(t, 200, c.Limit(), "there others write meanwhile")
			return
		}
		require.Equal(t, 50, c.Limit())
		c.Observe(3, time.Millisecond)
		require.Equal(t, 50, c.Limit(), "a few rows do not show what many take")
		c.Observe(50, 12*time.Millisecond)
		require.Equal(t, 50, c.Limit())
		c.Observe(50, 5*time.Millisecond)
		require.Equal(t, 62, c.Limit())
		c.Observe(62, time.Second)
		require.Equal(t, 20, c.Limit())
		c.Observe(200, 20*time.Millisecond)
		require.Equal(t, 20, c.Limit(), "a transaction from before the cut does not undo it")
		for range 30 {
			c.Observe(c.Limit(), time.Millisecond)
		}
		require.Equal(t, 200, c.Limit())
	})
}

// On SQLite a request that must wait for a transaction of a worker does not wait for those that wait, too.
func TestRequestGoesBeforeWorkers(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() != db.SQLite {
			t.Skip("there any number of transactions write")
		}
		var order []db.Turn
		var all sync.WaitGroup
		waiting := 0
		write := func(class db.Turn) {
			waiting++
			all.Go(func() {
				_ = s.DB.Tx(db.WithTurn(context.WithoutCancel(t.Context()), class), func(*sql.Tx) error {
					order = append(order, class) // only one writes
					return nil
				})
			})
			await.Condition(t, "the transaction waits", func() bool { return s.DB.Waiting() == waiting })
		}
		require.NoError(t, s.DB.Tx(db.WithTurn(t.Context(), db.TurnDelivery), func(*sql.Tx) error {
			write(db.TurnJob)
			write(db.TurnDelivery)
			write(db.TurnRequest)
			return nil
		}))
		all.Wait()
		require.Equal(t, db.TurnRequest, order[0])
		require.Len(t, order, 3)
	})
}
