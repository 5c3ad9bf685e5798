package retention

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit"
)

// The worker takes half of the time in which no one else writes, and a twenty-fifth when others write all the time.
func TestRest(t *testing.T) {
	t.Parallel()
	for busy, want := range map[float64]time.Duration{0: 10 * time.Millisecond, 0.5: 30 * time.Millisecond,
		0.9: 190 * time.Millisecond, 0.99: 240 * time.Millisecond, 1: 240 * time.Millisecond} {
		require.InDelta(t, want, rest(10*time.Millisecond, busy), float64(time.Microsecond), busy)
	}
	require.Equal(t, longRest, rest(time.Minute, 1))
}

// Chunks shrink when their transactions take long, grow when they do not, and stay within bounds.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit int
		own   time.Duration
		want  int
	}{{100, 0, 125}, {100, shortChunk, 100}, {100, longChunk, 100}, {100, longChunk + 1, 50}, {mostLimit, 0, mostLimit},
		{350, 0, mostLimit},
		{leastLimit, time.Second, leastLimit}, {30, time.Second, leastLimit}, {4, 0, 5}} {
		require.Equal(t, c.want, adapt(c.limit, c.own), "%v", c)
	}
}

// A chunk rests when there is more to do, and only then.
func TestChunkRests(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		p := newPace(s.DB, clock.System())
		rests := 0
		p.rest = func(_ context.Context, d time.Duration) {
			require.Positive(t, d)
			rests++
		}
		var limits []int
		for _, more := range []bool{true, true, false} {
			work := &task{do: func(ctx context.Context, limit int) (bool, error) {
				limits = append(limits, limit)
				return more, s.DB.Tx(ctx, func(*sql.Tx) error { return nil })
			}}
			got, err := p.chunk(t.Context(), work)
			require.NoError(t, err)
			require.Equal(t, more, got)
		}
		require.Equal(t, 2, rests)
		require.Equal(t, []int{firstLimit, firstLimit, firstLimit}, limits)
	})
}

// The writes of others are distinguished from those of the worker.
func TestBusy(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		p := pace{db: s.DB, at: begin, busy: 0.5}
		for n := range 40 {
			// held by others since the last look, which was at 0
			p.observe(begin.Add(time.Duration(n+1)*time.Second), 400*time.Millisecond)
			p.held = 0
		}
		require.InDelta(t, 0.4, p.busy, 0.01)
		p.observe(begin, time.Hour) // a clock that went back changes nothing
		require.InDelta(t, 0.4, p.busy, 0.01)
	})
}
