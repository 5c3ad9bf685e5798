package cache_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/clock"
)

func newTimed(load func(ctx context.Context, key string) (string, error)) (*cache.Timed[string], *clock.Manual) {
	clk := clock.NewManual(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	return &cache.Timed[string]{Clock: clk, Load: load}, clk
}

// A value is loaded again exactly when it is as old as the caller no longer accepts, or when the clock was set back.
// The age counts from the beginning of the load, and a value that was put counts as loaded.
func TestTimedAge(t *testing.T) {
	t.Parallel()
	loads := 0
	var clk *clock.Manual
	c, made := newTimed(func(_ context.Context, key string) (string, error) {
		loads++
		clk.Advance(time.Second) // the load takes a second
		return key + strconv.Itoa(loads), nil
	})
	clk = made
	get := func(want string, age time.Duration) {
		t.Helper()
		v, err := c.Get(t.Context(), "k", age)
		require.NoError(t, err)
		require.Equal(t, want, v)
	}
	get("k1", time.Minute)
	clk.Advance(59*time.Second - 1)
	get("k1", time.Minute)
	clk.Advance(1)
	get("k2", time.Minute)
	get("k2", time.Minute)
	get("k3", time.Second)
	c.Put("k", "put")
	get("put", time.Second)
	clk.Advance(-time.Minute)
	get("k4", time.Hour)
}

// An error is returned and forgotten, and does not remove the value that was loaded last.
func TestTimedForgetsFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var err error
	c, _ := newTimed(func(context.Context, string) (string, error) { return "value", err })
	_, ok := c.Last("k")
	require.False(t, ok)
	_, got := c.Get(t.Context(), "k", 0)
	require.NoError(t, got)
	err = broken
	_, got = c.Get(t.Context(), "k", 0)
	require.ErrorIs(t, got, broken)
	last, ok := c.Last("k")
	require.True(t, ok)
	require.Equal(t, "value", last)
	err = nil
	_, got = c.Get(t.Context(), "k", 0)
	require.NoError(t, got)
}

// Callers share a load, which neither ends with the context of the first nor keeps a caller whose own context ends. A
// load has the limit that the cache sets.
func TestTimedWaitersAreFree(t *testing.T) {
	t.Parallel()
	began, finish, first := make(chan struct{}), make(chan struct{}), make(chan error)
	var loads atomic.Int64
	c, _ := newTimed(func(ctx context.Context, _ string) (string, error) {
		loads.Add(1)
		close(began)
		<-finish
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the load has no limit")
		}
		return "value", ctx.Err()
	})
	c.Timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := c.Get(ctx, "k", time.Minute)
		first <- err
	}()
	<-began
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	second := make(chan error)
	go func() {
		_, err := c.Get(t.Context(), "k", time.Minute)
		second <- err
	}()
	close(finish)
	require.NoError(t, <-second)
	require.EqualValues(t, 1, loads.Load())
}

// The cache keeps as many values as it may, the latest among them.
func TestTimedIsBounded(t *testing.T) {
	t.Parallel()
	c, _ := newTimed(func(_ context.Context, key string) (string, error) { return key, nil })
	c.Max = 3
	for i := range 10 {
		key := strconv.Itoa(i)
		_, err := c.Get(t.Context(), key, time.Minute)
		require.NoError(t, err)
		kept := 0
		for j := range 10 {
			if _, ok := c.Last(strconv.Itoa(j)); ok {
				kept++
			}
		}
		require.Equal(t, min(i+1, 3), kept)
		_, ok := c.Last(key)
		require.True(t, ok)
	}
}
