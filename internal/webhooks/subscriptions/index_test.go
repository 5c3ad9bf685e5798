package subscriptions

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/filters"
)

// An index that was changed in place, by any sequence of changes, is the index that is made of what is left: nothing of
// a removed subscription stays in it, and a change reports exactly whether it changes what matches.
func TestIndexChangedInPlace(t *testing.T) {
	t.Parallel()
	known := []*filters.Filter{nil, filters.New("true"), filters.New("false")}
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b", "a/b", "*/a", "b:a", OwnProvider, "*"})
		pattern := rapid.Map(rapid.SliceOfN(segment, 1, 3), func(s []string) string { return strings.Join(s, ".") })
		present := map[string]entry{}
		x := newIndex(nil)
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			name := rapid.SampledFrom([]string{"sub_a", "sub_b", "sub_c", "sub_d", "sub_e"}).Draw(t, "subscription")
			old, exists := present[name]
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				require.Equal(t, exists, x.set(name, nil))
				delete(present, name)
				continue
			}
			e := entry{
				Matched: Matched{ID: name, Enabled: rapid.Bool().Draw(t, "enabled"),
					Filter: rapid.SampledFrom(known).Draw(t, "filter")},
				scope: bound(rapid.SampledFrom([]string{"", "github"}).Draw(t, "key"),
					rapid.SampledFrom([]string{"", "c1"}).Draw(t, "connection")),
			}
			e.slots = slotsOf(writers{}, rapid.SliceOfN(pattern, 1, 4).Draw(t, "patterns"), e.scope)
			require.Equal(t, !exists || !old.same(&e), x.set(name, &e))
			present[name] = e
		}
		var left []entry
		for _, e := range present {
			left = append(left, e)
		}
		slices.SortFunc(left, func(a, b entry) int { return strings.Compare(a.ID, b.ID) })
		require.Equal(t, newIndex(left), x)
		require.Equal(t, x.wantsOwn(), newIndex(left).wantsOwn())
	})
}

// A change that has to wait too long for another reading of the environment drops the index, so that what the reading
// finds cannot stay although it is older than the change. Other environments keep theirs.
func TestAChangeThatWaitsTooLongDropsTheIndex(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		d := NewDirectory(store.DB, nil, nil)
		current := func(env id.Environment) func() bool {
			_, g, err := d.Match(t.Context(), env, Origin{}, []string{"a"})
			require.NoError(t, err)
			return func() bool { return d.Current(env, g) }
		}
		a, b := current("env_a"), current("env_b")
		reading := d.find("env_a")
		require.NoError(t, reading.lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		d.follow(ctx, "env_a", "sub_a")
		require.False(t, a())
		require.True(t, b())
		require.True(t, current("env_a")(), "the next event does not wait for the other reading")
		reading.unlock()
		require.True(t, current("env_a")())
	})
}

// Own events are matched in their transaction while every connection for reading is taken, also at first, when the
// index is not in memory: a checkpoint may have them, and wait for the transaction. The index is read for later ones.
func TestOwnWaitsForNoReader(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		d := NewDirectory(store.DB, nil, nil)
		own := func() (o *Own) {
			require.NoError(t, store.DB.Tx(t.Context(), func(tx *sql.Tx) (err error) {
				o, err = d.Own(t.Context(), tx, "env_a")
				return err
			}))
			require.False(t, o.Wanted())
			require.Empty(t, o.Match("github", "acme", "sallyport.connection.created"))
			require.Empty(t, o.ConnectionOf("sub_a"))
			return o
		}
		for _, free := range []func(){testkit.Occupy(t, store.DB.Read()), testkit.Occupy(t, store.DB.Reserved())} {
			require.Nil(t, own().live)
			free()
		}
		require.NoError(t, d.readWanted(t.Context()))
		require.NotNil(t, own().live)
		require.Empty(t, d.wanted)
	})
}

// reloaded is a source that changes.
type reloaded struct{ list []*eventtypes.Provider }

func (r *reloaded) EventTypes() []*eventtypes.Provider { return r.list }

// When the definitions of providers have changed, patterns are read by the new rules.
func TestTypesChanged(t *testing.T) {
	t.Parallel()
	types := &reloaded{}
	d := NewDirectory(nil, types, nil)
	env := id.Environment("env_a")
	read := func() bool {
		l := d.add(env)
		if !l.isRead() {
			l.index = newIndex([]entry{{Matched: Matched{ID: "sub_a"}, slots: slotsOf(d.types, []string{"a/b"}, scope{})}})
			l.generation.Store(d.generations.Add(1))
		}
		list, g, err := d.Match(t.Context(), env, Origin{"github", "github", "acme"}, []string{"a.b"})
		require.NoError(t, err)
		require.True(t, d.Current(env, g))
		return len(list) == 1
	}
	require.False(t, read())
	types.list = writers{}.EventTypes()
	_, old, err := d.Match(t.Context(), env, Origin{"github", "github", "acme"}, []string{"a.b"})
	require.NoError(t, err)
	d.TypesChanged()
	require.False(t, d.Current(env, old), "what was matched before is matched again")
	require.True(t, read())
	rules, err := d.TypeRules(t.Context(), env, Origin{Provider: "github"})
	require.NoError(t, err)
	require.Equal(t, "a.b", rules.Normal("a/b"))
}
