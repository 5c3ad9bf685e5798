package events_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// partitions returns the number of payloads in each partition, by name; on SQLite there are none.
func partitions(t *testing.T, store testkit.Store) map[string]int {
	t.Helper()
	counts := map[string]int{}
	rows, err := store.DB.Read().QueryContext(t.Context(), `SELECT c.relname, (SELECT COUNT(*)
		FROM webhook_event_payloads p WHERE p.tableoid = c.oid)
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'webhook_event_payloads'::regclass`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var name string
		var n int
		require.NoError(t, rows.Scan(&name, &n))
		counts[name] = n
	}
	require.NoError(t, rows.Err())
	return counts
}

func storeAt(t *testing.T, store testkit.Store, received time.Time) {
	t.Helper()
	e := newEvent(newEnvironment())
	e.ReceivedAt = received
	run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{e})...)
	payloads, err := newStore(store.DB).Payloads(t.Context(), e.Environment, []events.Event{e.Event})
	require.NoError(t, err)
	require.Len(t, payloads, 1, "a payload is found in whatever partition it is")
}

// Payloads land in the partition of their day in UTC, from its first millisecond to its last, and in the default one
// when their day has none. SQLite has no partitions and takes everything.
func TestPartitions(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := events.NewPartitions(store.DB)
		// In this zone it is the 16th already.
		now := time.Date(2025, 6, 16, 3, 0, 0, 0, time.FixedZone("", 5*60*60))
		var group errgroup.Group
		for range 4 {
			group.Go(func() error { return s.Ensure(t.Context(), now) })
		}
		require.NoError(t, group.Wait(), "several nodes do it at once")
		require.NoError(t, s.Ensure(t.Context(), now))
		day := time.Date(2025, 6, 15, 0, 0, 0, 0, time.UTC)
		for _, received := range []time.Time{
			day, day.Add(24*time.Hour - time.Millisecond), day.Add(24 * time.Hour), day.Add(-time.Millisecond),
			day.Add(4 * 24 * time.Hour),
		} {
			storeAt(t, store, received)
		}
		if store.DB.Engine() == db.SQLite {
			return
		}
		require.Equal(t, map[string]int{"webhook_event_payloads_default": 2, "webhook_event_payloads_20250615": 2,
			"webhook_event_payloads_20250616": 1, "webhook_event_payloads_20250617": 0, "webhook_event_payloads_20250618": 0},
			partitions(t, store))
	})
}

// A day whose payloads went to the default partition stays there; the days around it get theirs, again and again.
func TestPartitionOfADayThatHasBegun(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := events.NewPartitions(store.DB)
		day := time.Date(2025, 6, 15, 0, 0, 0, 0, time.UTC)
		storeAt(t, store, day.Add(26*time.Hour))
		for range 2 {
			require.NoError(t, s.Ensure(t.Context(), day))
		}
		storeAt(t, store, day.Add(27*time.Hour))
		storeAt(t, store, day)
		if store.DB.Engine() == db.SQLite {
			return
		}
		require.Equal(t, map[string]int{"webhook_event_payloads_default": 2, "webhook_event_payloads_20250615": 1,
			"webhook_event_payloads_20250617": 0, "webhook_event_payloads_20250618": 0}, partitions(t, store))
	})
}
