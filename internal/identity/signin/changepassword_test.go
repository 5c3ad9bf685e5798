package signin_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
)

const nextPassword = secretbox.Secret("staple battery horse")

// A user who knows their password replaces it. Their other sessions end, the one they use goes on with another refresh
// token, so that a copy of the one before is worth nothing, and counts as freshly authenticated; the trail says that it
// changed, not to what.
func TestChangePassword(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		_, err := f.Setup.CreateOwner(t.Context(), access.System("cli"), "", "grace@example.test", identitytest.Password)
		require.NoError(t, err)
		others, err := f.LogIn(t, "grace@example.test", identitytest.Password)
		require.NoError(t, err)
		old, in := f.SignedIn(t), f.SignedIn(t)
		f.Clock.Advance(time.Minute)
		renewed, token, err := f.SignIn.ChangePassword(t.Context(), f.Bearer(t, in.Token), identitytest.Password,
			nextPassword)
		require.NoError(t, err)
		require.Equal(t, in.Session.ID, renewed.ID)
		spent(t, f, in.Refresh)
		f.Refused(t, old.Token)
		spent(t, f, old.Refresh)
		f.Bearer(t, others.Token)
		actor := f.Bearer(t, in.Token)
		_, session, err := f.SignIn.Profile(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, clock.Millis(f.Clock.Now()), session.AuthMillis)
		require.Equal(t, session.AuthMillis, f.Refreshed(t, token).Session.AuthMillis)
		_, err = f.LogIn(t, identitytest.Email, identitytest.Password)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		_, err = f.LogIn(t, identitytest.Email, nextPassword)
		require.NoError(t, err)
		var changed []identitytest.AuditRow
		for _, e := range f.Trail(t) {
			require.NotContains(t, e.Changes, nextPassword.Reveal())
			if e.Action == "user.change_password" {
				changed = append(changed, e)
			}
		}
		require.Len(t, changed, 1)
		require.Equal(t, []string{p.User.ID, p.User.ID, string(p.Team.ID)}, []string{changed[0].Actor, changed[0].Target,
			changed[0].Team})
		require.JSONEq(t, `{"details":{"password":"[redacted]","sessions_ended":1}}`, changed[0].Changes)
	})
}

// changing returns the error of a change of the password.
func changing(t *testing.T, f identitytest.World, actor access.Principal, current, next secretbox.Secret) error {
	t.Helper()
	_, _, err := f.SignIn.ChangePassword(t.Context(), actor, current, next)
	return err
}

// A caller with a user's token but not their password cannot find the password by guessing: wrong ones count as failed
// sign-ins, and nothing changes.
func TestChangePasswordNeedsTheCurrentOne(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		actor := f.Bearer(t, in.Token)
		for range signin.FreeAccountFailures + 1 {
			require.ErrorIs(t, changing(t, f, actor, wrongPassword+"!", nextPassword), signin.ErrWrongPassword)
		}
		require.True(t, apperr.Is(changing(t, f, actor, identitytest.Password, nextPassword), apperr.CodeRateLimited))
		f.Clock.Advance(time.Second)
		before := f.Hashes.Load()
		for name, bad := range map[string]secretbox.Secret{
			"short": "short", "the address": secretbox.Secret(strings.ToUpper(identitytest.Email)),
			"long": secretbox.Secret(strings.Repeat("é", 257)), "the current one": identitytest.Password,
		} {
			var e *apperr.Error
			require.ErrorAs(t, changing(t, f, actor, identitytest.Password, bad), &e, name)
			require.Equal(t, apperr.CodeValidation, e.Code, name)
			require.Equal(t, "new_password", e.Details[0].Location)
		}
		require.Equal(t, before, f.Hashes.Load(), "a password that breaks a rule costs no hash")
		require.ErrorIs(t, changing(t, f, access.System("cli"), identitytest.Password, nextPassword), team.ErrActor)
		f.SignedIn(t)
	})
}

// A password that was changed while another request had found the old one right is not undone, and no session comes of
// the old one.
func TestPasswordChangesDuringAttempts(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		actor := f.Bearer(t, f.SignedIn(t).Token)
		var meddle atomic.Bool
		f.SignIn.HashTwoAtATime() // one hash waits for another here
		f.SignIn.BeforeHash(func() {
			if meddle.CompareAndSwap(true, false) {
				require.NoError(t, f.SignIn.ResetPassword(t.Context(), access.System("cli"), identitytest.Email, nextPassword))
			}
		})
		meddle.Store(true)
		_, err := f.LogIn(t, identitytest.Email, identitytest.Password)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), err)
		require.Empty(t, f.SessionsOf(t, actor))
		meddle.Store(true)
		err = changing(t, f, actor, nextPassword, identitytest.Password)
		require.ErrorIs(t, err, signin.ErrWrongPassword)
		_, err = f.LogIn(t, identitytest.Email, nextPassword)
		require.NoError(t, err)
	})
}

// A password is the same however its letters were composed.
func TestPasswordIsNormalised(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, err := f.Setup.CreateOwner(t.Context(), access.System("cli"), "", identitytest.Email, "caf\u00e9 cr\u00e8me 75004")
		require.NoError(t, err)
		_, err = f.LogIn(t, identitytest.Email, "cafe\u0301 cre\u0300me 75004")
		require.NoError(t, err)
		_, err = f.LogIn(t, identitytest.Email, "cafe creme 75004")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
	})
}
