package identity

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		_, err := f.CreateOwner(t.Context(), access.System("cli"), "", "grace@example.test", testPassword)
		require.NoError(t, err)
		others, err := f.signIn(t, "grace@example.test", testPassword)
		require.NoError(t, err)
		old, in := f.signedIn(t), f.signedIn(t)
		f.clk.Advance(time.Minute)
		renewed, token, err := f.ChangePassword(t.Context(), f.bearer(t, in.Token), testPassword, nextPassword)
		require.NoError(t, err)
		require.Equal(t, in.Session.ID, renewed.ID)
		f.spent(t, in.Refresh)
		f.refused(t, old.Token)
		f.spent(t, old.Refresh)
		f.bearer(t, others.Token)
		actor := f.bearer(t, in.Token)
		_, session, err := f.Profile(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, clock.Millis(f.clk.Now()), session.AuthMillis)
		require.Equal(t, session.AuthMillis, f.refresh(t, token).Session.AuthMillis)
		_, err = f.signIn(t, testEmail, testPassword)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		_, err = f.signIn(t, testEmail, nextPassword)
		require.NoError(t, err)
		var changed []auditRow
		for _, e := range f.trail(t) {
			require.NotContains(t, e.changes, nextPassword.Reveal())
			if e.action == "user.change_password" {
				changed = append(changed, e)
			}
		}
		require.Len(t, changed, 1)
		require.Equal(t, []string{p.User.ID, p.User.ID, string(p.Team.ID)}, []string{changed[0].actor, changed[0].target,
			changed[0].team})
		require.JSONEq(t, `{"details":{"password":"[redacted]","sessions_ended":1}}`, changed[0].changes)
	})
}

// changing returns the error of a change of the password.
func (f fixture) changing(t *testing.T, actor access.Principal, current, next secretbox.Secret) error {
	t.Helper()
	_, _, err := f.ChangePassword(t.Context(), actor, current, next)
	return err
}

// Who has a user's token but not their password cannot find it out by trying: wrong ones count as failed sign-ins, and
// nothing changes.
func TestChangePasswordNeedsTheCurrentOne(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		in := f.signedIn(t)
		actor := f.bearer(t, in.Token)
		for range freeAccountFailures + 1 {
			require.ErrorIs(t, f.changing(t, actor, wrongPassword+"!", nextPassword), ErrWrongPassword)
		}
		require.True(t, apperr.Is(f.changing(t, actor, testPassword, nextPassword), apperr.CodeRateLimited))
		f.clk.Advance(time.Second)
		before := f.hashes.Load()
		for name, bad := range map[string]secretbox.Secret{
			"short": "short", "the address": secretbox.Secret(strings.ToUpper(testEmail)),
			"long": secretbox.Secret(strings.Repeat("é", 257)), "the current one": testPassword,
		} {
			var e *apperr.Error
			require.ErrorAs(t, f.changing(t, actor, testPassword, bad), &e, name)
			require.Equal(t, apperr.CodeValidation, e.Code, name)
			require.Equal(t, "new_password", e.Details[0].Location)
		}
		require.Equal(t, before, f.hashes.Load(), "a password that breaks a rule costs no hash")
		require.ErrorIs(t, f.changing(t, access.System("cli"), testPassword, nextPassword), errActor)
		f.signedIn(t)
	})
}

// A password that was changed while another request had found the old one right is not undone, and no session comes of
// the old one.
func TestPasswordChangesDuringAttempts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		actor := f.bearer(t, f.signedIn(t).Token)
		var meddle atomic.Bool
		f.hasher.running = make(chan struct{}, 2) // one hash waits for another here
		derive := f.hasher.derive
		f.hasher.derive = func(p passwordHash, password []byte) []byte {
			if meddle.CompareAndSwap(true, false) {
				require.NoError(t, f.ResetPassword(t.Context(), access.System("cli"), testEmail, nextPassword))
			}
			return derive(p, password)
		}
		meddle.Store(true)
		_, err := f.signIn(t, testEmail, testPassword)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), err)
		require.Empty(t, f.sessions(t, actor))
		meddle.Store(true)
		err = f.changing(t, actor, nextPassword, testPassword)
		require.ErrorIs(t, err, ErrWrongPassword)
		_, err = f.signIn(t, testEmail, nextPassword)
		require.NoError(t, err)
	})
}

// A password is the same however its letters were composed.
func TestPasswordIsNormalised(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, err := f.CreateOwner(t.Context(), access.System("cli"), "", testEmail, "caf\u00e9 cr\u00e8me 75004")
		require.NoError(t, err)
		_, err = f.signIn(t, testEmail, "cafe\u0301 cre\u0300me 75004")
		require.NoError(t, err)
		_, err = f.signIn(t, testEmail, "cafe creme 75004")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
	})
}
