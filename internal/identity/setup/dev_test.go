package setup_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/setup"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

const devURL = "http://127.0.0.1:8080/api/v1"

func eachDev(t *testing.T, fn func(t *testing.T, f identitytest.World, path string)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		t.Helper()
		f := identitytest.New(t, s, true)
		require.NoError(t, f.Setup.EnsureDev(t.Context(), s.Dir, devURL))
		fn(t, f, filepath.Join(s.Dir, setup.DevCredentialsFile))
	})
}

func readDev(t *testing.T, path string) setup.DevCredentials {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var c setup.DevCredentials
	require.NoError(t, json.Unmarshal(b, &c))
	return c
}

// works checks that everything in the file is good for what it says.
func works(t *testing.T, f identitytest.World, c setup.DevCredentials) {
	t.Helper()
	p, err := f.Principals.APIKey(t.Context(), c.APIKey, "192.0.2.17")
	require.NoError(t, err)
	require.Equal(t, access.Routes(), p.Grants.Routes())
	require.Equal(t, c.EnvironmentID, string(p.Environment))
	session, err := f.LogIn(t, c.Email, secretbox.Secret(c.Password))
	require.NoError(t, err)
	require.Equal(t, access.Owner, session.Bindings[0].Role)
	dev, err := f.Team.FindEnvironment(t.Context(), access.System("test"), team.Development)
	require.NoError(t, err)
	require.Equal(t, string(dev.ID), c.EnvironmentID)
}

// The first start writes credentials that work, for their owner's eyes only; the second keeps them and follows the
// address.
func TestDevCredentialsStay(t *testing.T) {
	t.Parallel()
	eachDev(t, func(t *testing.T, f identitytest.World, path string) {
		first := readDev(t, path)
		require.Equal(t, devURL, first.BaseURL)
		works(t, f, first)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())

		again, err := f.Start(t.Context(), true)
		require.NoError(t, err)
		require.NoError(t, again.Setup.EnsureDev(t.Context(), filepath.Dir(path), "http://localhost:9999/api/v1"))
		second := readDev(t, path)
		require.Equal(t, "http://localhost:9999/api/v1", second.BaseURL)
		second.BaseURL = first.BaseURL
		require.Equal(t, first, second)
		require.Equal(t, 1, f.Count(t, "api_keys"))
		require.Equal(t, 1, f.Count(t, "users"))
		leftovers, err := filepath.Glob(path + ".*")
		require.NoError(t, err)
		require.Empty(t, leftovers)
	})
}

// A credential that no longer works is created again, and one that works is kept.
func TestDevCredentialsAreRepaired(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, f identitytest.World, path string, c setup.DevCredentials){
		"file lost": func(t *testing.T, _ identitytest.World, path string, _ setup.DevCredentials) {
			t.Helper()
			require.NoError(t, os.Remove(path))
		},
		"file damaged": func(t *testing.T, _ identitytest.World, path string, _ setup.DevCredentials) {
			t.Helper()
			require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
		},
		"file readable by others": func(t *testing.T, _ identitytest.World, path string, _ setup.DevCredentials) {
			t.Helper()
			require.NoError(t, os.Chmod(path, 0o644))
		},
		"key revoked": func(t *testing.T, f identitytest.World, _ string, _ setup.DevCredentials) {
			t.Helper()
			f.Exec(t, "UPDATE api_keys SET revoked_ms = 1")
		},
		"key of lesser grants": func(t *testing.T, f identitytest.World, _ string, _ setup.DevCredentials) {
			t.Helper()
			f.Exec(t, `UPDATE api_key_grants SET routes = '["events"]'`)
		},
		"password changed": func(t *testing.T, f identitytest.World, _ string, c setup.DevCredentials) {
			t.Helper()
			require.NoError(t, f.SignIn.ResetPassword(t.Context(), access.System("test"), c.Email, identitytest.Password))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDev(t, func(t *testing.T, f identitytest.World, path string) {
				before := readDev(t, path)
				spoil(t, f, path, before)
				require.NoError(t, f.Setup.EnsureDev(t.Context(), filepath.Dir(path), devURL))
				after := readDev(t, path)
				works(t, f, after)
				require.NotEqual(t, before, after)
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.EqualValues(t, 0o600, info.Mode().Perm())
				require.Equal(t, 1, f.Count(t, "users"))
			})
		})
	}
}

// A developer's changes to the environments do not prevent the next start: a renamed one remains that of the
// credentials, and a deleted one is created again.
func TestDevEnvironment(t *testing.T) {
	t.Parallel()
	eachDev(t, func(t *testing.T, f identitytest.World, path string) {
		dev := access.System("dev")
		before := readDev(t, path)
		env := id.Environment(before.EnvironmentID)
		_, err := f.Team.UpdateEnvironment(t.Context(), dev, env, team.EnvironmentChange{Name: new("playground")})
		require.NoError(t, err)
		require.NoError(t, f.Setup.EnsureDev(t.Context(), filepath.Dir(path), devURL))
		require.Equal(t, before, readDev(t, path))

		keys, err := f.Keys.ListKeys(t.Context(), dev, nil, page.Request{Limit: 5})
		require.NoError(t, err)
		require.NoError(t, f.Keys.DeleteKey(t.Context(), dev, keys[0].ID))
		require.NoError(t, f.Team.DeleteEnvironment(t.Context(), dev, env))
		require.NoError(t, f.Setup.EnsureDev(t.Context(), filepath.Dir(path), devURL))
		after := readDev(t, path)
		require.NotEqual(t, before.EnvironmentID, after.EnvironmentID)
		works(t, f, after)
	})
}
