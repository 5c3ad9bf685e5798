package signin_test

import (
	"encoding/base32"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

// app is an authenticator app of the owner.
type app struct {
	f      identitytest.World
	actor  access.Principal
	secret []byte
	codes  []secretbox.Secret
}

// code is the app's code now, or so many steps later.
func (a app) code(later int64) secretbox.Secret {
	return secretbox.Secret(signin.TOTPCode(a.secret, a.f.Clock.Now(), later))
}

// wrong is a code that no step near now has.
func (a app) wrong(t *testing.T) secretbox.Secret {
	t.Helper()
	for _, code := range []string{"000000", "111111", "222222", "333333"} {
		if !signin.MatchesTOTP(a.secret, code, a.f.Clock.Now()) {
			return secretbox.Secret(code)
		}
	}
	require.Fail(t, "three steps have three codes at most")
	return ""
}

func (a app) login(t *testing.T, code secretbox.Secret) (signin.SignIn, error) {
	t.Helper()
	return a.f.SignIn.Login(t.Context(), identitytest.Client(), signin.Credentials{Email: identitytest.Email,
		Password: identitytest.Password, Code: code}, "")
}

// enrolled returns the owner's confirmed app; its present code is used up.
func enrolled(t *testing.T, f identitytest.World) app {
	t.Helper()
	actor, _ := f.Owner(t)
	a := app{f: f, actor: actor}
	var e signin.TOTPEnrolment
	var err error
	e, err = f.SignIn.EnrolTOTP(t.Context(), actor, identitytest.Password)
	require.NoError(t, err)
	a.secret = secretOf(t, e)
	a.codes, err = f.SignIn.ConfirmTOTP(t.Context(), actor, a.code(0))
	require.NoError(t, err)
	require.Len(t, a.codes, signin.RecoveryCodes)
	return a
}

func secretOf(t *testing.T, e signin.TOTPEnrolment) []byte {
	t.Helper()
	u, err := url.Parse(e.URI.Reveal())
	require.NoError(t, err)
	require.Equal(t, "otpauth", u.Scheme)
	require.Equal(t, "totp", u.Host)
	require.Equal(t, "/Sallyport gateway.example.test:"+identitytest.Email, u.Path)
	require.NotContains(t, u.RawQuery, "+", "apps take it for a plus")
	q := u.Query()
	require.Equal(t, "Sallyport gateway.example.test", q.Get("issuer"))
	require.Equal(t, []string{"SHA1", "6", "30"}, []string{q.Get("algorithm"), q.Get("digits"), q.Get("period")})
	require.Equal(t, e.Secret.Reveal(), q.Get("secret"))
	secret, err := decodeBase32(q.Get("secret"))
	require.NoError(t, err)
	require.Len(t, secret, 20)
	return secret
}

// An app counts from its first code on. Then a sign-in needs the password and a code, the response says so only to a
// caller with the password, and the token records that both were given.
func TestSignInWithTOTP(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, _ := f.Owner(t)
		first, err := f.SignIn.EnrolTOTP(t.Context(), actor, identitytest.Password)
		require.NoError(t, err)
		second, err := f.SignIn.EnrolTOTP(t.Context(), actor, identitytest.Password)
		require.NoError(t, err)
		require.NotEqual(t, first, second)
		state, err := f.SignIn.TOTP(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, signin.TOTPPending, state.State)
		require.Equal(t, []string{"pwd"}, f.SignedIn(t).Session.Methods(), "an app that was never used keeps nobody out")

		a := app{f: f, actor: actor, secret: secretOf(t, first)}
		_, err = f.SignIn.ConfirmTOTP(t.Context(), actor, a.code(0))
		require.ErrorIs(t, err, signin.ErrWrongCode, "another enrolment has replaced it")
		a.secret = secretOf(t, second)
		a.codes, err = f.SignIn.ConfirmTOTP(t.Context(), actor, a.code(0))
		require.NoError(t, err)
		_, err = f.SignIn.ConfirmTOTP(t.Context(), actor, a.code(1))
		require.True(t, apperr.Is(err, apperr.CodeTOTPActive), err)
		_, err = f.SignIn.EnrolTOTP(t.Context(), actor, identitytest.Password)
		require.True(t, apperr.Is(err, apperr.CodeTOTPActive), err)

		sessions := f.Count(t, "sessions")
		_, err = a.login(t, "")
		require.True(t, apperr.Is(err, apperr.CodeTOTPRequired), err)
		_, err = a.login(t, a.wrong(t))
		require.True(t, apperr.Is(err, apperr.CodeTOTPInvalid), err)
		_, err = a.login(t, a.code(0))
		require.True(t, apperr.Is(err, apperr.CodeTOTPInvalid), "the confirmation has used it: %v", err)
		for _, code := range []secretbox.Secret{"", a.code(1), a.codes[0]} {
			_, err = f.SignIn.Login(t.Context(), identitytest.Client(), signin.Credentials{Email: identitytest.Email,
				Password: wrongPassword, Code: code}, "")
			require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "a wrong password learns nothing: %v", err)
		}
		require.Equal(t, sessions, f.Count(t, "sessions"))

		f.Clock.Advance(signin.TOTPPeriod)
		in, err := a.login(t, a.code(0))
		require.NoError(t, err)
		keys, err := f.AccessTokens.Keys(t.Context())
		require.NoError(t, err)
		c, err := keys.Verify(f.Clock.Now(), in.Token.Reveal())
		require.NoError(t, err)
		require.Equal(t, []string{"pwd", "otp"}, c.Methods)
		again, err := f.SignIn.Refresh(t.Context(), identitytest.Client(), in.Refresh)
		require.NoError(t, err)
		require.Equal(t, []string{"pwd", "otp"}, again.Session.Methods())
	})
}

// A code works once, of the app and of recovery, however many show it at the same time on however many nodes.
func TestCodesWorkOnce(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		a := enrolled(t, f)
		nodes := []identitytest.World{f, f.Another(t)}
		f.Clock.Advance(signin.TOTPPeriod)
		for _, code := range []secretbox.Secret{a.code(0), a.codes[3]} {
			var right atomic.Int64
			var all sync.WaitGroup
			for n := range 6 {
				all.Go(func() {
					// Each from an address of its own, so that only the code decides.
					_, err := nodes[n%2].SignIn.Login(t.Context(), identitytest.Stranger(n),
						signin.Credentials{Email: identitytest.Email, Password: identitytest.Password, Code: code}, "")
					if err == nil {
						right.Add(1)
					}
				})
			}
			all.Wait()
			require.Equal(t, int64(1), right.Load())
			f.Clock.Advance(signin.MaxCodeDelay) // for what the others count
		}
		state, err := f.SignIn.TOTP(t.Context(), a.actor)
		require.NoError(t, err)
		require.Equal(t, signin.TOTPOn, state.State)
		require.Equal(t, signin.RecoveryCodes-1, state.RecoveryCodes)
		require.Contains(t, actions(f.Trail(t)), "totp.use_recovery_code")
	})
}

// A person with the password cannot try codes without limit: after a few wrong ones the next has to wait, up to an
// hour, and a pause resets nothing. A recovery code still lets the user in.
func TestWrongCodesWait(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		a := enrolled(t, f)
		for range signin.FreeWrongCodes {
			f.Clock.Advance(signin.ForgetAfter) // past what is counted of passwords
			_, err := a.login(t, a.wrong(t))
			require.True(t, apperr.Is(err, apperr.CodeTOTPInvalid), err)
		}
		var waits []time.Duration
		for range 9 {
			_, err := a.login(t, a.code(0))
			var e *apperr.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, apperr.CodeRateLimited, e.Code, "not even the right code tells anything")
			waits = append(waits, e.RetryAfter)
			f.Clock.Advance(max(signin.ForgetAfter, e.RetryAfter))
			_, err = a.login(t, a.wrong(t))
			require.True(t, apperr.Is(err, apperr.CodeTOTPInvalid), err)
		}
		require.Equal(t, []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute,
			16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour}, waits)
		_, err := a.login(t, a.codes[0])
		require.NoError(t, err)
		f.Clock.Advance(signin.MaxCodeDelay)
		_, err = a.login(t, a.code(0))
		require.NoError(t, err)
		_, err = a.login(t, a.wrong(t))
		require.True(t, apperr.Is(err, apperr.CodeTOTPInvalid), "a right code begins the count anew: %v", err)
	})
}

// No change to an app works without the password, and its removal needs a code as well. Wrong texts count.
func TestTOTPWantsThePassword(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		a := enrolled(t, f)
		_, err := f.SignIn.EnrolTOTP(t.Context(), a.actor, wrongPassword)
		require.ErrorIs(t, err, signin.ErrWrongPassword)
		require.ErrorIs(t, f.SignIn.RemoveTOTP(t.Context(), a.actor, wrongPassword, a.code(1)), signin.ErrWrongPassword)
		require.ErrorIs(t, f.SignIn.RemoveTOTP(t.Context(), a.actor, identitytest.Password, a.wrong(t)), signin.ErrWrongCode)
		_, err = a.login(t, "")
		require.True(t, apperr.Is(err, apperr.CodeTOTPRequired), err)
		require.NoError(t, f.SignIn.RemoveTOTP(t.Context(), a.actor, identitytest.Password, a.code(1)))
		require.Equal(t, 0, f.Count(t, "user_recovery_codes"))
		require.True(t, apperr.Is(f.SignIn.RemoveTOTP(t.Context(), a.actor, identitytest.Password, a.code(1)),
			apperr.CodeNotFound))
		f.SignedIn(t)

		for range signin.FreeAccountFailures {
			f.Clock.Advance(signin.MaxDelay)
			_, err = f.SignIn.EnrolTOTP(t.Context(), a.actor, wrongPassword)
			require.ErrorIs(t, err, signin.ErrWrongPassword)
		}
		_, err = f.SignIn.EnrolTOTP(t.Context(), a.actor, wrongPassword)
		require.ErrorIs(t, err, signin.ErrWrongPassword)
		_, err = f.SignIn.EnrolTOTP(t.Context(), a.actor, identitytest.Password)
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), err)
	})
}

// A sign-in of two steps, first without a code and then with it, does not add up to a wait for everyone else at the
// same address. The steps without a code do add up for the account.
func TestTwoStepsDoNotBlockAnAddress(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		a := enrolled(t, f)
		for range 3 * signin.FreeAddressFailures {
			f.Exec(t, "DELETE FROM sessions") // no address becomes known
			f.Clock.Advance(signin.TOTPPeriod)
			_, err := a.login(t, "")
			require.True(t, apperr.Is(err, apperr.CodeTOTPRequired), err)
			_, err = a.login(t, a.code(0))
			require.NoError(t, err)
		}
		f.Exec(t, "DELETE FROM sessions")
		for range signin.FreeAccountFailures + 1 {
			_, err := a.login(t, "")
			require.True(t, apperr.Is(err, apperr.CodeTOTPRequired), err)
		}
		_, err := a.login(t, "")
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), err)
	})
}

// An operator can let a user back in who has lost app and recovery codes. Their sessions end, and the trail says so.
// Neither secret nor codes appear in the trail or unsealed in a row.
func TestResetTOTP(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		a := enrolled(t, f)
		f.Clock.Advance(signin.TOTPPeriod)
		in, err := a.login(t, a.code(0))
		require.NoError(t, err)
		cli := access.System("cli")
		require.ErrorIs(t, f.SignIn.ResetTOTP(t.Context(), cli, "grace@example.test"), signin.ErrNoUser)
		require.NoError(t, f.SignIn.ResetTOTP(t.Context(), cli, strings.ToUpper(identitytest.Email)))
		require.True(t, apperr.Is(f.SignIn.ResetTOTP(t.Context(), cli, identitytest.Email), apperr.CodeNotFound))
		f.Refused(t, in.Token)
		f.SignedIn(t)
		trail := f.Trail(t)
		require.Subset(t, actions(trail), []string{"totp.enrol", "totp.confirm", "totp.reset"})
		for _, e := range trail {
			for _, secret := range append(a.codes, secretbox.Secret(a.secret)) {
				require.NotContains(t, e.Changes, secret.Reveal())
			}
		}
	})
}

func actions(trail []identitytest.AuditRow) []string {
	var list []string
	for _, e := range trail {
		list = append(list, e.Action)
	}
	return list
}

func decodeBase32(s string) ([]byte, error) {
	return base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(s)
}
