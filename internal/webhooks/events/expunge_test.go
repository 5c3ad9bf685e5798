package events_test

import (
	"database/sql"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// A payload is expunged once, in the environment of its event alone, and the rest of the event stays. A caller gets
// exactly the expunged among the requested events, however many they are.
func TestExpunge(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		ctx := t.Context()
		s := newStore(store.DB)
		env, other := newEnvironment(), newEnvironment()
		original, kept, repeat := newEvent(env), newEvent(env), newEvent(env)
		repeat.DuplicateOf, repeat.Payload = new(original.UUID), nil
		run(ctx, t, store.DB, events.Insert([]events.NewEvent{original, kept, repeat})...)
		expunge := func(e events.Event) (changed bool) {
			require.NoError(t, store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
				changed, err = s.Expunge(ctx, tx, &e, at(9))
				return err
			}))
			return changed
		}
		expunged := func(env id.Environment, uuids []string) (out []string) {
			require.NoError(t, store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
				out, err = s.Expunged(ctx, tx, env, uuids)
				return err
			}))
			return out
		}
		foreign := original.Event
		foreign.Environment = other
		require.False(t, expunge(foreign))
		require.False(t, expunge(repeat.Event))
		require.True(t, expunge(original.Event))
		require.False(t, expunge(original.Event))

		got, err := s.Get(ctx, access.Whole(env), original.UUID)
		require.NoError(t, err)
		want := fresh(original.Event)
		want.UpdatedAt, want.ExpungedAt, want.PayloadExpiresAt, want.PayloadExpired = at(9), new(at(9)), new(at(9)), true
		require.Equal(t, want, got)
		payloads, err := s.Payloads(ctx, env, []events.Event{original.Event, kept.Event, repeat.Event})
		require.NoError(t, err)
		require.Len(t, payloads, 1)
		require.Contains(t, payloads, kept.UUID)

		uuids := make([]string, 600)
		for i := range uuids {
			uuids[i] = id.NewUUID()
		}
		for _, n := range []int{0, 1, 2, 3, 255, 256, 257, 600} {
			asked := append(slices.Clone(uuids[:n]), kept.UUID, original.UUID, repeat.UUID)
			require.Equal(t, []string{original.UUID}, expunged(env, asked), n)
			require.Empty(t, expunged(other, asked))
			require.Empty(t, expunged(env, uuids[:n]))
		}
	})
}
