package migrate_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
)

// A run that is stopped in the middle says that it was interrupted, and the next one continues where it stopped.
func TestInterruptedRunContinues(t *testing.T) {
	t.Parallel()
	d, err := db.Open(t.Context(), "", t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	var looks atomic.Int64
	looks.Store(200)
	_, _, err = migrate.Up(stopAfter{t.Context(), &looks}, d)
	require.ErrorIs(t, err, migrate.ErrInterrupted)
	require.ErrorIs(t, err, context.Canceled)
	state, err := migrate.Read(t.Context(), d)
	require.NoError(t, err)
	require.Less(t, state.Current, state.Latest)
	require.Positive(t, state.Current, "it stopped before the first migration")
	before, after, err := migrate.Up(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, state.Current, before.Current)
	require.Equal(t, after.Latest, after.Current)
}

// stopAfter is a context that ends when it has been looked at as many times.
type stopAfter struct {
	context.Context //nolint:containedctx // it is a context
	looks           *atomic.Int64
}

// Done counts a look.
func (c stopAfter) Done() <-chan struct{} {
	if c.looks.Add(-1) >= 0 {
		return c.Context.Done()
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

// Err returns the error of a context that was cancelled, when it has ended.
func (c stopAfter) Err() error {
	if c.looks.Load() >= 0 {
		return c.Context.Err()
	}
	return context.Canceled
}
