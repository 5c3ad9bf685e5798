package identity

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

// However many processes start at once on an empty database, they agree on one pepper and one signing key: what one
// issues, the others accept.
func TestInitAgrees(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		f := newFixture(t, s)
		services := []*Service{f.Service, f.another(t), f.another(t), f.another(t)}
		var g errgroup.Group
		for _, one := range services {
			g.Go(func() error { return one.Init(t.Context(), false) })
		}
		require.NoError(t, g.Wait())
		require.Equal(t, 1, f.count(t, "installation"))
		require.Equal(t, 1, f.count(t, "signing_keys"))

		actor, p := f.owner(t)
		_, key := f.key(t, actor, p.Environments[0].ID)
		session, err := f.signIn(t, testEmail, testPassword)
		require.NoError(t, err)
		for _, one := range services {
			_, err := one.APIKey(t.Context(), key, "192.0.2.17")
			require.NoError(t, err)
			_, err = one.Bearer(t.Context(), session.Token.Reveal())
			require.NoError(t, err)
		}
	})
}

// Development mode never opens a database that holds more than play; the other way round is allowed.
func TestInitKeepsDevelopmentModeOut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		require.ErrorIs(t, f.another(t).Init(t.Context(), true), ErrNotDev)
		require.NoError(t, f.another(t).Init(t.Context(), false))
		require.ErrorIs(t, f.EnsureDev(t.Context(), t.TempDir(), "http://127.0.0.1:8080/api/v1"), ErrNotDev)
	})
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		f := newFixture(t, s)
		require.NoError(t, f.Init(t.Context(), true))
		require.NoError(t, f.another(t).Init(t.Context(), true))
		require.NoError(t, f.another(t).Init(t.Context(), false))
	})
}

// A refused start leaves nothing behind, and a Service that is not ready refuses instead of letting anybody in.
func TestNotReady(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		f := newFixture(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, f.Init(ctx, false))
		require.Zero(t, f.count(t, "installation"))
		_, err := f.Bearer(t.Context(), "x")
		require.ErrorIs(t, err, errNotInit)
		_, err = f.APIKey(t.Context(), newKeyText(Test).String(), "192.0.2.17")
		require.ErrorIs(t, err, errNotInit)
		_, err = f.signIn(t, testEmail, testPassword)
		require.ErrorIs(t, err, errNotInit)
		_, err = New(s.DB, nil, f.clk, Options{})
		require.ErrorIs(t, err, errIssuer)
	})
}

// After a rotation of the keyset with its reseal, keys, tokens and authenticator apps from before still work; under a
// foreign keyset the start fails instead of making everybody's keys worthless.
func TestKeysetRotation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		a := enrolled(t, f)
		environments, err := f.Environments(t.Context(), a.actor)
		require.NoError(t, err)
		_, key := f.key(t, a.actor, environments[0].ID)
		_, err = secretbox.Rotate(f.keyset)
		require.NoError(t, err)
		box, err := secretbox.Open(secretbox.Source{Path: f.keyset})
		require.NoError(t, err)
		n, err := secretbox.Reseal(t.Context(), f.store.DB.Write(), box, SealedColumns())
		require.NoError(t, err)
		require.Equal(t, 3, n)
		after := f.another(t)
		require.NoError(t, after.Init(t.Context(), false))
		_, err = after.APIKey(t.Context(), key, "192.0.2.17")
		require.NoError(t, err)
		f.clk.Advance(totpPeriod)
		_, err = after.Login(t.Context(), testClient(), Credentials{Email: testEmail, Password: testPassword,
			Code: a.code(0)}, "")
		require.NoError(t, err)

		stranger := newFixture(t, f.store)
		require.ErrorIs(t, stranger.Init(t.Context(), false), secretbox.ErrUnknownKey)
	})
}

// Before there is a team, the command line gets a sentence that says what to do.
func TestNoTeam(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, err := f.Environments(t.Context(), access.System("cli"))
		require.ErrorIs(t, err, ErrNoTeam)
		_, err = f.Environments(t.Context(), access.Principal{Kind: access.KindAPIKey})
		require.ErrorIs(t, err, errActor)
	})
}
