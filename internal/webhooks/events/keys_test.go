package events_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

func key(connection, text, event string, expires int64) *events.Key {
	sum := sha256.Sum256([]byte(text))
	return &events.Key{ConnectionUUID: connection, Hash: sum[:16], EventUUID: event, ExpiresMillis: expires}
}

func claim(ctx context.Context, t require.TestingT, store testkit.Store, now int64, keys ...*events.Key) []string {
	var holders []string
	s := events.NewKeys(store.DB)
	require.NoError(t, store.DB.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		holders, err = s.Claim(ctx, tx, keys, now)
		return err
	}))
	return holders
}

// A key goes to the first event that claims it and stays its own until it expires; then the next claim takes it over.
// It is one connection's alone. Random claims at a clock that moves are compared with a map.
func TestKeysAreHeldUntilTheyExpire(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		ctx := t.Context()
		rapid.Check(t, func(rt *rapid.T) {
			type holder struct {
				event   string
				expires int64
			}
			held := map[string]holder{}
			connections := []string{id.NewUUID(), id.NewUUID()}
			now := int64(started)
			for range rapid.IntRange(1, 5).Draw(rt, "claims") {
				now += rapid.Int64Range(0, 3).Draw(rt, "elapsed")
				var keys []*events.Key
				want := []string{}
				for _, connection := range connections {
					for _, text := range rapid.Permutation([]string{"a", "b", "c"}).Draw(rt, "keys")[:rapid.IntRange(0, 3).Draw(rt,
						"count")] {
						expires := rapid.SampledFrom([]int64{now + 1, now + 2, now + 4, events.KeyForever}).Draw(rt, "expires")
						k := key(connection, text, id.NewUUID(), expires)
						keys = append(keys, k)
						if h, ok := held[connection+text]; ok && h.expires > now {
							want = append(want, h.event)
							continue
						}
						want = append(want, "")
						held[connection+text] = holder{k.EventUUID, expires}
					}
				}
				require.Equal(rt, want, claim(ctx, rt, store, now, keys...))
			}
		})
	})
}

// A transaction that is rolled back leaves no key behind.
func TestClaimsEndWithTheirTransaction(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := events.NewKeys(store.DB)
		connection := id.NewUUID()
		err := store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			if _, err := s.Claim(t.Context(), tx, []*events.Key{key(connection, "a", id.NewUUID(), events.KeyForever)},
				started); err != nil {
				return err
			}
			return context.Canceled
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []string{""}, claim(t.Context(), t, store, started, key(connection, "a", id.NewUUID(),
			events.KeyForever)))
	})
}

// A key that its event releases is free immediately. No other event can release it, and its other keys, and the same
// key of another connection, stay claimed.
func TestRelease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		ctx := t.Context()
		s := events.NewKeys(store.DB)
		connection, other, event, next := id.NewUUID(), id.NewUUID(), id.NewUUID(), id.NewUUID()
		release := func(k *events.Key, end error) {
			require.ErrorIs(t, store.DB.Tx(ctx, func(tx *sql.Tx) error {
				require.NoError(t, s.Release(ctx, tx, *k))
				return end
			}), end)
		}
		holders := func() []string {
			return claim(ctx, t, store, started, key(connection, "a", next, events.KeyForever),
				key(connection, "b", next, events.KeyForever), key(other, "a", next, events.KeyForever))
		}
		claim(ctx, t, store, started, key(connection, "a", event, events.KeyForever),
			key(connection, "b", event, events.KeyForever), key(other, "a", event, events.KeyForever))

		release(key(connection, "a", next, events.KeyForever), nil)
		require.Equal(t, []string{event, event, event}, holders(), "not its own")
		release(key(connection, "a", event, events.KeyForever), context.Canceled)
		require.Equal(t, []string{event, event, event}, holders(), "rolled back")
		release(key(connection, "a", event, events.KeyForever), nil)
		require.Equal(t, []string{"", event, event}, holders())
	})
}

// Of those that claim the same keys at the same time, in opposite orders, one wins each key, the others learn which,
// and there is no deadlock: no transaction runs twice.
func TestConcurrentClaims(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		const claimers, keys = 8, 40
		s := events.NewKeys(store.DB)
		for range 5 {
			connection := id.NewUUID()
			var group errgroup.Group
			var tries atomic.Int64
			results := make([]map[string]string, claimers)
			for c := range claimers {
				results[c] = map[string]string{}
				mine := make([]*events.Key, keys)
				event := id.NewUUID()
				for k := range mine {
					mine[k] = key(connection, strconv.Itoa(k), event, events.KeyForever)
				}
				if c%2 == 1 {
					slices.Reverse(mine)
				}
				group.Go(func() error {
					return store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
						tries.Add(1)
						holders, err := s.Claim(t.Context(), tx, mine, started)
						for i, h := range holders {
							if h == "" {
								h = event
							}
							results[c][string(mine[i].Hash)] = h
						}
						return err
					})
				})
			}
			require.NoError(t, group.Wait())
			require.EqualValues(t, claimers, tries.Load())
			for _, r := range results {
				require.Len(t, r, keys)
				require.Equal(t, results[0], r, "all agree on every holder")
			}
		}
	})
}

// A provider's redelivery restarts dead deliveries once in an interval, counted from the last time.
func TestMarkRedelivered(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		e, healthy := newEvent(newEnvironment()), newEvent(newEnvironment())
		run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{e, healthy})...)
		may, err := s.MayRedeliver(t.Context(), healthy.Environment, healthy.UUID, at(0))
		require.NoError(t, err)
		require.False(t, may, "no delivery is dead")
		_, err = store.DB.Write().ExecContext(t.Context(), "UPDATE webhook_events SET n_dead = 1 WHERE event_uuid = $1",
			e.UUID)
		require.NoError(t, err)
		for _, c := range []struct {
			now, notAfter int64
			want          bool
		}{{0, -5, true}, {4, -1, false}, {5, 0, true}, {6, 1, false}} {
			may, err := s.MayRedeliver(t.Context(), e.Environment, e.UUID, at(c.notAfter))
			require.NoError(t, err)
			require.Equal(t, c.want, may, "at %d", c.now)
			require.NoError(t, store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
				got, err := s.MarkRedelivered(t.Context(), tx, e.Environment, e.UUID, at(c.now), at(c.notAfter))
				require.Equal(t, c.want, got, "at %d", c.now)
				return err
			}))
		}
	})
}
