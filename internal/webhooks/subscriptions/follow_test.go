package subscriptions_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/subscriptions"
)

// unread gives the stored row of a subscription a pattern that the index cannot read: anyone who reads it fails.
func (w *world) unread(t *testing.T, subscriptionID string) {
	t.Helper()
	w.exec(t, `UPDATE webhook_subscriptions SET event_types = '[""]' WHERE id = $1`, subscriptionID)
}

// pause changes whether the subscription is enabled.
func (w *world) pause(t require.TestingT, subscriptionID string, enabled bool) {
	_, err := w.Update(context.Background(), w.p, subscriptionID,
		subscriptions.Change{Settings: subscriptions.Settings{Enabled: patch.Some(enabled)}})
	require.NoError(t, err)
}

// A change of a subscription reads that one again and no other, on the process that made it and on those that follow,
// in its own environment and in others: one key that changes a subscription again and again makes no one read all of
// them.
func TestAChangeReadsOnlyItsSubscription(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		changing, neighbour := w.create(t, "a"), w.create(t, "a")
		stranger := w.p
		stranger.Environment = w.other
		elsewhere, _, err := w.Create(t.Context(), stranger, change("a"))
		require.NoError(t, err)
		reader := w.process()
		require.NoError(t, reader.Refresh(t.Context()))
		all := func(s *subscriptions.Service) (mine, others []subscriptions.Matched) {
			t.Helper()
			others, g, err := s.Match(t.Context(), w.other, origin("github", "acme"), []string{"a"})
			require.NoError(t, err)
			require.True(t, s.Current(w.other, g))
			return w.match(t, s, "a"), others
		}
		processes := []*subscriptions.Service{w.Service, reader}
		for _, s := range processes {
			all(s)
			_, err := s.Target(t.Context(), w.other, elsewhere.ID)
			require.NoError(t, err)
			require.NoError(t, s.Refresh(t.Context()))
		}
		before, err := reader.Target(t.Context(), w.other, elsewhere.ID)
		require.NoError(t, err)
		w.unread(t, neighbour.ID)
		w.unread(t, elsewhere.ID)
		for i := range 100 {
			w.pause(t, changing.ID, i%2 == 1)
			want := []subscriptions.Matched{{ID: changing.ID, Enabled: i%2 == 1}, {ID: neighbour.ID, Enabled: true}}
			for _, s := range processes {
				if i%10 == 0 || s == w.Service {
					require.NoError(t, s.Refresh(t.Context()))
					mine, others := all(s)
					require.Equal(t, want, mine)
					require.Equal(t, []subscriptions.Matched{{ID: elsewhere.ID, Enabled: true}}, others)
				}
			}
		}
		after, err := reader.Target(t.Context(), w.other, elsewhere.ID)
		require.NoError(t, err)
		require.Same(t, before, after)
	})
}

// A generation is current until a change that concerns matching, and until then only: events are matched again when
// they must be, and not because a user edits descriptions.
func TestGenerations(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		require.False(t, w.Current(w.p.Environment, 0), "nothing has been read")
		sub := w.create(t, "*")
		require.NoError(t, w.Refresh(t.Context()))
		generation := func() subscriptions.Generation {
			_, g, err := w.Match(t.Context(), w.p.Environment, origin("github", "acme"), []string{"a"})
			require.NoError(t, err)
			require.True(t, w.Current(w.p.Environment, g))
			return g
		}
		for what, ch := range map[string]subscriptions.Settings{
			"pause":      {Enabled: patch.Some(false)},
			"filter":     {Filter: patch.To("true")},
			"connection": {ConnectionID: patch.To("acme"), ProviderConfigKey: patch.To("github")},
		} {
			before := generation()
			_, err := w.Update(t.Context(), w.p, sub.ID, subscriptions.Change{Settings: ch})
			require.NoError(t, err)
			require.False(t, w.Current(w.p.Environment, before), what)
		}
		before := generation()
		_, err := w.Update(t.Context(), w.p, sub.ID,
			subscriptions.Change{Settings: subscriptions.Settings{Description: patch.To("on leave")}})
		require.NoError(t, err)
		require.NoError(t, w.Refresh(t.Context()))
		require.NoError(t, w.Refresh(t.Context()))
		require.True(t, w.Current(w.p.Environment, before))
		require.NoError(t, w.Delete(t.Context(), w.p, sub.ID))
		require.False(t, w.Current(w.p.Environment, before))
	})
}

// A process of the previous release raises the version without saying what it has changed: the others read everything
// again, as they did before.
func TestChangesOfThePreviousRelease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "a")
		require.NoError(t, w.Refresh(t.Context()))
		require.Len(t, w.match(t, w.Service, "a"), 1)
		w.exec(t, `UPDATE webhook_subscriptions SET enabled = false WHERE id = $1`, sub.ID)
		w.exec(t, `UPDATE cache_versions SET version = version + 1`)
		require.True(t, w.match(t, w.Service, "a")[0].Enabled)
		require.NoError(t, w.Refresh(t.Context()))
		require.False(t, w.match(t, w.Service, "a")[0].Enabled)
	})
}

// Two processes that change subscriptions in any order each find their own changes immediately, and after their next
// Refresh the same as a process that reads everything fresh.
func TestProcessesFollowEachOther(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		processes := []*subscriptions.Service{w.process(), w.process()}
		settings := func(rt *rapid.T) subscriptions.Change {
			ch := change(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "a.*", "*", "*.b", "c"}), 1, 3,
				rapid.ID).Draw(rt, "types")...)
			ch.Enabled = patch.Some(rapid.Bool().Draw(rt, "enabled"))
			if filter := rapid.SampledFrom([]string{"", "true", "false"}).Draw(rt, "filter"); filter != "" {
				ch.Filter = patch.To(filter)
			}
			return ch
		}
		rapid.Check(t, func(rt *rapid.T) {
			p := w.p
			p.Environment = id.Environment(id.New(id.PrefixEnvironment))
			w.exec(t, `INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, $2, $1, 0)`, string(p.Environment),
				string(p.Team))
			var ids []string
			for range rapid.IntRange(1, 8).Draw(rt, "steps") {
				s := processes[rapid.IntRange(0, 1).Draw(rt, "process")]
				switch kind := rapid.IntRange(0, 5).Draw(rt, "kind"); {
				case len(ids) == 0 || kind == 0:
					sub, _, err := s.Create(t.Context(), p, settings(rt))
					require.NoError(rt, err)
					ids = append(ids, sub.ID)
				case kind == 1:
					at := rapid.IntRange(0, len(ids)-1).Draw(rt, "which")
					require.NoError(rt, s.Delete(t.Context(), p, ids[at]))
					ids = append(ids[:at:at], ids[at+1:]...)
				case kind == 2:
					require.NoError(rt, s.Disable(t.Context(), p.Environment,
						rapid.SampledFrom(ids).Draw(rt, "which"), "gone"))
				case kind == 3:
					require.NoError(rt, s.Refresh(t.Context()))
					continue
				default:
					_, err := s.Update(t.Context(), p, rapid.SampledFrom(ids).Draw(rt, "which"), settings(rt))
					require.NoError(rt, err)
				}
				if rapid.Bool().Draw(rt, "look") {
					_, _, err := s.Match(t.Context(), p.Environment, origin("github", "acme"), []string{"a"})
					require.NoError(rt, err)
				}
			}
			fresh := w.process()
			for _, s := range processes {
				require.NoError(rt, s.Refresh(t.Context()))
				for _, eventType := range []string{"a", "a.b", "c", "d"} {
					require.Equal(rt, shape(rt, p.Environment, fresh, eventType), shape(rt, p.Environment, s, eventType), eventType)
				}
			}
		})
	})
}

// shape is what a process finds for a type, with the text of the filters.
func shape(t require.TestingT, env id.Environment, s *subscriptions.Service, eventType string) (out []string) {
	found, _, err := s.Match(context.Background(), env, origin("github", "acme"), []string{eventType})
	require.NoError(t, err)
	for _, m := range found {
		line := fmt.Sprint(m.ID, " ", m.Enabled)
		if m.Filter != nil {
			line += " " + m.Filter.String()
		}
		out = append(out, line)
	}
	return out
}

// However changes, readings and refreshes meet, none of them brings an old state back: after the last one every process
// has the last state.
func TestChangesMeet(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		reader := w.process()
		var subs []string
		for range 4 {
			subs = append(subs, w.create(t, "a").ID)
		}
		var all sync.WaitGroup
		for _, sub := range subs {
			all.Go(func() {
				for i := range 15 {
					enabled := i%2 == 1
					_, err := w.Update(t.Context(), w.p, sub,
						subscriptions.Change{Settings: subscriptions.Settings{Enabled: patch.Some(enabled)}})
					found, _, matchErr := w.Match(t.Context(), w.p.Environment, origin("github", "acme"), []string{"a"})
					shows := slices.Contains(found, subscriptions.Matched{ID: sub, Enabled: enabled})
					if err := errors.Join(err, matchErr); err != nil || !shows {
						t.Errorf("the change shows when it has returned: %v, %v", found, err)
						return
					}
				}
			})
		}
		all.Go(func() {
			for range 20 {
				err := reader.Refresh(t.Context())
				_, _, matchErr := reader.Match(t.Context(), w.p.Environment, origin("github", "acme"), []string{"a"})
				if err := errors.Join(err, matchErr, w.Refresh(t.Context())); err != nil {
					t.Error(err)
					return
				}
			}
		})
		all.Wait()
		for _, s := range []*subscriptions.Service{w.Service, reader} {
			require.NoError(t, s.Refresh(t.Context()))
			for _, m := range w.match(t, s, "a") {
				require.False(t, m.Enabled)
			}
		}
	})
}

// An index that cannot be brought up to date is dropped: the next event reads it again, and gets no old state.
func TestAnIndexThatCannotFollowIsDropped(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "a")
		w.match(t, w.Service, "a")
		w.unread(t, sub.ID)
		require.NoError(t, w.Disable(t.Context(), w.p.Environment, sub.ID, "gone"))
		_, _, err := w.Match(t.Context(), w.p.Environment, origin("github", "acme"), []string{"a"})
		require.Error(t, err)
		w.exec(t, `UPDATE webhook_subscriptions SET event_types = '["a"]' WHERE id = $1`, sub.ID)
		require.Equal(t, []subscriptions.Matched{{ID: sub.ID}}, w.match(t, w.Service, "a"))
		_, _, err = w.Match(t.Context(), id.Environment("env_none"), origin("github", "acme"), []string{"a"})
		require.NoError(t, err)
	})
}

// A failed Refresh is no reason to read everything again. After Forget, which follows when it keeps failing, everything
// is read again.
func TestAProcessThatCannotFollow(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "a")
		enabled := func() bool {
			t.Helper()
			found := w.match(t, w.Service, "a")
			require.Len(t, found, 1)
			target, err := w.Target(t.Context(), w.p.Environment, sub.ID)
			require.NoError(t, err)
			require.Equal(t, found[0].Enabled, target.Enabled)
			return found[0].Enabled
		}
		unreachable, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, w.Refresh(t.Context()))
		require.True(t, enabled())
		w.exec(t, `UPDATE webhook_subscriptions SET enabled = false WHERE id = $1`, sub.ID)
		require.Error(t, w.Refresh(unreachable))
		require.True(t, enabled())
		w.Forget()
		require.False(t, enabled())
	})
}

// A change whose commit got no response may take effect after this process has looked at the subscription. It is seen
// like a change of another process, so nothing old stays in memory.
func TestACommitThatTakesEffectLate(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "a")
		require.NoError(t, w.Refresh(t.Context()))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		enabled := func() []bool {
			t.Helper()
			target, err := w.Target(t.Context(), w.p.Environment, sub.ID)
			require.NoError(t, err)
			return []bool{w.match(t, w.Service, "a")[0].Enabled, target.Enabled}
		}
		ctx := t.Context()
		require.NoError(t, store.DB.Tx(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `UPDATE webhook_subscriptions SET enabled = false WHERE id = $1`,
				sub.ID); err != nil {
				return err
			}
			if err := db.Bump(ctx, tx, "webhook_subscriptions", string(w.p.Environment)+"/"+sub.ID); err != nil {
				return err
			}
			// The caller of the change has lost its connection, and does this meanwhile.
			require.Error(t, w.Disable(gone, w.p.Environment, sub.ID, "gone"))
			require.Equal(t, []bool{true, true}, enabled())
			require.NoError(t, w.Refresh(ctx))
			return nil
		}))
		require.NoError(t, w.Refresh(t.Context()))
		require.Equal(t, []bool{false, false}, enabled())
	})
}
