package configs_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/configs"
)

// A stored configuration comes before the slug of the same name. The slug of a provider works without one; other keys
// do not. Secrets stay sealed in memory.
func TestResolve(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		env := w.a.Environment
		resolve := func(key string) *configs.Config {
			t.Helper()
			c, ok, err := w.svc.Resolve(t.Context(), env, key)
			require.NoError(t, err)
			require.Equal(t, ok, c != nil)
			return c
		}
		require.Equal(t, &configs.Config{Environment: env, Key: "github", Provider: "github"}, resolve("github"))
		client, err := w.svc.OpenClient(resolve("github"), nil)
		require.NoError(t, err)
		require.Zero(t, client)
		require.Nil(t, resolve("github-eu"))
		require.Nil(t, resolve("Git/Hub"))
		eu := w.create(t, w.a, full("github-eu"))
		own := w.create(t, w.a, full("github"))
		require.Equal(t, eu, *resolve("github-eu"))
		require.Equal(t, own, *resolve("github"))
		first := resolve("github")
		require.Same(t, first, resolve("github"), "it is in memory")
		keys, err := w.svc.KeysOf(t.Context(), env, "github")
		require.NoError(t, err)
		require.Equal(t, []string{"github", "github-eu"}, keys)
		slug, ok, err := w.svc.ProviderOf(t.Context(), env, "github-eu")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "github", slug)
		require.Equal(t, ". Did you mean github-eu?", w.svc.Suggest(t.Context(), env, "github-eo"))
	})
}

// Other processes see a new key immediately, and a change or a deletion after their next refresh. A change drops the
// configurations of its environment from memory and no others.
func TestProcessesFollow(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		other := w.process(t)
		resolve := func(key string) *configs.Config {
			t.Helper()
			c, _, err := other.Resolve(t.Context(), w.a.Environment, key)
			require.NoError(t, err)
			return c
		}
		require.NoError(t, other.Refresh(t.Context()))
		require.Nil(t, resolve("github-eu"))
		w.create(t, w.a, full("github-eu"))
		require.NotNil(t, resolve("github-eu"))
		w.create(t, w.b, full("github"))
		require.NoError(t, other.Refresh(t.Context()))
		theirs, _, err := other.Resolve(t.Context(), w.b.Environment, "github")
		require.NoError(t, err)
		_, err = w.svc.Update(t.Context(), w.a, "github-eu", configs.Change{ClientID: patch.To("next")})
		require.NoError(t, err)
		require.NoError(t, other.Refresh(t.Context()))
		require.Equal(t, "next", resolve("github-eu").ClientID)
		require.NoError(t, w.svc.Delete(t.Context(), w.a, "github-eu"))
		require.NoError(t, other.Refresh(t.Context()))
		require.Nil(t, resolve("github-eu"))
		again, _, err := other.Resolve(t.Context(), w.b.Environment, "github")
		require.NoError(t, err)
		require.Same(t, theirs, again)
	})
}

// A key that is held for a provider is not deleted before the transaction ends, and then it is known whether it is in
// use. A key of another provider, or of none, cannot be held.
func TestHold(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.create(t, w.a, full("github-eu"))
		for _, tt := range []struct {
			key, provider string
			want          bool
		}{{"github-eu", "github", true}, {"github-eu", "slack", false}, {"github", "github", true},
			{"github", "slack", false}, {"unknown", "unknown", false}} {
			require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
				held, err := w.svc.Hold(t.Context(), tx, w.a.Environment, tt.key, tt.provider)
				require.Equal(t, tt.want, held, "%+v", tt)
				return err
			}))
		}
		if s.DB.Engine() == db.SQLite {
			return // has one writer
		}
		deleted := make(chan error, 1)
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := w.svc.Hold(t.Context(), tx, w.a.Environment, "github-eu", "github")
			require.NoError(t, err)
			go func() { deleted <- w.svc.Delete(t.Context(), w.a, "github-eu") }()
			await.Condition(t, "the deletion waits", func() (waits bool) {
				require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits))
				return waits
			})
			w.uses.Store(1)
			return nil
		}))
		requireCode(t, apperr.CodeProviderConfigInUse, await.Value(t, "the deletion", deleted))
	})
}

// A valid key is one that the pattern of the API's document accepts.
func TestValidKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,62}`).Draw(rt, "key")
		require.True(rt, configs.ValidKey(key))
		for _, wrong := range []string{"", "-" + key, key + "_", key + "A", "é" + key, key + "\x00"} {
			require.False(rt, configs.ValidKey(wrong), wrong)
		}
	})
}
