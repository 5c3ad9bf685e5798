package connections_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
)

// aliasModel says who should have which alias, in the words of the rules: an alias has at most one holder, and a
// released one stays its environment's for AliasHold.
type aliasModel struct {
	aliases map[string]*modelAlias
	// alias of each connection, by environment and connection id; "" is none.
	connections map[[2]string]string
}

type modelAlias struct {
	env      string
	held     bool
	released time.Time
}

func (m *aliasModel) take(env, alias string, now time.Time) bool {
	a := m.aliases[alias]
	if a != nil && (a.held || a.env != env && now.Sub(a.released) < connections.AliasHold) {
		return false
	}
	m.aliases[alias] = &modelAlias{env: env, held: true}
	return true
}

func (m *aliasModel) release(alias string, now time.Time) {
	if alias != "" {
		m.aliases[alias].held, m.aliases[alias].released = false, now
	}
}

// No one can take over an alias that another environment uses or recently used, in any order of creations, renames and
// deletions. The alias always leads to the connection that has it.
func TestAliasRules(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++ // names of their own for each run, because the database is one
			names := []string{fmt.Sprintf("r%d.a", run), fmt.Sprintf("r%d.b", run), fmt.Sprintf("r%d.c", run)}
			m := &aliasModel{aliases: map[string]*modelAlias{}, connections: map[[2]string]string{}}
			for range rapid.IntRange(4, 14).Draw(rt, "steps") {
				aliasStep(t.Context(), rt, w, m, names)
			}
			for name, a := range m.aliases {
				in, err := w.svc.Lookup(t.Context(), name)
				if !a.held {
					requireCode(rt, apperr.CodeNotFound, err)
					continue
				}
				require.NoError(rt, err)
				require.True(rt, in.ByAlias)
				require.Equal(rt, name, m.connections[[2]string{string(in.Connection.Environment), in.Connection.ConnectionID}])
			}
		})
	})
}

func aliasStep(ctx context.Context, rt *rapid.T, w *world, m *aliasModel, names []string) {
	who := rapid.SampledFrom([]access.Principal{w.a, w.b}).Draw(rt, "environment")
	name := rapid.SampledFrom(names).Draw(rt, "connection")
	key := [2]string{string(who.Environment), name}
	has, exists := m.connections[key]
	now := w.clock.Now()
	change := connections.Change{}
	wanted := rapid.SampledFrom(append([]string{"", "default"}, names...)).Draw(rt, "alias")
	switch wanted {
	case "":
		change.Alias = patch.Clear[string]()
	case "default":
	default:
		change.Alias = patch.To(wanted)
	}
	switch rapid.SampledFrom([]string{"create", "create", "rename", "delete", "wait"}).Draw(rt, "action") {
	case "create":
		provider := "github"
		c, _, err := w.svc.Create(ctx, who, connections.NewConnection{Provider: &provider, ConnectionID: &name,
			Change: change})
		if exists {
			requireCode(rt, apperr.CodeConnectionExists, err)
			return
		}
		got := wanted
		if wanted == "default" {
			got = name
		}
		if got != "" && !m.take(key[0], got, now) {
			if change.Alias.Set {
				requireCode(rt, apperr.CodeAliasTaken, err)
				return
			}
			got = ""
		}
		m.connections[key] = got
		requireAlias(rt, got, c, err)
	case "rename":
		c, err := w.svc.Update(ctx, who, "github", name, change)
		switch {
		case !exists:
			requireCode(rt, apperr.CodeNotFound, err)
			return
		case wanted == "default" || wanted == has:
		case wanted == "":
			m.release(has, now)
			m.connections[key] = ""
		case !m.take(key[0], wanted, now):
			requireCode(rt, apperr.CodeAliasTaken, err)
			return
		default:
			m.release(has, now)
			m.connections[key] = wanted
		}
		requireAlias(rt, m.connections[key], c, err)
	case "delete":
		err := w.svc.Delete(ctx, who, "github", name)
		if !exists {
			requireCode(rt, apperr.CodeNotFound, err)
			return
		}
		require.NoError(rt, err)
		m.release(has, now)
		delete(m.connections, key)
	case "wait":
		w.clock.Advance(rapid.SampledFrom([]time.Duration{time.Millisecond, connections.AliasHold - time.Millisecond,
			connections.AliasHold}).Draw(rt, "for"))
	}
}

func requireAlias(rt *rapid.T, want string, c connections.Connection, err error) {
	require.NoError(rt, err)
	if want == "" {
		require.Nil(rt, c.Alias)
		return
	}
	require.NotNil(rt, c.Alias)
	require.Equal(rt, want, *c.Alias)
}

// A generated id is always an alias, so that its URL can be written down before the token is known.
func TestGeneratedIDIsAlias(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		in := github("")
		in.ConnectionID = nil
		c := w.create(t, w.a, in)
		require.Len(t, c.ConnectionID, 26)
		require.Equal(t, c.ConnectionID, *c.Alias)
	})
}

// Of two callers with one request at the same time one succeeds: an id has one connection, and an alias one holder.
func TestConcurrentCreates(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		w := newWorld(t, s)
		const callers = 8
		race := func(create func(i int) error) (won int, lost []error) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					err := create(i)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won++
					} else {
						lost = append(lost, err)
					}
				})
			}
			wg.Wait()
			return won, lost
		}
		won, lost := race(func(int) error {
			_, created, err := w.svc.Create(t.Context(), w.a, github("same"))
			if err == nil && !created {
				return errors.New("changed, not created")
			}
			return err
		})
		require.Equal(t, 1, won)
		for _, err := range lost {
			requireCode(t, apperr.CodeConnectionExists, err)
		}
		won, lost = race(func(i int) error {
			in := github(fmt.Sprintf("other-%d", i))
			in.Alias = patch.To("wanted")
			_, _, err := w.svc.Create(t.Context(), []access.Principal{w.a, w.b}[i%2], in)
			return err
		})
		require.Equal(t, 1, won)
		for _, err := range lost {
			requireCode(t, apperr.CodeAliasTaken, err)
		}
		var created int
		var mu sync.Mutex
		won, lost = race(func(int) error {
			in := github("upsert")
			in.OnConflict = connections.ConflictUpdate
			_, fresh, err := w.svc.Create(t.Context(), w.a, in)
			mu.Lock()
			defer mu.Unlock()
			if fresh {
				created++
			}
			return err
		})
		require.Empty(t, lost)
		require.Equal(t, callers, won)
		require.Equal(t, 1, created)
	})
}

// Paths that strangers make up take no connection from the gateway's own work, and are looked up without one of its.
func TestUnknownPathsTakeNoReservedConnection(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		defer testkit.Occupy(t, store.DB.Reserved())()
		_, err := w.svc.Lookup(t.Context(), "unknown")
		require.True(t, apperr.Is(err, apperr.CodeNotFound), "%v", err)
	})
}
