package events_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

const everything = int64(1) << 62

// records returns the whole log, positions given.
func records(ctx context.Context, t require.TestingT, s *events.LogStore) []events.LogRecord {
	require.NoError(t, s.Sequence(ctx))
	list, err := s.After(ctx, 0, 1_000_000)
	require.NoError(t, err)
	return list
}

// logged stores a record with n received events.
func logged(ctx context.Context, t require.TestingT, d *db.DB, env id.Environment, at time.Time, n int) {
	log := events.Log{At: at}
	for i := range n {
		log.Received(env, strconv.Itoa(i))
	}
	run(ctx, t, d, log.Statement())
}

// The log is written with the change: one record for a transaction and environment, which names the received events,
// then the attempts, then the events that changed.
func TestLogNamesChanges(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := events.NewLogStore(store.DB)
		env, other := newEnvironment(), newEnvironment()
		first, second, foreign := newEvent(env), newEvent(env), newEvent(other)
		second.ReceivedAt = at(5)
		run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{first, foreign, second})...)

		log := events.Log{At: at(9)}
		log.Attempted(env, first.UUID, "try")
		change := func(e events.NewEvent) events.Change {
			return events.Change{Environment: e.Environment, EventUUID: e.UUID, Counters: events.Counters{Pending: 1}, At: at(9)}
		}
		_, statement := events.Apply([]events.Change{change(second), change(first), change(second)}, &log)
		run(t.Context(), t, store.DB, statement, log.Statement())

		list := records(t.Context(), t, s)
		require.Len(t, list, 3)
		slices.SortFunc(list[:2], func(a, b events.LogRecord) int { return len(b.Received) - len(a.Received) })
		require.Equal(t, []string{first.UUID, second.UUID}, list[0].Received)
		require.Equal(t, env, list[0].Environment)
		require.Equal(t, at(5), list[0].At)
		require.Equal(t, []string{foreign.UUID}, list[1].Received)
		require.Equal(t, other, list[1].Environment)
		last := list[2]
		require.Equal(t, []events.LogAttempt{{EventUUID: first.UUID, ID: "try"}}, last.Attempts)
		require.Equal(t, []string{first.UUID, second.UUID}, last.Updated)
		require.Equal(t, 3, last.Messages())
		require.Equal(t, at(9), last.At)
		require.Greater(t, last.Position, max(list[0].Position, list[1].Position))
	})
}

// The log of an environment is read without anything of another, and the record of a place only where it is.
func TestLogOfEnvironment(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := events.NewLogStore(store.DB)
		env, other := newEnvironment(), newEnvironment()
		for i, e := range []id.Environment{env, other, env, other} {
			logged(t.Context(), t, store.DB, e, at(int64(i)), i+1)
		}
		all := records(t.Context(), t, s)
		own, err := s.AfterIn(t.Context(), env, 0, everything, 10)
		require.NoError(t, err)
		require.Equal(t, []events.LogRecord{all[0], all[2]}, own)
		own, err = s.AfterIn(t.Context(), env, all[0].Position, all[2].Position-1, 10)
		require.NoError(t, err)
		require.Empty(t, own)

		head, err := s.Head(t.Context())
		require.NoError(t, err)
		require.Equal(t, all[3].Position, head)
		place, ok, err := s.HeadIn(t.Context(), env, head)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, events.LogPlace{Position: all[2].Position, At: at(2), Messages: 3}, place)
		_, ok, err = s.HeadIn(t.Context(), newEnvironment(), head)
		require.NoError(t, err)
		require.False(t, ok)
		for _, r := range all {
			_, ok, err := s.PlaceAt(t.Context(), env, r.Position)
			require.NoError(t, err)
			require.Equal(t, r.Environment == env, ok)
		}
		span, err := s.Span(t.Context(), env, 0, head)
		require.NoError(t, err)
		require.Equal(t, events.LogSpan{Messages: 4, First: all[0].Position, Oldest: at(0)}, span)
		span, err = s.Span(t.Context(), env, all[2].Position, head)
		require.NoError(t, err)
		require.Zero(t, span)

		list, err := s.After(t.Context(), all[0].Position, 2)
		require.NoError(t, err)
		require.Equal(t, all[1:3], list)
		kept, err := s.Kept(t.Context(), []int64{all[1].Position, all[3].Position, all[3].Position + 1})
		require.NoError(t, err)
		require.Equal(t, map[int64]bool{all[1].Position: true, all[3].Position: true}, kept)
	})
}

// A transaction that began early and commits late does not slip in before what was read meanwhile: positions are given
// after the commit.
func TestPositionsFollowCommits(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d, err := db.Open(ctx, testkit.NewPostgres(t), "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	s, env := events.NewLogStore(d), newEnvironment()
	require.NoError(t, d.Tx(ctx, func(tx *sql.Tx) error {
		log := events.Log{At: at(1)}
		log.Received(env, "late")
		if _, err := d.ExecAll(ctx, tx, log.Statement()); err != nil {
			return err
		}
		logged(ctx, t, d, env, at(2), 1)
		early := records(ctx, t, s)
		require.Len(t, early, 1)
		require.Equal(t, at(2), early[0].At)
		return nil
	}))
	all := records(ctx, t, s)
	require.Len(t, all, 2)
	require.Equal(t, at(1), all[1].At)
}

// A reader that continues from the last position sees every record once, and no effect before its cause, while many
// write and several give positions.
func TestTailSeesEachRecordOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		const writers, each = 8, 40
		s, env := events.NewLogStore(store.DB), newEnvironment()
		ctx := t.Context()
		var work sync.WaitGroup
		violations := make(chan error, writers+2)
		for w := range writers {
			work.Go(func() {
				for n := range each {
					log := events.Log{At: at(0)}
					log.Received(env, fmt.Sprintf("%d %d", w, n))
					if err := store.DB.Tx(ctx, func(tx *sql.Tx) error {
						_, err := store.DB.ExecAll(ctx, tx, log.Statement())
						return err
					}); err != nil {
						violations <- err
						return
					}
				}
			})
		}
		done, end := context.WithCancel(ctx)
		defer end()
		for range 2 {
			work.Go(func() {
				for done.Err() == nil {
					if err := s.Sequence(ctx); err != nil {
						violations <- err
						return
					}
				}
			})
		}
		next, seen, position := map[string]int{}, 0, int64(0)
		for seen < writers*each && len(violations) == 0 {
			list, err := s.After(ctx, position, 7)
			require.NoError(t, err)
			for _, r := range list {
				require.Greater(t, r.Position, position)
				position = r.Position
				var writer, n int
				_, err := fmt.Sscanf(r.Received[0], "%d %d", &writer, &n)
				require.NoError(t, err)
				require.Equal(t, next[strconv.Itoa(writer)], n, "the record before it came first")
				next[strconv.Itoa(writer)]++
				seen++
			}
		}
		end()
		work.Wait()
		require.Empty(t, violations)
		require.Len(t, records(ctx, t, s), writers*each)
	})
}

// A record stays as long as a reader that stopped there has not missed too much: more than LogMessages, or a record
// from more than LogAge ago. The newest always stays, and one environment's records do not count for another.
func TestTrimLog(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, ctx := events.NewLogStore(store.DB), t.Context()
		now := clock.FromMillis(started)
		const half = events.LogMessages / 2
		busy, old, quiet := newEnvironment(), newEnvironment(), newEnvironment()
		for _, n := range []int{7, 1, half, half} {
			logged(ctx, t, store.DB, busy, now, n)
		}
		hour := now.Add(-events.LogAge)
		for i, when := range []time.Time{hour.Add(-time.Hour), hour.Add(-time.Millisecond), hour, now} {
			logged(ctx, t, store.DB, old, when, i+1)
		}
		logged(ctx, t, store.DB, quiet, hour.Add(-time.Hour), 1)
		require.NoError(t, s.Trim(ctx, now))

		sizes := func(env id.Environment) (list []int) {
			own, err := s.AfterIn(ctx, env, 0, everything, 1000)
			require.NoError(t, err)
			for _, r := range own {
				list = append(list, r.Messages())
			}
			return list
		}
		require.Equal(t, []int{1, half, half}, sizes(busy))
		require.Equal(t, []int{2, 3, 4}, sizes(old))
		require.Equal(t, []int{1}, sizes(quiet))
		require.NoError(t, s.Trim(ctx, now.Add(24*time.Hour)))
		for _, env := range []id.Environment{busy, old, quiet} {
			require.Len(t, sizes(env), 1)
		}
	})
}

// More records than one transaction deletes, and more than one gives positions to, are all dealt with.
func TestTrimLongLog(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, ctx, env := events.NewLogStore(store.DB), t.Context(), newEnvironment()
		var all []db.Statement
		for range 1100 {
			log := events.Log{At: at(0)}
			log.Received(env, "x")
			all = append(all, log.Statement())
		}
		run(ctx, t, store.DB, all...)
		require.NoError(t, s.Trim(ctx, at(2*events.LogAge.Milliseconds())))
		require.Len(t, records(ctx, t, s), 1)
	})
}
