package signin_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

const resetPassword = identitytest.Password + " anew"

// A person who can read the mailbox of an account chooses another password, once. Every session ends, every other link
// of the account stops working, and the trail records the address of the request.
func TestReset(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		p := f.Post()
		_, owner := f.Owner(t)
		in := f.SignedIn(t)
		first := f.ResetToken(t, p, identitytest.Stranger(1), strings.ToUpper(identitytest.Email))
		second := f.ResetToken(t, p, identitytest.Stranger(1), identitytest.Email)
		require.Equal(t, identitytest.Email, p.Mails[0].To)
		require.Equal(t, f.Clock.Now().Add(signin.ResetLifetime), p.Mails[0].Expires)
		require.NoError(t, f.SignIn.CompleteReset(t.Context(), identitytest.Client(), first, resetPassword))
		f.Refused(t, in.Token)
		_, err := f.LogIn(t, identitytest.Email, identitytest.Password)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		_, err = f.LogIn(t, identitytest.Email, resetPassword)
		require.NoError(t, err)
		for _, token := range []signin.ResetToken{first, second} {
			require.Equal(t, apperr.Unauthorized(signin.ErrResetToken), f.SignIn.CompleteReset(t.Context(),
				identitytest.Client(), token, identitytest.Password+
					" again"))
		}
		require.Zero(t, f.Count(t, "password_resets"))
		require.Equal(t, []string{owner.User.ID}, p.Dropped, "mails that have not left would tell of nothing")
		var actions []string
		for _, e := range f.Trail(t) {
			if strings.Contains(e.Action, "password") {
				actions = append(actions, e.Action+" by "+e.Actor)
			}
		}
		require.Equal(t, []string{"user.request_password_reset by password reset",
			"user.request_password_reset by password reset", "user.reset_password by " + owner.User.ID}, actions)
	})
}

// Asking for a link does the same for an address with an account as for one without: the same response, no Argon2, the
// same rows. Only the mailbox shows that there is an account.
func TestResetRevealsNoAccount(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		p := f.Post()
		f.Owner(t)
		hashes := f.Hashes.Load()
		var written [][3]int
		for i, email := range []string{identitytest.Email, "nobody@example.test"} {
			failures, trail := f.Count(t, "sign_in_failures"), f.Count(t, "audit_events")
			require.NoError(t, f.SignIn.RequestReset(t.Context(), identitytest.Stranger(i), email))
			written = append(written, [3]int{f.Count(t, "password_reset_requests"), f.Count(t, "sign_in_failures") - failures,
				f.Count(t, "audit_events") - trail})
			require.Zero(t, f.Count(t, "password_resets"))
			require.Empty(t, p.Mails)
			f.Exec(t, "DELETE FROM password_reset_requests")
		}
		require.Equal(t, written[0], written[1])
		require.Equal(t, [3]int{1, 2, 0}, written[0])
		require.Equal(t, hashes, f.Hashes.Load())
		require.Empty(t, f.ResetToken(t, p, identitytest.Stranger(3), "nobody@example.test"))
		var hash string
		require.NoError(t, f.Store.DB.Read().QueryRowContext(t.Context(), "SELECT password_hash FROM users").Scan(&hash))
		f.Exec(t, "UPDATE users SET password_hash = $1", signin.UnknownHash())
		require.Empty(t, f.ResetToken(t, p, identitytest.Stranger(5), identitytest.Email),
			"who comes in by an identity provider has no password to reset")
		f.Exec(t, "UPDATE users SET password_hash = $1", hash)
		require.NotEmpty(t, f.ResetToken(t, p, identitytest.Stranger(6), identitytest.Email))
		f.Exec(t, "UPDATE memberships SET disabled_ms = 1")
		require.Empty(t, f.ResetToken(t, p, identitytest.Stranger(7), identitytest.Email),
			"who is disabled has nothing to sign in to")
		f.Exec(t, "DELETE FROM memberships")
		require.Empty(t, f.ResetToken(t, p, identitytest.Stranger(4), identitytest.Email),
			"who has left the team has nothing to sign in to")
	})
}

// An address that a stranger typed is not readable in the database, and is deleted when the request was handled.
func TestResetRequestIsSealed(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Post()
		require.NoError(t, f.SignIn.RequestReset(t.Context(), identitytest.Client(), "my-secret@example.test"))
		var sealed []byte
		require.NoError(t, f.Store.DB.Read().QueryRowContext(t.Context(), "SELECT request FROM password_reset_requests").Scan(
			&sealed))
		require.NotContains(t, string(sealed), "my-secret")
		f.SendResets(t)
	})
}

// No mailbox can be filled from here, an address cannot ask for all users of a team, and too many requests have to
// wait. None of it prevents a sign-in.
func TestResetIsThrottled(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		p := f.Post()
		f.Owner(t)
		for range signin.MaxResets + 2 {
			f.ResetToken(t, p, identitytest.Stranger(1), identitytest.Email)
		}
		require.Len(t, p.Mails, signin.MaxResets)
		limited := func(err error) {
			t.Helper()
			var e *apperr.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, apperr.CodeRateLimited, e.Code)
			require.Equal(t, "Too many attempts; try again later", e.Message)
		}
		for n := range signin.FreeAccountFailures {
			_ = f.SignIn.RequestReset(t.Context(), identitytest.Stranger(n+10), identitytest.Email) // from everywhere
		}
		limited(f.SignIn.RequestReset(t.Context(), identitytest.Stranger(100), identitytest.Email))
		limited(f.SignIn.RequestReset(t.Context(), identitytest.Stranger(101), strings.ToUpper(identitytest.Email)))
		for n := range signin.FreeAddressFailures + 1 {
			_ = f.SignIn.RequestReset(t.Context(), identitytest.Stranger(200), fmt.Sprintf("user%d@example.test", n))
		}
		limited(f.SignIn.RequestReset(t.Context(), identitytest.Stranger(200), "user100@example.test"))
		_, err := f.SignIn.Login(t.Context(), identitytest.Stranger(200), signin.Credentials{Email: identitytest.Email,
			Password: identitytest.Password}, "")
		require.NoError(t, err)
		f.SendResets(t)
		f.Clock.Advance(signin.ResetLifetime)
		require.NotEmpty(t, f.ResetToken(t, p, identitytest.Stranger(2), identitytest.Email), "a mail an hour later")
		require.Equal(t, 1, f.Count(t, "password_resets"), "what is over goes")
	})
}

// A token that never existed, has expired, was used, or has another purpose gets one response and costs no Argon2. Many
// of them from one address have to wait.
func TestResetTokens(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		setup, err := f.Setup.Open(t.Context(), "")
		require.NoError(t, err)
		p := f.Post()
		f.Owner(t)
		in := f.SignedIn(t)
		over := f.ResetToken(t, p, identitytest.Stranger(1), identitytest.Email)
		f.Clock.Advance(signin.ResetLifetime)
		changed := f.ResetToken(t, p, identitytest.Stranger(1), identitytest.Email)
		require.NoError(t, f.SignIn.ResetPassword(t.Context(), access.System("cli"), identitytest.Email,
			identitytest.Password+" by hand"))
		good := f.ResetToken(t, p, identitytest.Stranger(1), identitytest.Email)
		hashes := f.Hashes.Load()
		refused := func(n int, token signin.ResetToken) {
			t.Helper()
			require.Equal(t, apperr.Unauthorized(signin.ErrResetToken), f.SignIn.CompleteReset(t.Context(),
				identitytest.Stranger(n), token, resetPassword))
		}
		for name, token := range map[string]signin.ResetToken{
			"never made": signin.ResetToken(id.NewRandom(id.PrefixResetToken)), "over": over, "another password since": changed,
			"a set-up token": setup, "a refresh token": in.Refresh, "no token": "x", "cut": good[:len(good)-1],
			"in capitals": signin.ResetToken(strings.ToUpper(good.Reveal())), "of another purpose": signin.ResetToken("spi_" +
				good.Reveal()[4:]),
		} {
			t.Log(name)
			refused(2, token)
		}
		for range signin.FreeAddressFailures {
			_ = f.SignIn.CompleteReset(t.Context(), identitytest.Stranger(3),
				signin.ResetToken(id.NewRandom(id.PrefixResetToken)), resetPassword)
		}
		refused(3, "x")
		require.True(t, apperr.Is(f.SignIn.CompleteReset(t.Context(), identitytest.Stranger(3), good, resetPassword),
			apperr.CodeRateLimited))
		require.Equal(t, hashes, f.Hashes.Load())
		require.True(t, apperr.Is(f.SignIn.CompleteReset(t.Context(), identitytest.Stranger(4), good, identitytest.Email),
			apperr.CodeValidation), "not the address")
		require.True(t, apperr.Is(f.SignIn.CompleteReset(t.Context(), identitytest.Stranger(4), good, "short"),
			apperr.CodeValidation))
		require.NoError(t, f.SignIn.CompleteReset(t.Context(), identitytest.Stranger(4), good, resetPassword),
			"a password that breaks a rule uses nothing up")
	})
}

// Of several simultaneous uses of one token, on several nodes, one sets a password.
func TestResetRace(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		p := f.Post()
		f.Owner(t)
		token := f.ResetToken(t, p, identitytest.Stranger(1), identitytest.Email)
		other := f.Another(t)
		other.Post()
		var done atomic.Int64
		var all sync.WaitGroup
		for n := range 8 {
			node := []identitytest.World{f, other}[n%2]
			all.Go(func() {
				if node.SignIn.CompleteReset(t.Context(), identitytest.Stranger(n), token, resetPassword) == nil {
					done.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, done.Load())
	})
}

// Without a mail server no one waits for a mail that will never come.
func TestResetWithoutMail(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		require.True(t, apperr.Is(f.SignIn.RequestReset(t.Context(), identitytest.Client(), identitytest.Email),
			apperr.CodeMailNotConfigured))
		f.Post().Off = true
		require.True(t, apperr.Is(f.SignIn.RequestReset(t.Context(), identitytest.Client(), identitytest.Email),
			apperr.CodeMailNotConfigured))
		require.Zero(t, f.Count(t, "sign_in_failures"))

		p := f.Post()
		f.Owner(t)
		require.NoError(t, f.SignIn.RequestReset(t.Context(), identitytest.Client(), identitytest.Email))
		p.Off = true
		_, err := f.SignIn.SendResets(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, f.Count(t, "password_reset_requests"), "another node may have one")
		f.Clock.Advance(signin.ResetLifetime)
		p.Off = false
		f.SendResets(t)
		require.Empty(t, p.Mails, "nobody waits for a mail for an hour")
	})
}
