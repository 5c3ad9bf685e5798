package signin_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/secretbox"
)

// After a rotation of the keyset with its reseal, keys, tokens and authenticator apps from before still work; under a
// foreign keyset the start fails instead of invalidating all keys.
func TestKeysetRotation(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		a := enrolled(t, f)
		environments, err := f.Team.Environments(t.Context(), a.actor)
		require.NoError(t, err)
		_, key := f.Key(t, a.actor, environments[0].ID)
		_, err = secretbox.Rotate(f.Keyset)
		require.NoError(t, err)
		box, err := secretbox.Open(secretbox.Source{Path: f.Keyset})
		require.NoError(t, err)
		n, err := secretbox.Reseal(t.Context(), f.Store.DB, box, slices.Concat(f.Setup.Module().Sealed,
			f.AccessTokens.Module().Sealed, f.SignIn.Module().Sealed), nil)
		require.NoError(t, err)
		require.Equal(t, 3, n.Changed)
		after := f.Another(t)
		_, err = after.Principals.APIKey(t.Context(), key, "192.0.2.17")
		require.NoError(t, err)
		f.Clock.Advance(signin.TOTPPeriod)
		_, err = after.SignIn.Login(t.Context(), identitytest.Client(), signin.Credentials{Email: identitytest.Email,
			Password: identitytest.Password, Code: a.code(0)}, "")
		require.NoError(t, err)

		_, err = identitytest.Closed(t, f.Store).Start(t.Context(), false)
		require.ErrorIs(t, err, secretbox.ErrUnknownKey)
	})
}
