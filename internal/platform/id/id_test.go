package id_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
)

// A UUIDv7 shows when it was created, to the millisecond. No other id does.
func TestTime(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.UnixMilli(0x0193_9a4e_7a5e).UTC(), id.Time("01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"))
	first, second := id.Time(id.NewUUID()), id.Time(id.NewUUID())
	require.False(t, second.Before(first))
	require.True(t, first.After(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	for _, s := range []string{"", "x", "3f0c9f62-6a58-4c33-9d0c-5a4c6b1b7f0e"} {
		require.True(t, id.Time(s).IsZero(), s)
	}
}

// The least UUID of a millisecond comes before every one that is made in it and after every one before, and is one.
func TestFirstUUID(t *testing.T) {
	t.Parallel()
	for range 100 {
		u := id.NewUUID()
		at := id.Time(u)
		require.LessOrEqual(t, id.FirstUUID(at), u)
		require.Greater(t, id.FirstUUID(at.Add(time.Millisecond)), u)
		require.True(t, id.IsUUID(id.FirstUUID(at)))
		require.Equal(t, at, id.Time(id.FirstUUID(at)))
	}
	require.Equal(t, "00000000-0000-7000-8000-000000000000", id.FirstUUID(time.Time{}))
	require.Equal(t, "ffffffff-ffff-7000-8000-000000000000", id.FirstUUID(time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)))
}
