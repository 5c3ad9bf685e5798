package events_test

import (
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// uuidAt returns a UUIDv7 of a time and a number.
func uuidAt(at time.Time, n int) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(clock.Millis(at))<<16)
	binary.BigEndian.PutUint64(b[8:], uint64(n))
	b[6], b[8] = b[6]|0x70, b[8]|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// storedAt stores an event whose uuid and time of receipt are as given, counted from the start.
func storedAt(t *testing.T, store testkit.Store, env id.Environment, uuid, received time.Duration) string {
	t.Helper()
	e := newEvent(env)
	e.UUID, e.ReceivedAt = uuidAt(at(0).Add(uuid), int(uuid/time.Millisecond)%1000), at(0).Add(received)
	run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{e})...)
	return e.UUID
}

// payloadsOf returns which of the environment's events have a payload in the store.
func payloadsOf(t *testing.T, store testkit.Store, uuids []string) (out []bool) {
	t.Helper()
	for _, u := range uuids {
		var n int
		require.NoError(t, store.DB.Read().QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM webhook_event_payloads WHERE event_uuid = $1", u).Scan(&n))
		out = append(out, n == 1)
	}
	return out
}

func expired(t *testing.T, s *events.Remover, env id.Environment, cutoff time.Time, limit int,
	swept bool) (uuids []string) {
	t.Helper()
	for after := ""; ; {
		list, looked, err := s.Expired(t.Context(), env, after, cutoff, limit, swept)
		require.NoError(t, err)
		for _, o := range list {
			uuids = append(uuids, o.UUID)
		}
		if looked == "" {
			return uuids
		}
		after = looked
	}
}

// Events received at the same time may be stored in another order: none is removed early, and those behind one whose
// time has not come wait for it.
func TestOldInAnotherOrder(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, env := events.NewRemover(store.DB), newEnvironment()
		uuids := []string{storedAt(t, store, env, time.Second, 0), storedAt(t, store, env, 2*time.Second, 3*time.Second),
			storedAt(t, store, env, 4*time.Second, time.Second)}
		sweep := func(cutoff time.Duration) []bool {
			_, more, err := s.SweepPayloads(t.Context(), env, at(0).Add(cutoff), 10)
			require.NoError(t, err)
			require.False(t, more)
			return payloadsOf(t, store, uuids)
		}
		require.Equal(t, []bool{false, true, true}, sweep(2*time.Second))
		require.Equal(t, []string{uuids[0]}, expired(t, s, env, at(0).Add(2*time.Second), 10, true),
			"no event goes before its payload was swept")
		require.Equal(t, []string{uuids[0], uuids[2]}, expired(t, s, env, at(0).Add(2*time.Second), 1, false))
		require.Equal(t, []bool{false, true, true}, sweep(3*time.Second-time.Millisecond))
		require.Equal(t, []bool{false, false, false}, sweep(3*time.Second))
		require.Equal(t, uuids, expired(t, s, env, at(0).Add(3*time.Second), 1, true))
	})
}

// Events that a wrong clock received in the far future delay no other removal, however many they are.
func TestOldOfAWrongClock(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s, env := events.NewRemover(store.DB), newEnvironment()
		var wrong []string
		for n := range 7 {
			wrong = append(wrong, storedAt(t, store, env, time.Duration(n)*time.Second, 1000*time.Hour))
		}
		right, young := storedAt(t, store, env, time.Minute, time.Minute), storedAt(t, store, env, 100*time.Hour,
			100*time.Hour)
		all := append(slices.Clone(wrong), right, young)
		for _, c := range []struct {
			cutoff time.Duration
			want   []string
		}{{time.Hour, []string{right}}, {999 * time.Hour, []string{right, young}}} {
			cutoff := at(0).Add(c.cutoff)
			require.Equal(t, c.want, expired(t, s, env, cutoff, 2, false))
		}
		for more := true; more; {
			var err error
			_, more, err = s.SweepPayloads(t.Context(), env, at(0).Add(26*time.Hour), 2)
			require.NoError(t, err)
		}
		require.Equal(t, []bool{true, true, true, true, true, true, true, false, true}, payloadsOf(t, store, all))
		require.Equal(t, []string{right}, expired(t, s, env, at(0).Add(26*time.Hour), 2, true))
		require.Len(t, expired(t, s, env, at(0).Add(1001*time.Hour), 2, false), len(all))
	})
}

// A sweep continues where the last one stopped, on any node, and keeps to its environment.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		env, other := newEnvironment(), newEnvironment()
		var uuids []string
		for n := range 7 {
			uuids = append(uuids, storedAt(t, store, env, time.Duration(n)*time.Second, time.Duration(n)*time.Second))
		}
		foreign := storedAt(t, store, other, time.Second/2, 0)
		for n, want := range []struct {
			swept int
			more  bool
		}{{3, true}, {3, true}, {1, false}, {0, false}} {
			swept, more, err := events.NewRemover(store.DB).SweepPayloads(t.Context(), env, at(0).Add(time.Hour), 3)
			require.NoError(t, err)
			require.Equal(t, want.swept, swept, n)
			require.Equal(t, want.more, more, n)
		}
		require.NotContains(t, payloadsOf(t, store, uuids), true)
		require.Equal(t, []bool{true}, payloadsOf(t, store, []string{foreign}))
		environments, err := events.NewRemover(store.DB).Environments(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, []id.Environment{env, other}, environments)
	})
}

// While expired keys are deleted, a claim gets the key or learns its holder: a claimed key stays.
func TestSweepKeysRaces(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		ctx := t.Context()
		s := events.NewRemover(store.DB)
		connection := id.NewUUID()
		const keys, claimers = 40, 3
		for now := int64(started); now < started+10; now++ {
			var group errgroup.Group
			var mu sync.Mutex
			won := map[string]int{}
			group.Go(func() error {
				for {
					n, err := s.SweepKeys(ctx, clock.FromMillis(now), 7)
					if err != nil || n == 0 {
						return err
					}
				}
			})
			for range claimers {
				group.Go(func() error {
					event := id.NewUUID()
					var mine []*events.Key
					for k := range keys {
						mine = append(mine, key(connection, strconv.Itoa(k), event, now+1))
					}
					var holders []string
					err := store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
						holders, err = events.NewKeys(store.DB).Claim(ctx, tx, mine, now)
						return err
					})
					mu.Lock()
					defer mu.Unlock()
					for i, h := range holders {
						if h == "" {
							won[string(mine[i].Hash)]++
						}
					}
					return err
				})
			}
			require.NoError(t, group.Wait())
			require.Len(t, won, keys)
			for _, n := range won {
				require.Equal(t, 1, n, "one claimer has each key")
			}
			var left int
			require.NoError(t, store.DB.Read().QueryRowContext(ctx, "SELECT COUNT(*) FROM webhook_event_keys WHERE "+
				"expires_ms = $1", now+1).Scan(&left))
			require.Equal(t, keys, left)
		}
	})
}

// A key is found again by the event that holds it, from any source.
func TestHashesOfKey(t *testing.T) {
	t.Parallel()
	require.Equal(t, [][]byte{events.HashID("body:a:b"), events.HashSignedID("body:a:b")},
		events.HashesOfKey("header:x-id", "body:a:b"))
	require.Equal(t, [][]byte{events.HashBody("ab12")},
		events.HashesOfKey(events.SourceBodyHash, events.BodyKey("ab12", id.NewUUID())))
	require.Equal(t, [][]byte{events.HashPublished("k")}, events.HashesOfKey(events.SourcePublisher, "k"))
	require.Empty(t, events.HashesOfKey(events.SourceEvent, id.NewUUID()))
	seen := map[string]bool{}
	for _, hash := range [][]byte{events.HashID("k"), events.HashSignedID("k"), events.HashBody("k"),
		events.HashPublished("k")} {
		require.Len(t, hash, 16)
		seen[string(hash)] = true
	}
	require.Len(t, seen, 4, "one kind is never taken for another")
}
