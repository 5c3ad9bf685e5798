package deliveries

import (
	"database/sql"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
)

func (w *world) count(t require.TestingT, width int64, counted tally) {
	require.NoError(t, w.db.Tx(w.hard, func(tx *sql.Tx) error {
		_, err := w.db.ExecAll(w.hard, tx, counted.statement(width))
		return err
	}))
}

// byHour returns the counts of a subscription by hour, for any widths of the rows, and how many rows are by the minute.
func (w *world) byHour(t require.TestingT, sub string) (counts map[int64]histogram, minutes int) {
	counts, err := w.store.stats(w.hard, w.db.Read(), w.env, sub, clock.FromMillis(0), testTime().Add(1000*time.Hour),
		time.Hour)
	require.NoError(t, err)
	require.NoError(t, w.db.Read().QueryRowContext(w.hard, "SELECT COUNT(*) FROM delivery_stats WHERE subscription_id "+
		"= $1 AND width_ms = $2", sub, statMinute).
		Scan(&minutes))
	return counts, minutes
}

// Joining minutes to hours changes no count of any hour and leaves no old minute; removing takes the hours that have
// ended in time and nothing else. Another subscription, and one of another environment, are not touched.
func TestOldStats(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		rapid.Check(t, func(rt *rapid.T) {
			sub, other := id.New(id.PrefixSubscription), id.New(id.PrefixSubscription)
			now := testTime()
			for range rapid.IntRange(1, 3).Draw(rt, "rounds") {
				counted := tally{}
				for range rapid.IntRange(0, 30).Draw(rt, "things") {
					at := now.Add(-time.Duration(rapid.IntRange(0, 40*60).Draw(rt, "minutes ago")) * time.Minute)
					m := rapid.SampledFrom([]measure{measureFailed, measureSuccess, measureDead}).Draw(rt, "measure")
					counted.add(w.env, sub, at, m, rapid.Int64Range(-1, 2).Draw(rt, "class"))
					counted.add(w.env, other, at, m, 0)
				}
				w.count(rt, statMinute, counted)
				before, _ := w.byHour(rt, sub)
				untouched, minutes := w.byHour(rt, other)
				for more := true; more; {
					var err error
					more, err = w.store.JoinStats(t.Context(), StatOwner{sub, w.env}, StatMinutesUntil(now))
					require.NoError(rt, err)
				}
				after, _ := w.byHour(rt, sub)
				require.Equal(rt, before, after)
				var old int
				require.NoError(rt, w.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM delivery_stats
					WHERE subscription_id = $1 AND width_ms = $2
					AND start_ms < $3`, sub, statMinute, clock.Millis(now.Add(-26*time.Hour))).Scan(&old))
				require.Zero(rt, old)
				still, left := w.byHour(rt, other)
				require.Equal(rt, untouched, still)
				require.Equal(rt, minutes, left)
			}
			hours, _ := w.byHour(rt, sub)
			cutoff := now.Add(-time.Duration(rapid.IntRange(26*60, 45*60).Draw(rt, "cutoff")) * time.Minute)
			foreign := StatOwner{sub, id.Environment(id.New(id.PrefixEnvironment))}
			more, err := w.store.RemoveStats(t.Context(), foreign, now)
			require.NoError(rt, err)
			require.False(rt, more)
			for more := true; more; {
				more, err = w.store.RemoveStats(t.Context(), StatOwner{sub, w.env}, cutoff)
				require.NoError(rt, err)
			}
			maps.DeleteFunc(hours, func(start int64, _ histogram) bool { return start+statHour <= clock.Millis(cutoff) })
			left, _ := w.byHour(rt, sub)
			require.Equal(rt, hours, left)
		})
	})
}

// While minutes are joined, no count is lost.
func TestJoinStatsRaces(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		const writers, each = 3, 60
		old := testTime().Add(-48 * time.Hour)
		var group errgroup.Group
		for range writers {
			group.Go(func() error {
				for n := range each {
					counted := tally{}
					counted.add(w.env, "sub", old.Add(time.Duration(n%5)*time.Minute), measureFailed, 1)
					if err := w.db.Tx(t.Context(), func(tx *sql.Tx) error {
						_, err := w.db.ExecAll(t.Context(), tx, counted.statement(statMinute))
						return err
					}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		group.Go(func() error {
			for range each {
				if _, err := w.store.JoinStats(t.Context(), StatOwner{"sub", w.env}, StatMinutesUntil(testTime())); err != nil {
					return err
				}
			}
			return nil
		})
		require.NoError(t, group.Wait())
		counts, _ := w.byHour(t, "sub")
		require.Equal(t, map[int64]histogram{clock.Millis(old): {measureFailed: {1: writers * each}}}, counts)
	})
}

// Every subscription with statistics is found, also a deleted one.
func TestStatOwners(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		owners, err := w.store.StatOwners(t.Context())
		require.NoError(t, err)
		require.Empty(t, owners)
		counted, want := tally{}, []StatOwner{}
		for n := range 5 {
			o := StatOwner{"sub_" + strconv.Itoa(n), id.Environment("env_" + strconv.Itoa(n%2))}
			counted.add(o.Environment, o.SubscriptionID, testTime(), measureDead, 0)
			counted.add(o.Environment, o.SubscriptionID, testTime().Add(time.Hour), measureDead, 0)
			want = append(want, o)
		}
		w.count(t, statMinute, counted)
		owners, err = w.store.StatOwners(t.Context())
		require.NoError(t, err)
		require.True(t, slices.Equal(want, owners))
	})
}
