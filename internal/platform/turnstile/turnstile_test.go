package turnstile_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/platform/turnstile"
)

// patient is longer than any test waits.
const patient = time.Hour

// waiting starts work that waits at the gate, and returns where it reports that it was let in.
func waiting(t *testing.T, g *turnstile.Gate, owner string) (entered chan func()) {
	t.Helper()
	before := g.Counts().Waiting
	entered = make(chan func(), 1)
	go func() {
		if leave, err := g.Enter(t.Context(), owner); err == nil {
			entered <- leave
		}
	}()
	await.Condition(t, "the work to wait", func() bool { return g.Counts().Waiting > before })
	return entered
}

func enter(t *testing.T, g *turnstile.Gate, owner string) (leave func()) {
	t.Helper()
	leave, err := g.Enter(t.Context(), owner)
	require.NoError(t, err)
	return leave
}

// An owner with much work takes neither all places nor all turns: another one enters immediately while there is a place
// for it, and otherwise with the next place that becomes free.
func TestOwnersTakeTurns(t *testing.T) {
	t.Parallel()
	g := turnstile.New(3, 2, patient, "busy")
	leave := enter(t, g, "a")
	enter(t, g, "a")
	var ofA []chan func()
	for range 3 {
		ofA = append(ofA, waiting(t, g, "a"))
	}
	enter(t, g, "b")
	ofB := waiting(t, g, "b")
	leave()
	(<-ofA[0])() // a had waited longer than b
	(<-ofB)()
	(<-ofA[1])()
	(<-ofA[2])()
	require.Zero(t, g.Counts().Waiting)
	require.Positive(t, g.Counts().Waited)
}

// With a single place, too, an owner with little work gets a turn before all the work of another.
func TestOnePlaceGoesAround(t *testing.T) {
	t.Parallel()
	g := turnstile.New(1, 1, patient, "busy")
	leave := enter(t, g, "a")
	first, second := waiting(t, g, "a"), waiting(t, g, "a")
	other := waiting(t, g, "b")
	leave()
	(<-first)()
	(<-other)()
	(<-second)()
}

// Work that waits in vain is refused as unavailable, with the time to retry, and no longer waits; so is work whose
// client is gone, with the error of its context.
func TestWaitIsBounded(t *testing.T) {
	t.Parallel()
	g := turnstile.New(1, 1, time.Millisecond, "busy")
	leave := enter(t, g, "a")
	_, err := g.Enter(t.Context(), "b")
	var e *apperr.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, apperr.CodeUnavailable, e.Code)
	require.Equal(t, "busy", e.Message)
	require.Positive(t, e.RetryAfter)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.Enter(gone, "b")
	require.ErrorIs(t, err, context.Canceled)
	counts := g.Counts()
	require.Zero(t, counts.Waiting)
	require.EqualValues(t, 1, counts.Refused)
	leave()
	enter(t, g, "b")()
}

// For any work of any owners, no more is inside than there are places, no owner has more than its share, and everything
// gets its turn.
func TestGateKeepsItsLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		places := rapid.IntRange(1, 4).Draw(rt, "places")
		each := rapid.IntRange(1, places).Draw(rt, "each")
		owners := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 20).Draw(rt, "owners")
		g := turnstile.New(places, each, patient, "busy")
		var mu sync.Mutex
		total, inside := 0, map[string]int{}
		var running sync.WaitGroup
		worst, worstOfOne := 0, 0
		for _, owner := range owners {
			running.Go(func() {
				leave, err := g.Enter(t.Context(), owner)
				if err != nil {
					return
				}
				mu.Lock()
				total++
				inside[owner]++
				worst, worstOfOne = max(worst, total), max(worstOfOne, inside[owner])
				mu.Unlock()
				mu.Lock()
				total--
				inside[owner]--
				mu.Unlock()
				leave()
			})
		}
		running.Wait()
		require.LessOrEqual(rt, worst, places)
		require.LessOrEqual(rt, worstOfOne, each)
		require.Zero(rt, g.Counts().Refused)
	})
}
