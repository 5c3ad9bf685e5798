package identity

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

const wrongPassword = secretbox.Secret("staple battery horse")

// stranger is a client at an address of its own.
func stranger(n int) access.Client {
	return access.Client{IP: fmt.Sprintf("198.51.100.%d", n), UserAgent: "guesser/1.0", RequestID: "request-2"}
}

// guess tries a wrong password, and returns for how long it has to wait: 0 for one that was checked.
func (f fixture) guess(t *testing.T, c access.Client, email string) time.Duration {
	t.Helper()
	before := f.hashes.Load()
	_, err := f.Login(t.Context(), c, Credentials{Email: email, Password: wrongPassword}, "")
	var e *apperr.Error
	require.ErrorAs(t, err, &e)
	if e.Code == apperr.CodeUnauthorized {
		require.EqualValues(t, 1, f.hashes.Load()-before)
		return 0
	}
	require.Equal(t, apperr.CodeRateLimited, e.Code)
	require.Equal(t, "Too many failed sign-ins; try again later", e.Message)
	require.Zero(t, f.hashes.Load()-before, "an attempt that has to wait costs no hash")
	require.Positive(t, e.RetryAfter)
	require.LessOrEqual(t, e.RetryAfter, maxDelay)
	return e.RetryAfter
}

// waits guesses until the account has to wait.
func (f fixture) waits(t *testing.T, c access.Client, email string) {
	t.Helper()
	for range freeAccountFailures + 2 {
		if f.guess(t, c, email) > 0 {
			return
		}
	}
	require.Fail(t, "the account never has to wait")
}

// Each failure beyond the free ones makes the next attempt wait longer, up to half a minute and no further: guessing
// slows down to two a minute, and nobody is locked out for good. Addresses without an account behave the same.
func TestBackoffOfAccount(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		for _, email := range []string{testEmail, "nobody@example.test", "no address at all", "a\x00b"} {
			at := 0
			next := func() access.Client { at++; return stranger(at) } // from everywhere
			for range freeAccountFailures + 1 {
				require.Zero(t, f.guess(t, next(), email), email)
			}
			for _, seconds := range []int{1, 2, 4, 8, 16, 30, 30, 30} {
				wait := time.Duration(seconds) * time.Second
				require.Equal(t, wait, f.guess(t, next(), email), email)
				require.Equal(t, wait, f.guess(t, next(), strings.ToUpper(email)), "asking does not lengthen it")
				f.clk.Advance(wait - time.Millisecond)
				require.Equal(t, time.Millisecond, f.guess(t, next(), email), email)
				f.clk.Advance(time.Millisecond)
				require.Zero(t, f.guess(t, next(), email), email)
			}
		}
		f.clk.Advance(maxDelay)
		in, err := f.Login(t.Context(), stranger(200), Credentials{Email: testEmail, Password: testPassword}, "")
		require.NoError(t, err)
		f.bearer(t, in.Token)
		f.clk.Advance(time.Second)
		for range freeAccountFailures {
			require.Zero(t, f.guess(t, stranger(201), testEmail), "a success begins the count anew")
		}
	})
}

// Spraying one password over many accounts from one address comes to the same end. Other addresses go on, the rest of
// an IPv6 network does not.
func TestBackoffOfAddress(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		account := 0
		spray := func(ip string) time.Duration {
			account++
			return f.guess(t, access.Client{IP: ip}, fmt.Sprintf("user%d@example.test", account))
		}
		for range freeAddressFailures + 1 {
			require.Zero(t, spray("2001:db8::1"))
		}
		require.Equal(t, time.Second, spray("2001:db8::1"))
		require.Equal(t, time.Second, spray("2001:db8::ffff:1"))
		require.Zero(t, spray("2001:db8:0:1::1"))
		_, err := f.Login(t.Context(), access.Client{IP: "2001:db8::1"},
			Credentials{Email: testEmail, Password: testPassword}, "")
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), "the right password waits too, or waiting would tell it")
		f.clk.Advance(time.Second)
		_, err = f.Login(t.Context(), access.Client{IP: "2001:db8::1"}, Credentials{Email: testEmail, Password: testPassword},
			"")
		require.NoError(t, err)
		f.clk.Advance(maxDelay)
		require.Zero(t, spray("2001:db8::1"))
		require.Positive(t, spray("2001:db8::1"), "a success of one account forgives no others' failures")
		f.clk.Advance(forgetAfter)
		for range freeAddressFailures {
			require.Zero(t, spray("2001:db8::1"), "quiet is forgotten")
		}
	})
}

// Somebody who makes an address wait cannot keep out those who are known to sign in from it: they are held to their
// account's count there, and their failures are none of the address.
func TestBackoffOfAddressSparesWhoIsKnownThere(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		f.signedIn(t)
		for n := range freeAddressFailures + 1 {
			require.Zero(t, f.guess(t, testClient(), fmt.Sprintf("user%d@example.test", n)))
		}
		require.Positive(t, f.guess(t, testClient(), "other@example.test"))
		f.signedIn(t)
		f.waits(t, testClient(), testEmail)
		f.clk.Advance(time.Second)
		require.Zero(t, f.guess(t, testClient(), "other@example.test"), "the known user's failures did not count")
	})
}

// Successes from an address are no failures of it: an office may sign in as often as it likes.
func TestBackoffSparesSuccesses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		for range freeAddressFailures + 5 {
			f.signedIn(t)
		}
		require.LessOrEqual(t, f.count(t, "sign_in_failures"), 1)
	})
}

// A stranger who guesses without pause cannot keep a user out of an address that they have signed in from: it has a
// count of its own, which is as strict.
func TestBackoffLocksNobodyOut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		f.signedIn(t)
		for n := range 10 {
			f.waits(t, stranger(n), testEmail)
		}
		f.signedIn(t)
		f.waits(t, testClient(), testEmail)
		f.clk.Advance(SessionLifetime)
		_, err := f.CreateOwner(t.Context(), access.System("cli"), "", "other@example.test", testPassword)
		require.NoError(t, err)
		_, err = f.signIn(t, "other@example.test", testPassword) // sweeps
		require.NoError(t, err)
		for n := range 10 {
			f.waits(t, stranger(n), testEmail)
		}
		_, err = f.signIn(t, testEmail, testPassword)
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), "an address is known for as long as a session's row is kept")
	})
}

// Many guesses at a time are no more guesses than one after the other, on several nodes neither.
func TestBackoffCountsBeforeItChecks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		other := f.another(t)
		require.NoError(t, other.Init(t.Context(), false))
		before := f.hashes.Load()
		var all sync.WaitGroup
		for n := range 40 {
			node := []*Service{f.Service, other}[n%2]
			all.Go(func() {
				_, _ = node.Login(t.Context(), stranger(n), Credentials{Email: testEmail, Password: wrongPassword}, "")
			})
		}
		all.Wait()
		require.EqualValues(t, freeAccountFailures+1, f.hashes.Load()-before)
	})
}

// While every place to compute in is taken, strangers make the database write nothing.
func TestBackoffWritesOnlyWhatIsChecked(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		for range concurrentHashes() {
			f.hasher.running <- struct{}{}
		}
		for range waitingHashes {
			f.hasher.waiting <- struct{}{}
		}
		for n := range 10 {
			_, err := f.Login(t.Context(), stranger(n), Credentials{Email: testEmail, Password: wrongPassword}, "")
			require.True(t, apperr.Is(err, apperr.CodeUnavailable))
		}
		require.Zero(t, f.count(t, "sign_in_failures"))
	})
}

// An attempt that has to wait is told so at once: it takes no place from those who need not.
func TestBackoffTakesNoPlace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		f.waits(t, stranger(1), testEmail)
		for range concurrentHashes() {
			f.hasher.running <- struct{}{}
		}
		for range waitingHashes {
			f.hasher.waiting <- struct{}{}
		}
		require.Positive(t, f.guess(t, stranger(2), testEmail))
	})
}

// What strangers typed into the fields of a sign-in is nowhere in the table, and what is old goes.
func TestBackoffKeepsLittle(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		for n := range 15 {
			f.guess(t, stranger(n), fmt.Sprintf("my password is %d", n))
		}
		require.Equal(t, 30, f.count(t, "sign_in_failures"))
		var telling int
		require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(),
			"SELECT count(*) FROM sign_in_failures WHERE id LIKE '%password%' OR id LIKE '%198.51%'").Scan(&telling))
		require.Zero(t, telling)
		f.clk.Advance(forgetAfter)
		for range 4 {
			f.guess(t, stranger(100), "nobody@example.test")
		}
		require.Equal(t, 2, f.count(t, "sign_in_failures"))
	})
}

// The delay never shrinks as failures grow, and never exceeds its bound.
func TestDelayGrows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := bucket{free: rapid.Int64Range(0, 100).Draw(t, "free")}
		n := rapid.Int64Range(0, 1<<40).Draw(t, "failures")
		require.LessOrEqual(t, b.delay(n), b.delay(n+1))
		require.LessOrEqual(t, b.delay(n), maxDelay)
		require.Equal(t, n <= b.free, b.delay(n) == 0)
	})
}
