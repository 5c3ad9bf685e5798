package team_test

import (
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// An environment is made, shown, renamed and removed, each with its trail; a change that changes nothing leaves none.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		before := len(f.Trail(t))
		e, err := f.Team.CreateEnvironment(t.Context(), actor, team.NewEnvironment{Name: "staging", Type: team.Live})
		require.NoError(t, err)
		got, err := f.Team.GetEnvironment(t.Context(), actor, e.ID)
		require.NoError(t, err)
		require.Equal(t, e, got)
		_, key := f.Key(t, actor, e.ID)
		require.True(t, strings.HasPrefix(key, "spk_live_"))
		for range 2 {
			e, err = f.Team.UpdateEnvironment(t.Context(), actor, e.ID, team.EnvironmentChange{Name: new("rehearsal")})
			require.NoError(t, err)
			require.Equal(t, "rehearsal", e.Name)
		}
		keys, err := f.Keys.ListKeys(t.Context(), actor, []id.Environment{e.ID}, page.Request{Limit: 5})
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(key, keys[0].Prefix+"_"), "a key's prefix outlives its environment's name")

		list, err := f.Team.ListEnvironments(t.Context(), actor, page.Request{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, []string{"rehearsal", "production"}, []string{list[0].Name, list[1].Name})
		rest, err := f.Team.ListEnvironments(t.Context(), actor, page.Request{Limit: 9, After: string(list[0].ID)})
		require.NoError(t, err)
		require.Equal(t, []team.Environment{p.Environments[1], p.Environments[0]}, rest)

		_, err = f.Team.UpdateEnvironment(t.Context(), actor, e.ID, team.EnvironmentChange{Name: new(team.Production)})
		require.True(t, apperr.Is(err, apperr.CodeEnvironmentExists))
		_, err = f.Team.CreateEnvironment(t.Context(), actor, team.NewEnvironment{Name: "rehearsal", Type: team.Test})
		require.True(t, apperr.Is(err, apperr.CodeEnvironmentExists))

		require.NoError(t, f.Keys.DeleteKey(t.Context(), actor, keys[0].ID))
		require.NoError(t, f.Team.DeleteEnvironment(t.Context(), actor, e.ID))
		for _, a := range f.Trail(t)[before:] {
			require.Equal(t, string(e.ID), a.Environment)
			require.Equal(t, actor.ID, a.Actor)
		}
		require.Equal(t, []string{"environment.create", "api_key.create", "environment.update", "api_key.delete",
			"environment.delete"}, f.Actions(t)[before:])
	})
}

// An environment that was removed does not exist: not by its id, not by its name, not in a list, not for a request, and
// not for a key; its name is free.
func TestDeletedEnvironmentIsGone(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		gone := p.Environments[0].ID
		require.NoError(t, f.Team.DeleteEnvironment(t.Context(), actor, gone))
		for name, err := range map[string]error{
			"get":   func() error { _, err := f.Team.GetEnvironment(t.Context(), actor, gone); return err }(),
			"scope": func() error { _, err := f.Principals.Environment(t.Context(), actor, string(gone)); return err }(),
			"rename": func() error {
				_, err := f.Team.UpdateEnvironment(t.Context(), actor, gone, team.EnvironmentChange{Name: new("back")})
				return err
			}(),
			"delete":  f.Team.DeleteEnvironment(t.Context(), actor, gone),
			"by id":   func() error { _, err := f.Team.FindEnvironment(t.Context(), actor, string(gone)); return err }(),
			"by name": func() error { _, err := f.Team.FindEnvironment(t.Context(), actor, team.Development); return err }(),
			"key": func() error {
				_, _, err := f.Keys.CreateKey(t.Context(), actor, apikeys.NewKey{Name: "x", Environment: gone})
				return err
			}(),
			"keys": func() error {
				_, err := f.Keys.ListKeys(t.Context(), actor, []id.Environment{gone}, page.Request{Limit: 1})
				return err
			}(),
		} {
			require.True(t, apperr.Is(err, apperr.CodeNotFound), name)
		}
		list, err := f.Team.Environments(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, p.Environments[1:], list)
		again, err := f.Team.CreateEnvironment(t.Context(), actor, team.NewEnvironment{Name: team.Development,
			Type: team.Test})
		require.NoError(t, err)
		require.NotEqual(t, gone, again.ID)
	})
}

// An environment with contents cannot be deleted, and the response says what it holds.
func TestDeleteNeedsAnEmptyEnvironment(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		env := p.Environments[0].ID
		unasked := team.New(team.Config{DB: f.Store.DB, Clock: f.Clock})
		require.ErrorContains(t, unasked.DeleteEnvironment(t.Context(), actor, env), "nothing reports what")
		f.Hold("connections", "events")
		k, _ := f.Key(t, actor, env)
		refused := func(message string) {
			t.Helper()
			var e *apperr.Error
			require.ErrorAs(t, f.Team.DeleteEnvironment(t.Context(), actor, env), &e)
			require.Equal(t, apperr.CodeEnvironmentNotEmpty, e.Code)
			require.Equal(t, message, e.Message)
			got, err := f.Team.GetEnvironment(t.Context(), actor, env)
			require.NoError(t, err)
			require.Equal(t, p.Environments[0], got)
		}
		refused("The environment still has connections, events and API keys")
		f.Hold()
		refused("The environment still has API keys")
		_, err := f.Keys.RevokeKey(t.Context(), actor, k.ID)
		require.NoError(t, err)
		refused("The environment still has API keys")
		require.NoError(t, f.Keys.DeleteKey(t.Context(), actor, k.ID))
		require.NoError(t, f.Team.DeleteEnvironment(t.Context(), actor, env))
	})
}

// A key that is made while its environment is removed either keeps it or is not made: no key works in an environment
// that is gone.
func TestDeleteRacesWithKeys(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, _ := f.Owner(t)
		for range 10 {
			e, err := f.Team.CreateEnvironment(t.Context(), actor, team.NewEnvironment{Name: "brief", Type: team.Test})
			require.NoError(t, err)
			var made, deleted error
			var key apikeys.Key
			var all sync.WaitGroup
			all.Go(func() {
				key, _, made = f.Keys.CreateKey(t.Context(), actor, apikeys.NewKey{Name: "x", Environment: e.ID})
			})
			all.Go(func() { deleted = f.Team.DeleteEnvironment(t.Context(), actor, e.ID) })
			all.Wait()
			if deleted != nil {
				require.NoError(t, made)
				require.True(t, apperr.Is(deleted, apperr.CodeEnvironmentNotEmpty), deleted)
				require.NoError(t, f.Keys.DeleteKey(t.Context(), actor, key.ID))
				require.NoError(t, f.Team.DeleteEnvironment(t.Context(), actor, e.ID))
				continue
			}
			require.True(t, apperr.Is(made, apperr.CodeNotFound), made)
		}
	})
}

// A row that refers to an environment, stored in a transaction that found the environment live, keeps it: a concurrent
// deletion waits for the commit and counts the row, or came first and is seen.
func TestDeleteRacesWithOthers(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, _ := f.Owner(t)
		for range 10 {
			e, err := f.Team.CreateEnvironment(t.Context(), actor, team.NewEnvironment{Name: "brief", Type: team.Test})
			require.NoError(t, err)
			key := id.New(id.PrefixAPIKey)
			var made, deleted error
			var all sync.WaitGroup
			all.Go(func() {
				made = f.Store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
					_, err := tx.ExecContext(t.Context(), `INSERT INTO api_keys (id, lookup_id, team_id, environment_id, name,
						secret_mac,
						last_four, created_by, created_ms, expires_ms) VALUES ($1, $1, $2, $3, 'x', $4, 'xxxx', $5, 1, 2)`, key, e.Team,
						e.ID, []byte{1}, actor.ID)
					if err != nil {
						return err
					}
					return f.Team.RequireLive(t.Context(), tx, e.ID)
				})
			})
			all.Go(func() { deleted = f.Team.DeleteEnvironment(t.Context(), actor, e.ID) })
			all.Wait()
			if made == nil {
				require.True(t, apperr.Is(deleted, apperr.CodeEnvironmentNotEmpty), deleted)
				require.NoError(t, f.Keys.DeleteKey(t.Context(), actor, key))
				require.NoError(t, f.Team.DeleteEnvironment(t.Context(), actor, e.ID))
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
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		_, foreign, _ := f.Foreign(t)
		for _, env := range []id.Environment{foreign, "", "development", "env_\x00"} {
			_, err := f.Team.GetEnvironment(t.Context(), actor, env)
			require.True(t, apperr.Is(err, apperr.CodeNotFound), env)
			_, err = f.Team.UpdateEnvironment(t.Context(), actor, env, team.EnvironmentChange{Name: new("mine")})
			require.True(t, apperr.Is(err, apperr.CodeNotFound), env)
			require.True(t, apperr.Is(f.Team.DeleteEnvironment(t.Context(), actor, env), apperr.CodeNotFound), env)
		}
		for _, name := range []string{"", "-", "-a", "A", "1a", "a b", "a_b", "a/b", "ä", "a\n", id.New(id.PrefixEnvironment),
			strings.Repeat("a", 64)} {
			_, err := f.Team.CreateEnvironment(t.Context(), actor, team.NewEnvironment{Name: name, Type: team.Test})
			require.True(t, apperr.Is(err, apperr.CodeValidation), name)
			_, err = f.Team.UpdateEnvironment(t.Context(), actor, p.Environments[0].ID, team.EnvironmentChange{Name: new(name)})
			require.True(t, apperr.Is(err, apperr.CodeValidation), name)
		}
		_, err := f.Team.CreateEnvironment(t.Context(), actor, team.NewEnvironment{Name: "A", Type: "staging"})
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		require.Len(t, e.Details, 2)
		_, err = f.Team.CreateEnvironment(t.Context(), access.Principal{Kind: access.KindAPIKey},
			team.NewEnvironment{Name: "a", Type: team.Test})
		require.ErrorIs(t, err, team.ErrActor)
	})
}

// A team is renamed with its trail, and only its own.
func TestRenameTeam(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		stranger, _, _ := f.Foreign(t)
		before := len(f.Trail(t))
		for range 2 {
			got, err := f.Team.Rename(t.Context(), actor, "Difference Engines")
			require.NoError(t, err)
			require.Equal(t, team.Team{ID: p.Team.ID, Name: "Difference Engines", CreatedMillis: p.Team.CreatedMillis}, got)
		}
		require.Equal(t, []string{"team.update"}, f.Actions(t)[before:])
		other, err := f.Team.Get(t.Context(), stranger)
		require.NoError(t, err)
		require.Equal(t, "Others", other.Name)
		for _, name := range []string{"", " ", "a\x00b", strings.Repeat("x", team.MaxNameCharacters+1)} {
			_, err := f.Team.Rename(t.Context(), actor, name)
			require.True(t, apperr.Is(err, apperr.CodeValidation), name)
		}
	})
}

// Before there is a team, the command line gets a sentence that says what to do.
func TestNoTeam(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, err := f.Team.Environments(t.Context(), access.System("cli"))
		require.ErrorIs(t, err, team.ErrNone)
		_, err = f.Team.Environments(t.Context(), access.Principal{Kind: access.KindAPIKey})
		require.ErrorIs(t, err, team.ErrActor)
	})
}

// An environment of another team does not exist for a user, and neither does an id that cannot be one.
func TestEnvironmentOfAnotherTeam(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		_, foreign, _ := f.Foreign(t)
		got, err := f.Principals.Environment(t.Context(), actor, string(p.Environments[0].ID))
		require.NoError(t, err)
		require.Equal(t, p.Environments[0].ID, got)
		for _, e := range []string{string(foreign), "", "development", "env_\x00"} {
			_, err := f.Principals.Environment(t.Context(), actor, e)
			require.True(t, apperr.Is(err, apperr.CodeNotFound), e)
			_, err = f.Team.FindEnvironment(t.Context(), actor, "x"+e)
			require.True(t, apperr.Is(err, apperr.CodeNotFound), e)
		}
		for _, ref := range []string{team.Production, string(p.Environments[1].ID)} {
			e, err := f.Team.FindEnvironment(t.Context(), access.System("cli"), ref)
			require.NoError(t, err)
			require.Equal(t, p.Environments[1], e)
		}
	})
}
