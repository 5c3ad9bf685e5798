package module_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/testkit/await"
)

// followed is a cache whose refreshes the test sees and ends.
type followed struct {
	begun  chan struct{}
	result chan error
	drops  atomic.Int64
}

func newFollowed() *followed { return &followed{begun: make(chan struct{}), result: make(chan error)} }

func (f *followed) cache(name string) module.Cache {
	return module.Cache{Name: name,
		Refresh: func(ctx context.Context) error {
			select {
			case f.begun <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case err := <-f.result:
				return err
			case <-ctx.Done(): // the stop alone
				return ctx.Err()
			}
		},
		Drop: func() { f.drops.Add(1) }}
}

// round lets a refresh begin and end.
func (f *followed) round(t *testing.T, err error) {
	t.Helper()
	await.Value(t, "a refresh", f.begun)
	f.result <- err
}

// Caches are refreshed each second, each by itself: one whose refresh hangs or fails keeps no other from it. A cache
// that has not been refreshed for three seconds is dropped, again and again until it has been, also while its refresh
// hangs: so a node that is cut from the database, or stuck, does not go on with old permissions or secrets.
func TestCachesThatCannotFollowAreDropped(t *testing.T) {
	t.Parallel()
	w, hanging, failing, sound := newWorld(), newFollowed(), newFollowed(), newFollowed()
	require.NoError(t, w.Start(t.Context(), []module.Module{
		{Name: "a", Caches: []module.Cache{hanging.cache("tariffs"), failing.cache("routes")}},
		{Name: "b", Caches: []module.Cache{sound.cache("gates")}},
	}))
	await.Value(t, "the refresh that hangs", hanging.begun)
	unreachable := errors.New("unreachable")
	round := func() {
		failing.round(t, unreachable)
		sound.round(t, nil)
		// Three watches, and two refreshes that wait for their next round.
		await.Condition(t, "the end of the round", func() bool { return w.clock.Timers() == 5 })
	}
	round()
	seconds := int(db.MaxUnseen / time.Second)
	for range seconds - 1 {
		w.clock.Advance(time.Second)
		round()
	}
	require.Zero(t, hanging.drops.Load()+failing.drops.Load(), "one failure is no reason to read everything again")
	for i := range 3 {
		w.clock.Advance(time.Second)
		await.Condition(t, "the drops", func() bool {
			return hanging.drops.Load() == int64(i+1) && failing.drops.Load() == int64(i+1)
		})
		round()
	}
	hanging.result <- nil // which shows the changes up to when it began
	await.Condition(t, "its end", func() bool { return w.clock.Timers() == 6 })
	w.clock.Advance(time.Second)
	failing.round(t, nil)
	hanging.round(t, nil)
	sound.round(t, nil)
	await.Condition(t, "the end of the round", func() bool { return w.clock.Timers() == 6 })
	dropped := func() []int64 { return []int64{hanging.drops.Load(), failing.drops.Load()} }
	before := dropped()
	for range 2 * seconds {
		w.clock.Advance(time.Second)
		failing.round(t, nil)
		hanging.round(t, nil)
		sound.round(t, nil)
		await.Condition(t, "the end of the round", func() bool { return w.clock.Timers() == 6 })
	}
	require.Equal(t, before, dropped())
	require.Zero(t, sound.drops.Load())
	require.NoError(t, w.Stop(t.Context()))
	log := w.log.String()
	require.Contains(t, log, `msg="cannot compare cached data with the database" job=refresh-caches `+
		`error="routes: unreachable"`)
	require.Equal(t, 1, strings.Count(log, "cache=tariffs seconds=3"), "one line for each time")
	require.Equal(t, 1, strings.Count(log, "cache=routes seconds=3"))
	require.NotContains(t, log, "gates")
}
