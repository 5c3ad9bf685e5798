package signin_test

import (
	"strings"
	"testing"
	"time"

	"sallyport/internal/identity/signin"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

// No response reveals whether an address has an account.
func TestLoginRevealsNoAccount(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		_, err := f.Setup.CreateOwner(t.Context(), access.System("cli"), "", "removed@example.test", identitytest.Password)
		require.NoError(t, err)
		f.Exec(t, "DELETE FROM memberships WHERE user_id <> $1", p.User.ID)
		attempts := map[string]struct {
			email    string
			password secretbox.Secret
		}{
			"wrong password":    {identitytest.Email, identitytest.Password + "x"},
			"empty password":    {identitytest.Email, ""},
			"unknown address":   {"nobody@example.test", identitytest.Password},
			"no address at all": {"nobody", identitytest.Password},
			"unstorable":        {"a\x00b@example.test", identitytest.Password},
			"member of no team": {"removed@example.test", identitytest.Password},
		}
		for name, a := range attempts {
			f.Exec(t, "DELETE FROM sign_in_failures")
			_, err := f.LogIn(t, a.email, a.password)
			var e *apperr.Error
			require.ErrorAs(t, err, &e, name)
			require.Equal(t, apperr.CodeUnauthorized, e.Code, name)
			require.Equal(t, "The e-mail address or the password is wrong", e.Message, name)
		}
		// Equal time is equal work: each of them makes one hash be computed, and asks for a place to do so alike.
		for name, a := range attempts {
			f.Exec(t, "DELETE FROM sign_in_failures")
			before := f.Hashes.Load()
			_, err := f.LogIn(t, a.email, a.password)
			require.True(t, apperr.Is(err, apperr.CodeUnauthorized), name)
			require.EqualValues(t, 1, f.Hashes.Load()-before, name)
		}
		f.Exec(t, "DELETE FROM sign_in_failures")
		f.SignIn.FillQueue()
		for name, a := range attempts {
			_, err := f.LogIn(t, a.email, a.password)
			require.True(t, apperr.Is(err, apperr.CodeUnavailable), name)
		}
	})
}

// A sign-in gives what the client needs to begin, and its token is accepted.
func TestLogin(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		session, err := f.LogIn(t, strings.ToUpper(identitytest.Email), identitytest.Password)
		require.NoError(t, err)
		require.Equal(t, p, session.Profile)
		actor, err := f.Principals.Bearer(t.Context(), session.Token.Reveal())
		require.NoError(t, err)
		require.Equal(t, access.Principal{
			Kind: access.KindUser, ID: p.User.ID, Name: identitytest.Email, Team: p.Team.ID, Rights: access.Owner.Rights(),
			Session: session.Session.ID,
		}, actor)
		f.Clock.Advance(accesstokens.Lifetime)
		_, err = f.Principals.Bearer(t.Context(), session.Token.Reveal())
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
	})
}

// Rights are read for each request: a changed role applies immediately, and a removed member loses access immediately.
func TestMembershipIsReadEveryTime(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		session, err := f.LogIn(t, identitytest.Email, identitytest.Password)
		require.NoError(t, err)
		f.Exec(t, "UPDATE role_bindings SET role = 'viewer'")
		actor, err := f.Principals.Bearer(t.Context(), session.Token.Reveal())
		require.NoError(t, err)
		require.False(t, actor.Has(access.APIKeysWrite))
		f.Exec(t, "UPDATE role_bindings SET role = 'emperor'")
		actor, err = f.Principals.Bearer(t.Context(), session.Token.Reveal())
		require.NoError(t, err)
		require.False(t, actor.Has(access.TeamRead), "an unknown role permits something")
		f.Exec(t, "DELETE FROM memberships")
		_, err = f.Principals.Bearer(t.Context(), session.Token.Reveal())
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		_, _, err = f.SignIn.Profile(t.Context(), actor)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
	})
}

// A changed password ends every session immediately, with its tokens of both kinds, and ends the wait that strangers
// caused the user. The trail records the change and not the password.
func TestResetPassword(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		before, err := f.LogIn(t, identitytest.Email, identitytest.Password)
		require.NoError(t, err)
		const next = secretbox.Secret("staple battery horse")
		cli := access.System("cli")
		waits(t, f, identitytest.Stranger(1), identitytest.Email)
		require.NoError(t, f.SignIn.ResetPassword(t.Context(), cli, strings.ToUpper(identitytest.Email), next))
		_, err = f.SignIn.Login(t.Context(), identitytest.Stranger(2), signin.Credentials{Email: identitytest.Email,
			Password: identitytest.Password}, "")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "the count begins anew")
		f.Refused(t, before.Token)
		_, err = f.SignIn.Refresh(t.Context(), identitytest.Client(), before.Refresh)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		after, err := f.LogIn(t, identitytest.Email, next)
		require.NoError(t, err)
		_, err = f.Principals.Bearer(t.Context(), after.Token.Reveal())
		require.NoError(t, err)
		var last identitytest.AuditRow
		for _, e := range f.Trail(t) {
			if e.Action == "user.reset_password" {
				last = e
			}
		}
		require.Equal(t, p.User.ID, last.Target)
		require.Equal(t, string(p.Team.ID), last.Team)
		require.JSONEq(t, `{"details":{"password":"[redacted]","sessions_ended":1}}`, last.Changes)

		require.ErrorIs(t, f.SignIn.ResetPassword(t.Context(), cli, "nobody@example.test", next), signin.ErrNoUser)
		require.ErrorIs(t, f.SignIn.ResetPassword(t.Context(), cli, "nobody", next), signin.ErrNoUser)
		require.True(t, apperr.Is(f.SignIn.ResetPassword(t.Context(), cli, identitytest.Email, "short"),
			apperr.CodeValidation))
	})
}

// A hash made under other costs still signs in, is replaced by one under today's, and ends no other sign-in.
func TestLoginRehashes(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		before, err := f.LogIn(t, identitytest.Email, identitytest.Password)
		require.NoError(t, err)
		f.Clock.Advance(time.Second)
		old := f.SignIn.HashUnderOtherCosts(identitytest.Password)
		f.Exec(t, "UPDATE users SET password_hash = $1 WHERE id = $2", old, p.User.ID)
		stored := func() string {
			a, ok, err := members.ReadAccount(t.Context(), f.Store.DB.Read(), identitytest.Email)
			require.NoError(t, err)
			require.True(t, ok)
			return a.PasswordHash
		}
		_, err = f.LogIn(t, identitytest.Email, identitytest.Password+"x")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		require.Equal(t, old, stored(), "a wrong password replaced the hash")
		_, err = f.LogIn(t, identitytest.Email, identitytest.Password)
		require.NoError(t, err)
		renewed := stored()
		require.True(t, signin.HasCurrentCosts(renewed))
		_, err = f.LogIn(t, identitytest.Email, identitytest.Password)
		require.NoError(t, err)
		require.Equal(t, renewed, stored(), "a current hash was replaced")
		_, err = f.Principals.Bearer(t.Context(), before.Token.Reveal())
		require.NoError(t, err)
	})
}
