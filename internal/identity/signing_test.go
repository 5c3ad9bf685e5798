package identity

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
)

func kidOf(t *testing.T, in SignIn) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(in.Token.Reveal(), []jose.SignatureAlgorithm{jose.ES256})
	require.NoError(t, err)
	return parsed.Headers[0].KeyID
}

func (f fixture) published(t *testing.T) []string {
	t.Helper()
	set, err := f.JWKS(t.Context())
	require.NoError(t, err)
	var ids []string
	for _, k := range set.Keys {
		ids = append(ids, k.KeyID)
	}
	return ids
}

// A new key is published before it signs, for as long as verifiers may keep the old set, so that no node and nobody
// else meets a token whose key they do not know. The old key verifies until its last token has expired, and goes with
// the next rotation.
func TestRotateSigningKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		node := f.another(t)
		require.NoError(t, node.Init(t.Context(), false))
		accepted := func(in SignIn) {
			t.Helper()
			_, err := node.Bearer(t.Context(), in.Token.Reveal())
			require.NoError(t, err)
			f.bearer(t, in.Token)
		}
		in := f.signedIn(t)
		first := kidOf(t, in)
		cli := access.System("cli")
		next, err := f.RotateSigningKey(t.Context(), cli, false)
		require.NoError(t, err)
		require.Equal(t, f.clk.Now().Add(2*JWKSMaxAge), next.From)
		_, err = f.RotateSigningKey(t.Context(), cli, false)
		require.ErrorIs(t, err, ErrRotating)

		f.clk.Advance(signingKeyCache)
		require.Equal(t, []string{first, next.ID}, f.published(t))
		f.clk.Advance(signingKeyLead - signingKeyCache - time.Millisecond)
		last := f.refresh(t, in.Refresh)
		require.Equal(t, first, kidOf(t, last))
		f.clk.Advance(time.Millisecond)
		rotated := f.refresh(t, last.Refresh)
		require.Equal(t, next.ID, kidOf(t, rotated))
		accepted(last)
		accepted(rotated)
		f.clk.Advance(TokenLifetime - 2*time.Second)
		accepted(last)
		accepted(rotated)
		f.clk.Advance(2*time.Second + time.Minute)
		require.Equal(t, []string{next.ID}, f.published(t))
		require.Equal(t, 2, f.count(t, "signing_keys"))
		third, err := f.RotateSigningKey(t.Context(), cli, false)
		require.NoError(t, err)
		require.Equal(t, 2, f.count(t, "signing_keys"))
		f.clk.Advance(signingKeyCache)
		require.Equal(t, []string{next.ID, third.ID}, f.published(t))

		restarted := f.another(t)
		require.NoError(t, restarted.Init(t.Context(), false))
		fresh := f.refresh(t, rotated.Refresh)
		_, err = restarted.Bearer(t.Context(), fresh.Token.Reveal())
		require.NoError(t, err)
		require.Equal(t, 2, strings.Count(strings.Join(f.actions(t), " "), "signing_key.rotate"))
	})
}

// A key that has leaked is no key any more, on any node, once they have looked again: what it signs is refused, what it
// has signed is refused, and people stay signed in by their refresh tokens.
func TestRotateCompromisedSigningKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		node := f.another(t)
		require.NoError(t, node.Init(t.Context(), false))
		in := f.signedIn(t)
		_, err := f.RotateSigningKey(t.Context(), access.System("cli"), false)
		require.NoError(t, err)
		next, err := f.RotateSigningKey(t.Context(), access.System("cli"), true)
		require.NoError(t, err, "a key that waits for its turn is in nobody's way")
		require.Equal(t, f.clk.Now(), next.From)
		require.Equal(t, 1, f.count(t, "signing_keys"))
		f.clk.Advance(signingKeyCache)
		f.refused(t, in.Token)
		_, err = node.Bearer(t.Context(), in.Token.Reveal())
		require.Error(t, err)
		again := f.refresh(t, in.Refresh)
		require.Equal(t, next.ID, kidOf(t, again))
		_, err = node.Bearer(t.Context(), again.Token.Reveal())
		require.NoError(t, err)
	})
}

// What is published verifies our tokens and holds nothing that signs.
func TestJWKSIsPublic(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		in := f.signedIn(t)
		set, err := f.JWKS(t.Context())
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
		var c claims
		require.NoError(t, parsed.Claims(public[0].Key, &c))
		require.Equal(t, in.Session.ID, c.Session)
	})
}

// Those who verify our tokens still get the keys while the store fails; we ourselves accept nothing by keys that may
// have been revoked.
func TestJWKSOutlivesTheStore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		in := f.signedIn(t)
		before := f.published(t)
		f.clk.Advance(signingKeyCache)
		f.exec(t, "ALTER TABLE signing_keys RENAME TO mislaid")
		require.Equal(t, before, f.published(t))
		_, err := f.Bearer(t.Context(), in.Token.Reveal())
		require.Error(t, err)
		f.exec(t, "ALTER TABLE mislaid RENAME TO signing_keys")
		f.bearer(t, in.Token)
	})
}

// A request whose time is over does not wait for a reading of the keys that hangs, and one that can go by what was read
// needs no reading.
func TestSigningKeysHoldNobodyUp(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		in := f.signedIn(t)
		begun, release := make(chan struct{}), make(chan struct{})
		hanging := f.signing.loads.DoChan("", func() (any, error) {
			close(begun)
			<-release
			return f.readTokens(t.Context())
		})
		<-begun
		f.bearer(t, in.Token)
		f.clk.Advance(signingKeyCache)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := f.Bearer(ctx, in.Token.Reveal())
		require.ErrorIs(t, err, context.Canceled)
		close(release)
		require.NoError(t, (<-hanging).Err)
		f.bearer(t, in.Token)
	})
}

// Keys sign in the order of their times, whatever the order they were read in, and a node whose clock is behind them
// all still signs.
func TestKeyringOrder(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)
	var keys []signingKey
	for _, from := range []time.Duration{time.Hour, 0, -time.Hour} {
		k, err := newSigningKey(now.Add(from))
		require.NoError(t, err)
		keys = append(keys, k)
	}
	ring := newKeyring(keys)
	require.Equal(t, keys[1].id, ring.signer(now).id)
	require.Equal(t, keys[2].id, ring.signer(now.Add(-time.Millisecond)).id)
	require.Equal(t, keys[2].id, ring.signer(now.Add(-2*time.Hour)).id)
	require.Equal(t, keys[0].id, ring.signer(now.Add(2*time.Hour)).id)
	require.NotNil(t, ring.verifier(now.Add(signingKeyTail-1), keys[2].id))
	require.Nil(t, ring.verifier(now.Add(signingKeyTail), keys[2].id))
	require.Equal(t, []string{keys[2].id}, ring.expired(now.Add(signingKeyTail)))
	require.Empty(t, newKeyring(keys[:1]).expired(now.Add(1000*time.Hour)), "the last key stays")
}
