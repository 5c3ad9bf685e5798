package signin

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

const testPassword = secretbox.Secret("correct horse battery")

// The stored form is the one that other implementations read: a vector of the Argon2 reference implementation
// (phc-winner-argon2, src/test.c, Argon2id v=19).
func TestPasswordHashInterchange(t *testing.T) {
	t.Parallel()
	const phc = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	h, err := parseHash(phc)
	require.NoError(t, err)
	require.Equal(t, hashParams{memoryKiB: 65536, passes: 2, lanes: 1}, h.params)
	ok, err := newHasher(nil).verify(t.Context(), h, "password")
	require.NoError(t, err)
	require.True(t, ok)
}

// A password verifies against its own hash only, the costs are those of the documentation, and equal passwords do not
// show as equal.
func TestPasswordHash(t *testing.T) {
	t.Parallel()
	hasher := newHasher(nil)
	one, err := hasher.hash(t.Context(), testPassword)
	require.NoError(t, err)
	two, err := hasher.hash(t.Context(), testPassword)
	require.NoError(t, err)
	require.NotEqual(t, one, two)
	require.Regexp(t, `^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`, one)
	h, err := parseHash(one)
	require.NoError(t, err)
	for password, want := range map[secretbox.Secret]bool{testPassword: true, testPassword + " ": false, "": false} {
		ok, err := hasher.verify(t.Context(), h, password)
		require.NoError(t, err)
		require.Equal(t, want, ok)
	}
}

// A damaged row is refused; above all, it cannot make the process compute without bound.
func TestPasswordHashRefusesDamage(t *testing.T) {
	t.Parallel()
	good := unknownUser().String()
	_, err := parseHash(good)
	require.NoError(t, err)
	for _, bad := range []string{
		"", "x", good + "$", good + " ", "$argon2i" + good[len("$argon2id"):],
		"$argon2id$v=16$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=4294967295,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=19456,t=4294967295,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=19456,t=0,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=19456,t=2,p=0$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=19456,t=2,p=1,x=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAA",
		"$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$",
		"$argon2id$v=19$m=19456,t=2,p=1$!$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
	} {
		_, err := parseHash(bad)
		require.ErrorIs(t, err, errHashForm, bad)
	}
}

// Sign-ins take a bounded part of memory: two run, a bounded number waits, the rest is refused until later, and one
// that leaves makes room.
func TestHasherIsBounded(t *testing.T) {
	t.Parallel()
	h := newHasher(nil)
	var release []func()
	for range concurrentHashes() {
		r, err := h.acquire(t.Context())
		require.NoError(t, err)
		release = append(release, r)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range waitingHashes + 1 { // each leaves the queue, so it never fills
		_, err := h.acquire(gone)
		require.ErrorIs(t, err, context.Canceled)
	}
	for range waitingHashes {
		h.waiting <- struct{}{}
	}
	_, err := h.acquire(t.Context())
	require.True(t, apperr.Is(err, apperr.CodeUnavailable))
	var e *apperr.Error
	require.ErrorAs(t, err, &e)
	require.Positive(t, e.RetryAfter)
	release[0]()
	_, err = h.acquire(t.Context())
	require.NoError(t, err)
}
