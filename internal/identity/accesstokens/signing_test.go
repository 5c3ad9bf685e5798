package accesstokens_test

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/accesstokens"
	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/access"
)

func kidOf(t *testing.T, in signin.SignIn) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(in.Token.Reveal(), []jose.SignatureAlgorithm{jose.ES256})
	require.NoError(t, err)
	return parsed.Headers[0].KeyID
}

func published(t *testing.T, f identitytest.World) []string {
	t.Helper()
	set, err := f.AccessTokens.JWKS(t.Context())
	require.NoError(t, err)
	var ids []string
	for _, k := range set.Keys {
		ids = append(ids, k.KeyID)
	}
	return ids
}

// A new key is published before it signs, for as long as verifiers may keep the old set, so that no verifier meets a
// token with an unknown key. The old key verifies until its last token has expired, and goes with the next rotation.
func TestRotateSigningKey(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		node := f.Another(t)
		accepted := func(in signin.SignIn) {
			t.Helper()
			_, err := node.Principals.Bearer(t.Context(), in.Token.Reveal())
			require.NoError(t, err)
			f.Bearer(t, in.Token)
		}
		in := f.SignedIn(t)
		first := kidOf(t, in)
		cli := access.System("cli")
		next, err := f.AccessTokens.Rotate(t.Context(), cli, false)
		require.NoError(t, err)
		require.Equal(t, f.Clock.Now().Add(2*accesstokens.JWKSMaxAge), next.From)
		_, err = f.AccessTokens.Rotate(t.Context(), cli, false)
		require.ErrorIs(t, err, accesstokens.ErrRotating)

		f.Clock.Advance(accesstokens.SigningKeyCache)
		require.Equal(t, []string{first, next.ID}, published(t, f))
		f.Clock.Advance(accesstokens.SigningKeyLead - accesstokens.SigningKeyCache - time.Millisecond)
		last := f.Refreshed(t, in.Refresh)
		require.Equal(t, first, kidOf(t, last))
		f.Clock.Advance(time.Millisecond)
		rotated := f.Refreshed(t, last.Refresh)
		require.Equal(t, next.ID, kidOf(t, rotated))
		accepted(last)
		accepted(rotated)
		f.Clock.Advance(accesstokens.Lifetime - 2*time.Second)
		accepted(last)
		accepted(rotated)
		f.Clock.Advance(2*time.Second + time.Minute)
		require.Equal(t, []string{next.ID}, published(t, f))
		require.Equal(t, 2, f.Count(t, "signing_keys"))
		third, err := f.AccessTokens.Rotate(t.Context(), cli, false)
		require.NoError(t, err)
		require.Equal(t, 2, f.Count(t, "signing_keys"))
		f.Clock.Advance(accesstokens.SigningKeyCache)
		require.Equal(t, []string{next.ID, third.ID}, published(t, f))

		restarted := f.Another(t)
		fresh := f.Refreshed(t, rotated.Refresh)
		_, err = restarted.Principals.Bearer(t.Context(), fresh.Token.Reveal())
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(strings.Join(f.Actions(t), " "), "signing_key.rotate"))
	})
}

// A key that has leaked is no longer a key, on any node, once they have looked again: what it signs is refused, what it
// has signed is refused, and people stay signed in by their refresh tokens.
func TestRotateCompromisedSigningKey(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		node := f.Another(t)
		in := f.SignedIn(t)
		_, err := f.AccessTokens.Rotate(t.Context(), access.System("cli"), false)
		require.NoError(t, err)
		next, err := f.AccessTokens.Rotate(t.Context(), access.System("cli"), true)
		require.NoError(t, err, "a key that waits for its turn is in nobody's way")
		require.Equal(t, f.Clock.Now(), next.From)
		require.Equal(t, 1, f.Count(t, "signing_keys"))
		f.Clock.Advance(accesstokens.SigningKeyCache)
		f.Refused(t, in.Token)
		_, err = node.Principals.Bearer(t.Context(), in.Token.Reveal())
		require.Error(t, err)
		again := f.Refreshed(t, in.Refresh)
		require.Equal(t, next.ID, kidOf(t, again))
		_, err = node.Principals.Bearer(t.Context(), again.Token.Reveal())
		require.NoError(t, err)
	})
}

// The published keys verify our tokens and cannot sign.
func TestJWKSIsPublic(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		set, err := f.AccessTokens.JWKS(t.Context())
		require.NoError(t, err)
		text, err := json.Marshal(set)
		require.NoError(t, err)
		var keys struct {
			Keys []map[string]string `json:"keys"`
		}
		require.NoError(t, json.Unmarshal(text, &keys))
		require.Len(t, keys.Keys, 1)
		require.ElementsMatch(t, []string{"kty", "crv", "x", "y", "kid", "use", "alg"},
			slices.Collect(maps.Keys(keys.Keys[0])))
		public := set.Key(kidOf(t, in))
		require.Len(t, public, 1)
		require.IsType(t, &ecdsa.PublicKey{}, public[0].Key)
		parsed, err := jwt.ParseSigned(in.Token.Reveal(), []jose.SignatureAlgorithm{jose.ES256})
		require.NoError(t, err)
		var c accesstokens.Claims
		require.NoError(t, parsed.Claims(public[0].Key, &c))
		require.Equal(t, in.Session.ID, c.Session)
	})
}

// A process that begins needs one connection for its keys, in the one time that a start has: a second reading would
// have its own short limit, which opening a connection to a busy server may exceed.
func TestEnsureKeyReadsOnce(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		fails := errors.New("read")
		node := f.Another(t)
		node.AccessTokens.FailReads(fails)
		f.Clock.Advance(accesstokens.SigningKeyCache)
		_, err := node.Principals.Bearer(t.Context(), in.Token.Reveal())
		require.ErrorIs(t, err, fails)
		require.NoError(t, node.AccessTokens.EnsureKey(t.Context()))
		node.Bearer(t, in.Token)
	})
}

// Those who verify our tokens still get the keys while the store fails; we ourselves accept nothing by keys that may
// have been revoked.
func TestJWKSOutlivesTheStore(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		before := published(t, f)
		f.Clock.Advance(accesstokens.SigningKeyCache)
		f.Exec(t, "ALTER TABLE signing_keys RENAME TO mislaid")
		require.Equal(t, before, published(t, f))
		_, err := f.Principals.Bearer(t.Context(), in.Token.Reveal())
		require.Error(t, err)
		f.Exec(t, "ALTER TABLE mislaid RENAME TO signing_keys")
		f.Bearer(t, in.Token)
	})
}

// A request that has timed out does not wait for a reading of the keys that hangs, and one that can use the last
// reading starts no other.
func TestSigningKeysNeverBlock(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		release := make(chan struct{})
		hanging := f.AccessTokens.HangRead(t.Context(), release)
		f.Bearer(t, in.Token)
		f.Clock.Advance(accesstokens.SigningKeyCache)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := f.Principals.Bearer(ctx, in.Token.Reveal())
		require.ErrorIs(t, err, context.Canceled)
		close(release)
		require.NoError(t, <-hanging)
		f.Bearer(t, in.Token)
	})
}
