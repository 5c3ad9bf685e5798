package connections_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
)

func (w *world) configure(t *testing.T, svc *configs.Service, key string) {
	t.Helper()
	_, err := svc.Create(t.Context(), w.a, configs.NewConfig{Provider: "github", Key: &key})
	require.NoError(t, err)
}

// Connections of two configurations of a provider may have the same id. Each has the provider's definition, and its own
// secret and webhook URL. Either field names the configuration, and only what belongs to it is found under its key.
func TestTwoConfigsOfOneProvider(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		for _, key := range []string{"github-eu", "github-us"} {
			w.configure(t, w.newConfigs(w.reg), key)
		}
		connect := func(key string, secret secretbox.Secret) connections.Connection {
			t.Helper()
			in := github("acme")
			in.Provider, in.ProviderConfigKey, in.Secret.Value = nil, &key, secret
			return w.create(t, w.a, in)
		}
		eu, us := connect("github-eu", githubSecret), connect("github-us", nextSecret)
		in := github("acme")
		in.Provider = ptr("github-us")
		_, _, err := w.svc.Create(t.Context(), w.a, in)
		requireCode(t, apperr.CodeConnectionExists, err)
		for c, secrets := range map[*connections.Connection][2]string{&eu: {githubSecret, nextSecret},
			&us: {nextSecret, githubSecret}} {
			require.Equal(t, "github", c.Provider)
			found, err := w.svc.Lookup(t.Context(), c.PathToken)
			require.NoError(t, err)
			require.Equal(t, c.UUID, found.Connection.UUID)
			require.Equal(t, "github", found.Provider.Definition.Slug)
			require.True(t, accepts(found, secrets[0]))
			require.False(t, accepts(found, secrets[1]))
			got, err := w.svc.Get(t.Context(), access.Whole(w.a.Environment), c.ProviderConfigKey, "acme")
			require.NoError(t, err)
			require.Equal(t, c.UUID, got.UUID)
			require.True(t, w.svc.Duplicates(c).Known)
			n, err := connections.CountOfConfig(t.Context(), s.DB.Read(), w.a.Environment, c.ProviderConfigKey)
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		_, err = w.svc.Get(t.Context(), access.Whole(w.a.Environment), "github", "acme")
		requireCode(t, apperr.CodeNotFound, err)
		of, err := w.svc.OfID(t.Context(), w.a.Environment, "acme")
		require.NoError(t, err)
		require.Len(t, of, 2)
		used, err := w.svc.UsedProviders(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"github"}, used)

		_, _, err = w.svc.Create(t.Context(), w.b, connections.NewConnection{Provider: ptr("github-eu")})
		requireViolations(t, "another environment's", []string{"provider exists"}, err)
	})
}

// A configuration whose definition is gone can have no new connections, and says why.
func TestConfigWithoutItsDefinition(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.configure(t, w.newConfigs(w.reg), "github-eu")
		_, err := s.DB.Write().ExecContext(t.Context(), `UPDATE provider_configs SET provider = 'removed'`)
		require.NoError(t, err)
		_, _, err = w.svc.Create(t.Context(), w.a, connections.NewConnection{Provider: ptr("github-eu")})
		requireViolations(t, "removed", []string{"provider definition"}, err)
	})
}

// A configuration is never deleted from under a connection that is created at the same time.
func TestNoConnectionOutlivesItsConfig(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		svc := w.newConfigs(w.reg)
		for range 20 {
			w.configure(t, svc, "github-eu")
			other := w.newService(t)
			var created, deleted error
			var both sync.WaitGroup
			both.Go(func() {
				_, _, created = other.Create(t.Context(), w.a, connections.NewConnection{Provider: ptr("github-eu"),
					ConnectionID: ptr("acme")})
			})
			both.Go(func() { deleted = svc.Delete(t.Context(), w.a, "github-eu") })
			both.Wait()
			if created == nil {
				requireCode(t, apperr.CodeProviderConfigInUse, deleted)
				require.NoError(t, w.svc.Delete(t.Context(), w.a, "github-eu", "acme"))
				require.NoError(t, svc.Delete(t.Context(), w.a, "github-eu"))
				continue
			}
			requireCode(t, apperr.CodeValidation, created)
			require.NoError(t, deleted)
		}
		require.Zero(t, count(t, w, `SELECT count(*) FROM connections`))
	})
}
