package heaplimit

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The limit is the first one and all that was added, in any order; without a limit nothing happens.
func TestAdd(t *testing.T) {
	t.Parallel()
	var last int64
	l := newLimit(100, func(bytes int64) { last = bytes })
	require.EqualValues(t, 100, last)
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() {
			l.Add(7)
			l.Add(-4)
		})
	}
	running.Wait()
	require.EqualValues(t, 250, last)
	(*Limit)(nil).Add(1)
	require.EqualValues(t, 250, last)
}
