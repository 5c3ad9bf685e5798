package identity

import (
	"encoding/base32"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

// Promise: codes are those of RFC 6238. The times and codes are of its appendix B, for SHA-1, cut to six digits.
func TestTOTPVectors(t *testing.T) {
	t.Parallel()
	secret := []byte("12345678901234567890")
	for seconds, code := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037",
		20000000000: "353130",
	} {
		require.Equal(t, code, totpCode(secret, totpStep(time.Unix(seconds, 0))), seconds)
	}
}

// Promise: a code holds for a phone that is a step ahead or behind, and for none that is two.
func TestTOTPSkew(t *testing.T) {
	t.Parallel()
	secret, now := newTOTPSecret(), time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)
	for n := int64(-3); n <= 3; n++ {
		step, ok := matchTOTP(secret, totpCode(secret, totpStep(now)+n), now, 0)
		require.Equal(t, n >= -1 && n <= 1, ok, n)
		if ok {
			require.Equal(t, totpStep(now)+n, step)
		}
	}
	_, ok := matchTOTP(secret, totpCode(secret, totpStep(now)), now, totpStep(now))
	require.False(t, ok, "its step was used")
	_, ok = matchTOTP(secret, "", now, 0)
	require.False(t, ok)
}

// Promise: people may type a code in groups, and a recovery code in either case and with letters that look like its
// digits.
func TestCodesAsTyped(t *testing.T) {
	t.Parallel()
	require.Equal(t, oneTimeCode{totp: "012345"}, parseCode(" 012 345 "))
	rapid.Check(t, func(t *rapid.T) {
		code := newRecoveryCode()
		typed := strings.ToUpper(showRecoveryCode(code).Reveal())
		if rapid.Bool().Draw(t, "letters") {
			typed = strings.NewReplacer("0", "O", "1", rapid.SampledFrom([]string{"i", "L"}).Draw(t, "one"), "-",
				" ").Replace(typed)
		}
		require.Equal(t, oneTimeCode{recovery: code}, parseCode(typed))
	})
	for _, typed := range []string{"", "12345", "1234567", "１２３４５６", "abcdef", strings.Repeat("u", recoveryCharacters),
		"0123-4567-89ab-cde"} {
		require.Equal(t, oneTimeCode{}, parseCode(typed), typed)
	}
}

// app is an authenticator app of the owner.
type app struct {
	f      fixture
	actor  access.Principal
	secret []byte
	codes  []secretbox.Secret
}

// code is what the app shows now, or so many steps later.
func (a app) code(later int64) secretbox.Secret {
	return secretbox.Secret(totpCode(a.secret, totpStep(a.f.clk.Now())+later))
}

// wrong is a code that no step near now has.
func (a app) wrong(t *testing.T) secretbox.Secret {
	t.Helper()
	for _, code := range []string{"000000", "111111", "222222", "333333"} {
		if _, ok := matchTOTP(a.secret, code, a.f.clk.Now(), 0); !ok {
			return secretbox.Secret(code)
		}
	}
	require.Fail(t, "three steps have three codes at most")
	return ""
}

func (a app) login(t *testing.T, code secretbox.Secret) (SignIn, error) {
	t.Helper()
	return a.f.Login(t.Context(), testClient(), Credentials{Email: testEmail, Password: testPassword, Code: code}, "")
}

// enrolled returns the owner's confirmed app; its present code is used up.
func enrolled(t *testing.T, f fixture) app {
	t.Helper()
	actor, _ := f.owner(t)
	a := app{f: f, actor: actor}
	var e TOTPEnrolment
	var err error
	e, err = f.EnrolTOTP(t.Context(), actor, testPassword)
	require.NoError(t, err)
	a.secret = secretOf(t, e)
	a.codes, err = f.ConfirmTOTP(t.Context(), actor, a.code(0))
	require.NoError(t, err)
	require.Len(t, a.codes, recoveryCodes)
	return a
}

func secretOf(t *testing.T, e TOTPEnrolment) []byte {
	t.Helper()
	u, err := url.Parse(e.URI.Reveal())
	require.NoError(t, err)
	require.Equal(t, "otpauth", u.Scheme)
	require.Equal(t, "totp", u.Host)
	require.Equal(t, "/Sallyport gateway.example.test:"+testEmail, u.Path)
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

// Promise: an app counts from its first code on. Then a sign-in needs the password and a code, tells only whoever has
// the password that it does, and the token says that both were given.
func TestSignInWithTOTP(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, _ := f.owner(t)
		first, err := f.EnrolTOTP(t.Context(), actor, testPassword)
		require.NoError(t, err)
		second, err := f.EnrolTOTP(t.Context(), actor, testPassword)
		require.NoError(t, err)
		require.NotEqual(t, first, second)
		state, err := f.TOTP(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, TOTPPending, state.State)
		require.Equal(t, []string{"pwd"}, f.signedIn(t).Session.Methods(), "an app that was never used keeps nobody out")

		a := app{f: f, actor: actor, secret: secretOf(t, first)}
		_, err = f.ConfirmTOTP(t.Context(), actor, a.code(0))
		require.ErrorIs(t, err, ErrWrongCode, "another enrolment has replaced it")
		a.secret = secretOf(t, second)
		a.codes, err = f.ConfirmTOTP(t.Context(), actor, a.code(0))
		require.NoError(t, err)
		_, err = f.ConfirmTOTP(t.Context(), actor, a.code(1))
		require.True(t, apperr.Is(err, apperr.CodeTOTPActive), err)
		_, err = f.EnrolTOTP(t.Context(), actor, testPassword)
		require.True(t, apperr.Is(err, apperr.CodeTOTPActive), err)

		sessions := f.count(t, "sessions")
		_, err = a.login(t, "")
		require.True(t, apperr.Is(err, apperr.CodeTOTPRequired), err)
		_, err = a.login(t, a.wrong(t))
		require.True(t, apperr.Is(err, apperr.CodeTOTPInvalid), err)
		_, err = a.login(t, a.code(0))
		require.True(t, apperr.Is(err, apperr.CodeTOTPInvalid), "the confirmation has used it: %v", err)
		for _, code := range []secretbox.Secret{"", a.code(1), a.codes[0]} {
			_, err = f.Login(t.Context(), testClient(), Credentials{Email: testEmail, Password: wrongPassword, Code: code}, "")
			require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "a wrong password learns nothing: %v", err)
		}
		require.Equal(t, sessions, f.count(t, "sessions"))

		f.clk.Advance(totpPeriod)
		in, err := a.login(t, a.code(0))
		require.NoError(t, err)
		keys, err := f.tokens(t.Context())
		require.NoError(t, err)
		c, err := keys.verify(f.clk.Now(), in.Token.Reveal())
		require.NoError(t, err)
		require.Equal(t, []string{"pwd", "otp"}, c.Methods)
		again, err := f.Refresh(t.Context(), testClient(), in.Refresh)
		require.NoError(t, err)
		require.Equal(t, []string{"pwd", "otp"}, again.Session.Methods())
	})
}

// Promise: a code works once, of the app and of recovery, however many show it at the same time on however many nodes.
func TestCodesWorkOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		a := enrolled(t, f)
		nodes := []*Service{f.Service, f.another(t)}
		for _, n := range nodes {
			require.NoError(t, n.Init(t.Context(), false))
		}
		f.clk.Advance(totpPeriod)
		for _, code := range []secretbox.Secret{a.code(0), a.codes[3]} {
			var right atomic.Int64
			var all sync.WaitGroup
			for n := range 6 {
				all.Go(func() {
					// Each from an address of its own, so that only the code decides.
					_, err := nodes[n%2].Login(t.Context(), stranger(n), Credentials{Email: testEmail, Password: testPassword,
						Code: code}, "")
					if err == nil {
						right.Add(1)
					}
				})
			}
			all.Wait()
			require.Equal(t, int64(1), right.Load())
			f.clk.Advance(maxCodeDelay) // for what the others count
		}
		state, err := f.TOTP(t.Context(), a.actor)
		require.NoError(t, err)
		require.Equal(t, TOTPOn, state.State)
		require.Equal(t, recoveryCodes-1, state.RecoveryCodes)
		require.Contains(t, actions(f.trail(t)), "totp.use_recovery_code")
	})
}

// Promise: whoever has the password cannot try codes as they please: after a few wrong ones the next has to wait, up to
// an hour, and a pause forgives nothing. A recovery code still lets the user in.
func TestWrongCodesWait(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		a := enrolled(t, f)
		for range freeWrongCodes {
			f.clk.Advance(forgetAfter) // past what is counted of passwords
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
			f.clk.Advance(max(forgetAfter, e.RetryAfter))
			_, err = a.login(t, a.wrong(t))
			require.True(t, apperr.Is(err, apperr.CodeTOTPInvalid), err)
		}
		require.Equal(t, []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute,
			16 * time.Minute, 32 * time.Minute, time.Hour, time.Hour}, waits)
		_, err := a.login(t, a.codes[0])
		require.NoError(t, err)
		f.clk.Advance(maxCodeDelay)
		_, err = a.login(t, a.code(0))
		require.NoError(t, err)
		_, err = a.login(t, a.wrong(t))
		require.True(t, apperr.Is(err, apperr.CodeTOTPInvalid), "a right code begins the count anew: %v", err)
	})
}

// Promise: nothing about an app changes without the password, and it goes only with a code as well. What was typed
// wrong counts.
func TestTOTPWantsThePassword(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		a := enrolled(t, f)
		_, err := f.EnrolTOTP(t.Context(), a.actor, wrongPassword)
		require.ErrorIs(t, err, ErrWrongPassword)
		require.ErrorIs(t, f.RemoveTOTP(t.Context(), a.actor, wrongPassword, a.code(1)), ErrWrongPassword)
		require.ErrorIs(t, f.RemoveTOTP(t.Context(), a.actor, testPassword, a.wrong(t)), ErrWrongCode)
		_, err = a.login(t, "")
		require.True(t, apperr.Is(err, apperr.CodeTOTPRequired), err)
		require.NoError(t, f.RemoveTOTP(t.Context(), a.actor, testPassword, a.code(1)))
		require.Equal(t, 0, f.count(t, "user_recovery_codes"))
		require.True(t, apperr.Is(f.RemoveTOTP(t.Context(), a.actor, testPassword, a.code(1)), apperr.CodeNotFound))
		f.signedIn(t)

		for range freeAccountFailures {
			f.clk.Advance(maxDelay)
			_, err = f.EnrolTOTP(t.Context(), a.actor, wrongPassword)
			require.ErrorIs(t, err, ErrWrongPassword)
		}
		_, err = f.EnrolTOTP(t.Context(), a.actor, wrongPassword)
		require.ErrorIs(t, err, ErrWrongPassword)
		_, err = f.EnrolTOTP(t.Context(), a.actor, testPassword)
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), err)
	})
}

// Promise: a sign-in of two steps, first without a code and then with it, does not add up to a wait for everybody else
// at the same address, and the steps without a code do add up for the account.
func TestTwoStepsDoNotBlockAnAddress(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		a := enrolled(t, f)
		for range 3 * freeAddressFailures {
			f.exec(t, "DELETE FROM sessions") // no address becomes known
			f.clk.Advance(totpPeriod)
			_, err := a.login(t, "")
			require.True(t, apperr.Is(err, apperr.CodeTOTPRequired), err)
			_, err = a.login(t, a.code(0))
			require.NoError(t, err)
		}
		f.exec(t, "DELETE FROM sessions")
		for range freeAccountFailures + 1 {
			_, err := a.login(t, "")
			require.True(t, apperr.Is(err, apperr.CodeTOTPRequired), err)
		}
		_, err := a.login(t, "")
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), err)
	})
}

// Promise: an operator lets somebody back in who has lost app and recovery codes. Their sessions end, and the trail
// says so. Neither secret nor codes are in the trail or in a row as they are.
func TestResetTOTP(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		a := enrolled(t, f)
		f.clk.Advance(totpPeriod)
		in, err := a.login(t, a.code(0))
		require.NoError(t, err)
		cli := access.System("cli")
		require.ErrorIs(t, f.ResetTOTP(t.Context(), cli, "grace@example.test"), ErrNoUser)
		require.NoError(t, f.ResetTOTP(t.Context(), cli, strings.ToUpper(testEmail)))
		require.True(t, apperr.Is(f.ResetTOTP(t.Context(), cli, testEmail), apperr.CodeNotFound))
		f.refused(t, in.Token)
		f.signedIn(t)
		trail := f.trail(t)
		require.Subset(t, actions(trail), []string{"totp.enrol", "totp.confirm", "totp.reset"})
		for _, e := range trail {
			for _, secret := range append(a.codes, secretbox.Secret(a.secret)) {
				require.NotContains(t, e.changes, secret.Reveal())
			}
		}
	})
}

func actions(trail []auditRow) []string {
	var list []string
	for _, e := range trail {
		list = append(list, e.action)
	}
	return list
}

func decodeBase32(s string) ([]byte, error) {
	return base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(s)
}
