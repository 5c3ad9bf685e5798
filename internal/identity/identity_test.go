package identity_test

import (
	"context"
	"testing"

	"sallyport/internal/identity/accesstokens"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/testkit"
)

// However many processes start at the same time on an empty database, they agree on one pepper and one signing key: all
// accept what one issues.
func TestOpenAgrees(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		closed := identitytest.Closed(t, s)
		worlds := make([]identitytest.World, 4)
		var g errgroup.Group
		for i := range worlds {
			g.Go(func() (err error) {
				worlds[i], err = closed.Start(t.Context(), false)
				return err
			})
		}
		require.NoError(t, g.Wait())
		w := worlds[0]
		require.Equal(t, 1, w.Count(t, "installation"))
		require.Equal(t, 1, w.Count(t, "signing_keys"))

		actor, p := w.Owner(t)
		_, key := w.Key(t, actor, p.Environments[0].ID)
		session, err := w.LogIn(t, identitytest.Email, identitytest.Password)
		require.NoError(t, err)
		for _, one := range worlds {
			_, err := one.Principals.APIKey(t.Context(), key, "192.0.2.17")
			require.NoError(t, err)
			_, err = one.Principals.Bearer(t.Context(), session.Token.Reveal())
			require.NoError(t, err)
		}
	})
}

// Development mode never opens a database that holds more than play; the other way round is allowed.
func TestOpenKeepsDevelopmentModeOut(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, w identitytest.World) {
		_, err := w.Start(t.Context(), true)
		require.ErrorIs(t, err, installation.ErrNotDev)
		require.ErrorIs(t, w.Setup.EnsureDev(t.Context(), t.TempDir(), "http://127.0.0.1:8080/api/v1"),
			installation.ErrNotDev)
	})
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := identitytest.New(t, s, true)
		for _, dev := range []bool{true, false} {
			_, err := w.Start(t.Context(), dev)
			require.NoError(t, err)
		}
	})
}

// A refused start leaves nothing behind, and nothing starts without an issuer.
func TestOpenRefused(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := identitytest.Closed(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.Start(ctx, false)
		require.Error(t, err)
		require.Zero(t, w.Count(t, "installation"))
		_, err = accesstokens.New(accesstokens.Config{DB: s.DB, Clock: w.Clock})
		require.ErrorContains(t, err, "need an issuer")
	})
}
