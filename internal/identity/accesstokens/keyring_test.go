package accesstokens

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Keys sign in the order of their times, regardless of the order in which they were read, and a node whose clock is
// behind them all still signs.
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
