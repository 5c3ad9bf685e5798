package identity

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// holding says what every environment holds.
type holding []string

func (h holding) Held(context.Context, id.Environment) ([]string, error) { return h, nil }

// An environment is made, shown, renamed and removed, each with its trail; a change that changes nothing leaves none.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.Ask(holding{})
		actor, p := f.owner(t)
		before := len(f.trail(t))
		e, err := f.CreateEnvironment(t.Context(), actor, NewEnvironment{Name: "staging", Type: Live})
		require.NoError(t, err)
		got, err := f.GetEnvironment(t.Context(), actor, e.ID)
		require.NoError(t, err)
		require.Equal(t, e, got)
		_, key := f.key(t, actor, e.ID)
		require.True(t, strings.HasPrefix(key, "spk_live_"))
		for range 2 {
			e, err = f.UpdateEnvironment(t.Context(), actor, e.ID, EnvironmentChange{Name: new("rehearsal")})
			require.NoError(t, err)
			require.Equal(t, "rehearsal", e.Name)
		}
		keys, err := f.ListKeys(t.Context(), actor, []id.Environment{e.ID}, page.Request{Limit: 5})
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(key, keys[0].Prefix+"_"), "a key's prefix outlives its environment's name")

		list, err := f.ListEnvironments(t.Context(), actor, page.Request{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, []string{"rehearsal", "production"}, []string{list[0].Name, list[1].Name})
		rest, err := f.ListEnvironments(t.Context(), actor, page.Request{Limit: 9, After: string(list[0].ID)})
		require.NoError(t, err)
		require.Equal(t, []Environment{p.Environments[1], p.Environments[0]}, rest)

		_, err = f.UpdateEnvironment(t.Context(), actor, e.ID, EnvironmentChange{Name: new(Production)})
		require.True(t, apperr.Is(err, apperr.CodeEnvironmentExists))
		_, err = f.CreateEnvironment(t.Context(), actor, NewEnvironment{Name: "rehearsal", Type: Test})
		require.True(t, apperr.Is(err, apperr.CodeEnvironmentExists))

		require.NoError(t, f.DeleteKey(t.Context(), actor, keys[0].ID))
		require.NoError(t, f.DeleteEnvironment(t.Context(), actor, e.ID))
		for _, a := range f.trail(t)[before:] {
			require.Equal(t, string(e.ID), a.environment)
			require.Equal(t, actor.ID, a.actor)
		}
		require.Equal(t, []string{"environment.create", "api_key.create", "environment.update", "api_key.delete",
			"environment.delete"}, f.actions(t)[before:])
	})
}

// An environment that was removed does not exist: not by its id, not by its name, not in a list, not for a request, and
// not for a key; its name is free.
func TestDeletedEnvironmentIsGone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.Ask(holding{})
		actor, p := f.owner(t)
		gone := p.Environments[0].ID
		require.NoError(t, f.DeleteEnvironment(t.Context(), actor, gone))
		for name, err := range map[string]error{
			"get":   func() error { _, err := f.GetEnvironment(t.Context(), actor, gone); return err }(),
			"scope": func() error { _, err := f.Environment(t.Context(), actor, string(gone)); return err }(),
			"rename": func() error {
				_, err := f.UpdateEnvironment(t.Context(), actor, gone, EnvironmentChange{Name: new("back")})
				return err
			}(),
			"delete":  f.DeleteEnvironment(t.Context(), actor, gone),
			"by id":   func() error { _, err := f.FindEnvironment(t.Context(), actor, string(gone)); return err }(),
			"by name": func() error { _, err := f.FindEnvironment(t.Context(), actor, Development); return err }(),
			"key": func() error {
				_, _, err := f.CreateKey(t.Context(), actor, NewKey{Name: "x", Environment: gone})
				return err
			}(),
			"keys": func() error {
				_, err := f.ListKeys(t.Context(), actor, []id.Environment{gone}, page.Request{Limit: 1})
				return err
			}(),
		} {
			require.True(t, apperr.Is(err, apperr.CodeNotFound), name)
		}
		list, err := f.Environments(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, p.Environments[1:], list)
		again, err := f.CreateEnvironment(t.Context(), actor, NewEnvironment{Name: Development, Type: Test})
		require.NoError(t, err)
		require.NotEqual(t, gone, again.ID)
	})
}

// An environment that holds anything stays, and the answer says what it holds.
func TestDeleteNeedsAnEmptyEnvironment(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		env := p.Environments[0].ID
		require.ErrorIs(t, f.DeleteEnvironment(t.Context(), actor, env), errNoContents)
		f.Ask(holding{"connections", "events"})
		k, _ := f.key(t, actor, env)
		refused := func(message string) {
			t.Helper()
			var e *apperr.Error
			require.ErrorAs(t, f.DeleteEnvironment(t.Context(), actor, env), &e)
			require.Equal(t, apperr.CodeEnvironmentNotEmpty, e.Code)
			require.Equal(t, message, e.Message)
			got, err := f.GetEnvironment(t.Context(), actor, env)
			require.NoError(t, err)
			require.Equal(t, p.Environments[0], got)
		}
		refused("The environment still has connections, events, API keys")
		f.Ask(holding{})
		refused("The environment still has API keys")
		_, err := f.RevokeKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		refused("The environment still has API keys")
		require.NoError(t, f.DeleteKey(t.Context(), actor, k.ID))
		require.NoError(t, f.DeleteEnvironment(t.Context(), actor, env))
	})
}

// A key that is made while its environment is removed either keeps it or is not made: no key works in an environment
// that is gone.
func TestDeleteRacesWithKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.Ask(holding{})
		actor, _ := f.owner(t)
		for range 10 {
			e, err := f.CreateEnvironment(t.Context(), actor, NewEnvironment{Name: "brief", Type: Test})
			require.NoError(t, err)
			var made, deleted error
			var key Key
			var all sync.WaitGroup
			all.Go(func() { key, _, made = f.CreateKey(t.Context(), actor, NewKey{Name: "x", Environment: e.ID}) })
			all.Go(func() { deleted = f.DeleteEnvironment(t.Context(), actor, e.ID) })
			all.Wait()
			if deleted != nil {
				require.NoError(t, made)
				require.True(t, apperr.Is(deleted, apperr.CodeEnvironmentNotEmpty), deleted)
				require.NoError(t, f.DeleteKey(t.Context(), actor, key.ID))
				require.NoError(t, f.DeleteEnvironment(t.Context(), actor, e.ID))
				continue
			}
			require.True(t, apperr.Is(made, apperr.CodeNotFound), made)
		}
	})
}

// What refers to an environment and was stored in a transaction that found the environment live afterwards keeps it:
// whoever removes it meanwhile waits for the commit and counts the row, or was first and is seen.
func TestDeleteRacesWithOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.Ask(holding{})
		actor, _ := f.owner(t)
		for range 10 {
			e, err := f.CreateEnvironment(t.Context(), actor, NewEnvironment{Name: "brief", Type: Test})
			require.NoError(t, err)
			text := newKeyText(Test)
			k := f.newKey(NewKey{Name: "x", Environment: e.ID}, text)
			var made, deleted error
			var all sync.WaitGroup
			all.Go(func() {
				made = f.db.Tx(t.Context(), func(tx *sql.Tx) error {
					if err := insertKey(t.Context(), tx, e.Team, k, text, []byte{1}, actor.ID); err != nil {
						return err
					}
					return f.RequireLive(t.Context(), tx, e.ID)
				})
			})
			all.Go(func() { deleted = f.DeleteEnvironment(t.Context(), actor, e.ID) })
			all.Wait()
			if made == nil {
				require.True(t, apperr.Is(deleted, apperr.CodeEnvironmentNotEmpty), deleted)
				require.NoError(t, f.DeleteKey(t.Context(), actor, k.ID))
				require.NoError(t, f.DeleteEnvironment(t.Context(), actor, e.ID))
				continue
			}
			require.NoError(t, deleted)
			require.True(t, apperr.Is(made, apperr.CodeNotFound), made)
		}
	})
}

// Another team's environment does not exist, and a name that could be taken for an id, a flag or a path is refused.
func TestEnvironmentRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.Ask(holding{})
		actor, p := f.owner(t)
		_, foreign, _ := f.foreign(t)
		for _, env := range []id.Environment{foreign, "", "development", "env_\x00"} {
			_, err := f.GetEnvironment(t.Context(), actor, env)
			require.True(t, apperr.Is(err, apperr.CodeNotFound), env)
			_, err = f.UpdateEnvironment(t.Context(), actor, env, EnvironmentChange{Name: new("mine")})
			require.True(t, apperr.Is(err, apperr.CodeNotFound), env)
			require.True(t, apperr.Is(f.DeleteEnvironment(t.Context(), actor, env), apperr.CodeNotFound), env)
		}
		for _, name := range []string{"", "-", "-a", "A", "1a", "a b", "a_b", "a/b", "ä", "a\n", id.New(id.PrefixEnvironment),
			strings.Repeat("a", 64)} {
			_, err := f.CreateEnvironment(t.Context(), actor, NewEnvironment{Name: name, Type: Test})
			require.True(t, apperr.Is(err, apperr.CodeValidation), name)
			_, err = f.UpdateEnvironment(t.Context(), actor, p.Environments[0].ID, EnvironmentChange{Name: new(name)})
			require.True(t, apperr.Is(err, apperr.CodeValidation), name)
		}
		_, err := f.CreateEnvironment(t.Context(), actor, NewEnvironment{Name: "A", Type: "staging"})
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		require.Len(t, e.Details, 2)
		_, err = f.CreateEnvironment(t.Context(), access.Principal{Kind: access.KindAPIKey},
			NewEnvironment{Name: "a", Type: Test})
		require.ErrorIs(t, err, errActor)
	})
}

// A team is renamed with its trail, and only its own.
func TestRenameTeam(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		stranger, _, _ := f.foreign(t)
		before := len(f.trail(t))
		for range 2 {
			got, err := f.RenameTeam(t.Context(), actor, "Difference Engines")
			require.NoError(t, err)
			require.Equal(t, Team{ID: p.Team.ID, Name: "Difference Engines", CreatedMillis: p.Team.CreatedMillis}, got)
		}
		require.Equal(t, []string{"team.update"}, f.actions(t)[before:])
		other, err := f.Team(t.Context(), stranger)
		require.NoError(t, err)
		require.Equal(t, "Others", other.Name)
		for _, name := range []string{"", " ", "a\x00b", strings.Repeat("x", MaxNameCharacters+1)} {
			_, err := f.RenameTeam(t.Context(), actor, name)
			require.True(t, apperr.Is(err, apperr.CodeValidation), name)
		}
	})
}
