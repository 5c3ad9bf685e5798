package cache_test

import (
	"context"
	"errors"
	"testing"

	"sallyport/internal/platform/cache"

	"github.com/stretchr/testify/require"
)

func constant(value string, version int64) func(context.Context) (string, int64, error) {
	return func(context.Context) (string, int64, error) { return value, version, nil }
}

func forbidden(t *testing.T) func(context.Context) (string, int64, error) {
	t.Helper()
	return func(context.Context) (string, int64, error) {
		t.Error("the value is known and is read again")
		return "", 0, nil
	}
}

// A load that began before a change must never be what later callers see, whenever it ends: a subscription whose
// creation was confirmed would miss events.
func TestCacheDoesNotInstallALoadOlderThanADrop(t *testing.T) {
	t.Parallel()
	var c cache.Cache[string, string]
	began, finish, old := make(chan struct{}), make(chan struct{}), make(chan string)
	go func() {
		v, _ := c.Get(t.Context(), "k", func(context.Context) (string, int64, error) {
			close(began)
			<-finish
			return "before", 1, nil
		})
		old <- v
	}()
	<-began
	c.Drop("k")
	v, err := c.Get(t.Context(), "k", constant("after", 2))
	require.NoError(t, err)
	require.Equal(t, "after", v)
	close(finish)
	require.Equal(t, "before", <-old)
	v, err = c.Get(t.Context(), "k", forbidden(t))
	require.NoError(t, err)
	require.Equal(t, "after", v)
}

// A failed load is not remembered, and it does not remove what a later load has brought.
func TestCacheForgetsFailures(t *testing.T) {
	t.Parallel()
	var c cache.Cache[string, string]
	broken := errors.New("broken")
	_, err := c.Get(t.Context(), "k", func(ctx context.Context) (string, int64, error) {
		c.Drop("k")
		v, err := c.Get(ctx, "k", constant("newer", 1))
		require.NoError(t, err)
		require.Equal(t, "newer", v)
		return "", 0, broken
	})
	require.ErrorIs(t, err, broken)
	v, err := c.Get(t.Context(), "k", forbidden(t))
	require.NoError(t, err)
	require.Equal(t, "newer", v)

	_, err = c.Get(t.Context(), "other", func(context.Context) (string, int64, error) { return "", 0, broken })
	require.ErrorIs(t, err, broken)
	v, err = c.Get(t.Context(), "other", constant("works again", 1))
	require.NoError(t, err)
	require.Equal(t, "works again", v)
}

// A caller that waits for another's load may leave. The load neither ends with the context of the caller that began it
// nor leaves waiters behind when it panics.
func TestCacheWaitersAreFree(t *testing.T) {
	t.Parallel()
	var c cache.Cache[string, string]
	began, finish, first := make(chan struct{}), make(chan struct{}), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := c.Get(ctx, "k", func(ctx context.Context) (string, int64, error) {
			close(began)
			<-finish
			return "value", 1, ctx.Err()
		})
		first <- err
	}()
	<-began
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := c.Get(gone, "k", forbidden(t))
	require.ErrorIs(t, err, context.Canceled)
	cancel()
	close(finish)
	require.NoError(t, <-first)

	require.Panics(t, func() {
		_, _ = c.Get(t.Context(), "p", func(context.Context) (string, int64, error) { panic("boom") })
	})
	v, err := c.Get(t.Context(), "p", constant("after", 1))
	require.NoError(t, err)
	require.Equal(t, "after", v)
}

// Another process's change drops what was read before it and nothing else.
func TestCacheDropOthers(t *testing.T) {
	t.Parallel()
	var c cache.Cache[string, string]
	for key, version := range map[string]int64{"old": 1, "new": 2} {
		_, err := c.Get(t.Context(), key, constant(key, version))
		require.NoError(t, err)
	}
	c.DropOthers(2)
	v, err := c.Get(t.Context(), "new", forbidden(t))
	require.NoError(t, err)
	require.Equal(t, "new", v)
	v, err = c.Get(t.Context(), "old", constant("read again", 2))
	require.NoError(t, err)
	require.Equal(t, "read again", v)
}

// The cache keeps as many values as it may, and a load that fails takes the place of none.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := cache.Cache[int, int]{Max: 3}
	loads := 0
	load := func(context.Context) (int, int64, error) { loads++; return loads, 1, nil }
	for i := range 10 {
		v, err := c.Get(t.Context(), i, load)
		require.NoError(t, err)
		require.Equal(t, i+1, v)
	}
	for i := range 100 {
		_, err := c.Get(t.Context(), 1000+i, func(context.Context) (int, int64, error) { return 0, 0, errors.New("none") })
		require.Error(t, err)
	}
	kept := 0
	for i := range 10 {
		before := loads
		_, err := c.Get(t.Context(), i, func(context.Context) (int, int64, error) {
			loads++
			return 0, 0, errors.New("gone")
		})
		if err == nil && loads == before {
			kept++
		}
	}
	require.Equal(t, 3, kept)
	c.DropAll()
	before := loads
	_, err := c.Get(t.Context(), 9, load)
	require.NoError(t, err)
	require.Equal(t, before+1, loads)
}

// Several keys are loaded together, in place of what is there, and without what is dropped meanwhile. A key that is not
// stored, and a load that fails, are not remembered.
func TestCacheReloads(t *testing.T) {
	t.Parallel()
	var c cache.Cache[string, string]
	missing, broken := errors.New("missing"), errors.New("broken")
	_, err := c.Get(t.Context(), "a", constant("old", 1))
	require.NoError(t, err)
	keys := []string{"a", "b", "dropped", "none", "a"}
	err = c.Reload(t.Context(), keys, missing, func(context.Context) (map[string]string, int64, error) {
		c.Drop("dropped")
		return map[string]string{"a": "new", "b": "new", "dropped": "older than the drop", "another": "x"}, 2, nil
	})
	require.NoError(t, err)
	for _, key := range []string{"a", "b"} {
		v, err := c.Get(t.Context(), key, forbidden(t))
		require.NoError(t, err)
		require.Equal(t, "new", v)
	}
	for _, key := range []string{"dropped", "none", "another"} {
		v, err := c.Get(t.Context(), key, constant("read again", 3))
		require.NoError(t, err)
		require.Equal(t, "read again", v)
	}

	err = c.Reload(t.Context(), []string{"b", "gone"}, missing, func(context.Context) (map[string]string, int64, error) {
		return nil, 0, broken
	})
	require.ErrorIs(t, err, broken)
	v, err := c.Get(t.Context(), "b", constant("works again", 4))
	require.NoError(t, err)
	require.Equal(t, "works again", v)
}
