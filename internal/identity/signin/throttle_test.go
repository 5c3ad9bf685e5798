package signin_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

const wrongPassword = secretbox.Secret("staple battery horse")

// guess submits a wrong password, and returns how long the next attempt has to wait: 0 for a password that was checked.
func guess(t *testing.T, f identitytest.World, c access.Client, email string) time.Duration {
	t.Helper()
	before := f.Hashes.Load()
	_, err := f.SignIn.Login(t.Context(), c, signin.Credentials{Email: email, Password: wrongPassword}, "")
	var e *apperr.Error
	require.ErrorAs(t, err, &e)
	if e.Code == apperr.CodeUnauthorized {
		require.EqualValues(t, 1, f.Hashes.Load()-before)
		return 0
	}
	require.Equal(t, apperr.CodeRateLimited, e.Code)
	require.Equal(t, "Too many failed sign-ins; try again later", e.Message)
	require.Zero(t, f.Hashes.Load()-before, "an attempt that has to wait costs no hash")
	require.Positive(t, e.RetryAfter)
	require.LessOrEqual(t, e.RetryAfter, signin.MaxDelay)
	return e.RetryAfter
}

// waits guesses until the account has to wait.
func waits(t *testing.T, f identitytest.World, c access.Client, email string) {
	t.Helper()
	for range signin.FreeAccountFailures + 2 {
		if guess(t, f, c, email) > 0 {
			return
		}
	}
	require.Fail(t, "the account never has to wait")
}

// Each failure beyond the free ones makes the next attempt wait longer, up to half a minute and no further: guessing
// slows down to two a minute, and no one is locked out permanently. Addresses without an account behave the same.
func TestBackoffOfAccount(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		for _, email := range []string{identitytest.Email, "nobody@example.test", "no address at all", "a\x00b"} {
			at := 0
			next := func() access.Client { at++; return identitytest.Stranger(at) } // from everywhere
			for range signin.FreeAccountFailures + 1 {
				require.Zero(t, guess(t, f, next(), email), email)
			}
			for _, seconds := range []int{1, 2, 4, 8, 16, 30, 30, 30} {
				wait := time.Duration(seconds) * time.Second
				require.Equal(t, wait, guess(t, f, next(), email), email)
				require.Equal(t, wait, guess(t, f, next(), strings.ToUpper(email)), "asking does not lengthen it")
				f.Clock.Advance(wait - time.Millisecond)
				require.Equal(t, time.Millisecond, guess(t, f, next(), email), email)
				f.Clock.Advance(time.Millisecond)
				require.Zero(t, guess(t, f, next(), email), email)
			}
		}
		f.Clock.Advance(signin.MaxDelay)
		in, err := f.SignIn.Login(t.Context(), identitytest.Stranger(200), signin.Credentials{Email: identitytest.Email,
			Password: identitytest.Password}, "")
		require.NoError(t, err)
		f.Bearer(t, in.Token)
		f.Clock.Advance(time.Second)
		for range signin.FreeAccountFailures {
			require.Zero(t, guess(t, f, identitytest.Stranger(201), identitytest.Email), "a success begins the count anew")
		}
	})
}

// Spraying one password over many accounts from one address comes to the same end. Other addresses go on, the rest of
// an IPv6 network does not.
func TestBackoffOfAddress(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		account := 0
		spray := func(ip string) time.Duration {
			account++
			return guess(t, f, access.Client{IP: ip}, fmt.Sprintf("user%d@example.test", account))
		}
		for range signin.FreeAddressFailures + 1 {
			require.Zero(t, spray("2001:db8::1"))
		}
		require.Equal(t, time.Second, spray("2001:db8::1"))
		require.Equal(t, time.Second, spray("2001:db8::ffff:1"))
		require.Zero(t, spray("2001:db8:0:1::1"))
		_, err := f.SignIn.Login(t.Context(), access.Client{IP: "2001:db8::1"},
			signin.Credentials{Email: identitytest.Email, Password: identitytest.Password}, "")
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), "the right password waits too, or waiting would tell it")
		f.Clock.Advance(time.Second)
		_, err = f.SignIn.Login(t.Context(), access.Client{IP: "2001:db8::1"}, signin.Credentials{Email: identitytest.Email,
			Password: identitytest.Password}, "")
		require.NoError(t, err)
		f.Clock.Advance(signin.MaxDelay)
		require.Zero(t, spray("2001:db8::1"))
		require.Positive(t, spray("2001:db8::1"), "a success of one account forgives no others' failures")
		f.Clock.Advance(signin.ForgetAfter)
		for range signin.FreeAddressFailures {
			require.Zero(t, spray("2001:db8::1"), "quiet is forgotten")
		}
	})
}

// A person who makes an address wait cannot keep out users who are known to sign in from it: only their account's count
// applies to them there, and their failures do not count for the address.
func TestBackoffOfAddressSparesWhoIsKnownThere(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		f.SignedIn(t)
		for n := range signin.FreeAddressFailures + 1 {
			require.Zero(t, guess(t, f, identitytest.Client(), fmt.Sprintf("user%d@example.test", n)))
		}
		require.Positive(t, guess(t, f, identitytest.Client(), "other@example.test"))
		f.SignedIn(t)
		waits(t, f, identitytest.Client(), identitytest.Email)
		f.Clock.Advance(time.Second)
		require.Zero(t, guess(t, f, identitytest.Client(), "other@example.test"), "the known user's failures did not count")
	})
}

// Successes from an address are no failures of it: an office may sign in as often as it likes.
func TestBackoffSparesSuccesses(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		for range signin.FreeAddressFailures + 5 {
			f.SignedIn(t)
		}
		require.LessOrEqual(t, f.Count(t, "sign_in_failures"), 1)
	})
}

// A stranger who guesses without pause cannot keep a user out of an address that they have signed in from: it has a
// count of its own, which is as strict.
func TestBackoffLocksNoOneOut(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		f.SignedIn(t)
		for n := range 10 {
			waits(t, f, identitytest.Stranger(n), identitytest.Email)
		}
		f.SignedIn(t)
		waits(t, f, identitytest.Client(), identitytest.Email)
		f.Clock.Advance(signin.SessionLifetime)
		_, err := f.Setup.CreateOwner(t.Context(), access.System("cli"), "", "other@example.test", identitytest.Password)
		require.NoError(t, err)
		_, err = f.LogIn(t, "other@example.test", identitytest.Password) // sweeps
		require.NoError(t, err)
		for n := range 10 {
			waits(t, f, identitytest.Stranger(n), identitytest.Email)
		}
		_, err = f.LogIn(t, identitytest.Email, identitytest.Password)
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), "an address is known for as long as a session's row is kept")
	})
}

// Many guesses at a time are no more guesses than one after the other, on several nodes neither.
func TestBackoffCountsBeforeItChecks(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		other := f.Another(t)
		before := f.Hashes.Load()
		var all sync.WaitGroup
		for n := range 40 {
			node := []identitytest.World{f, other}[n%2]
			all.Go(func() {
				_, _ = node.SignIn.Login(t.Context(), identitytest.Stranger(n), signin.Credentials{Email: identitytest.Email,
					Password: wrongPassword}, "")
			})
		}
		all.Wait()
		require.EqualValues(t, signin.FreeAccountFailures+1, f.Hashes.Load()-before)
	})
}

// While every place to compute in is taken, strangers make the database write nothing.
func TestBackoffWritesOnlyWhatIsChecked(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		f.SignIn.FillQueue()
		for n := range 10 {
			_, err := f.SignIn.Login(t.Context(), identitytest.Stranger(n), signin.Credentials{Email: identitytest.Email,
				Password: wrongPassword}, "")
			require.True(t, apperr.Is(err, apperr.CodeUnavailable))
		}
		require.Zero(t, f.Count(t, "sign_in_failures"))
	})
}

// An attempt that has to wait is refused immediately: it takes no place from those that need not wait.
func TestBackoffTakesNoPlace(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		waits(t, f, identitytest.Stranger(1), identitytest.Email)
		f.SignIn.FillQueue()
		require.Positive(t, guess(t, f, identitytest.Stranger(2), identitytest.Email))
	})
}

// Texts that strangers typed into a sign-in are nowhere in the table, and old rows are removed.
func TestBackoffKeepsLittle(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		for n := range 15 {
			guess(t, f, identitytest.Stranger(n), fmt.Sprintf("my password is %d", n))
		}
		require.Equal(t, 30, f.Count(t, "sign_in_failures"))
		var telling int
		require.NoError(t, f.Store.DB.Read().QueryRowContext(t.Context(),
			"SELECT count(*) FROM sign_in_failures WHERE id LIKE '%password%' OR id LIKE '%198.51%'").Scan(&telling))
		require.Zero(t, telling)
		f.Clock.Advance(signin.ForgetAfter)
		for range 4 {
			guess(t, f, identitytest.Stranger(100), "nobody@example.test")
		}
		require.Equal(t, 2, f.Count(t, "sign_in_failures"))
	})
}
