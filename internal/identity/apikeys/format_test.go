package apikeys

import (
	"strings"
	"testing"

	"sallyport/internal/identity/team"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A key reads back as it was written, and its parts are where the documentation says.
func TestKeyRoundTrip(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, mode := range team.EnvironmentTypes() {
		for range 200 {
			k := newKeyText(mode)
			require.Regexp(t, `^spk_`+mode+`_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`, k.String())
			got, ok := parseKey(k.String())
			require.True(t, ok)
			require.Equal(t, k, got)
			parts := strings.Split(k.String(), "_")
			require.Equal(t, parts[2], k.lookup())
			require.Equal(t, parts[3][39:], k.lastFour())
			require.Equal(t, strings.Join(parts[:3], "_"), k.prefix())
			require.Equal(t, k.prefix(), keyPrefix(mode, k.lookup()))
			require.False(t, seen[k.lookup()] || seen[parts[3]], "a part repeats")
			seen[k.lookup()], seen[parts[3]] = true, true
		}
	}
}

// The checksum is that of the documentation, so that a secret scanner can compute it: CRC-32 (IEEE), whose check value
// of "123456789" is 0xcbf43926, in base62.
func TestKeyChecksum(t *testing.T) {
	t.Parallel()
	require.Equal(t, "3Jzrme", checksum("123456789"))
	require.Equal(t, "000000", checksum(""))
}

// Any one character replaced, added or left out makes a key that is refused by its text alone.
func TestKeyTypos(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newKeyText(rapid.SampledFrom(team.EnvironmentTypes()).Draw(t, "mode")).String()
		i := rapid.IntRange(0, len(k)-1).Draw(t, "at")
		c := rapid.Byte().Draw(t, "character")
		if c != k[i] {
			_, ok := parseKey(k[:i] + string(rune(c)) + k[i+1:])
			require.False(t, ok, "replaced")
			_, ok = parseKey(k[:i] + string([]byte{c}) + k[i+1:])
			require.False(t, ok, "replaced byte")
		}
		_, ok := parseKey(k[:i] + string([]byte{c}) + k[i:])
		require.False(t, ok, "added")
		_, ok = parseKey(k[:i] + k[i+1:])
		require.False(t, ok, "left out")
	})
}

// Only the exact text of a key parses: no other spelling of it is accepted.
func FuzzParseKey(f *testing.F) {
	f.Add(newKeyText(team.Live).String())
	f.Add(newKeyText(team.Test).String())
	f.Add("")
	f.Add("spk_live_")
	f.Add(strings.Repeat("_", keyLength))
	f.Add(" " + newKeyText(team.Test).String())
	f.Add(keyText{body: keyScheme + "prod" + "_" + strings.Repeat("0", lookupLength) + "_" +
		strings.Repeat("0", secretLength)}.String())
	f.Fuzz(func(t *testing.T, s string) {
		k, ok := parseKey(s)
		if !ok {
			return
		}
		require.Equal(t, s, k.String())
		require.Len(t, k.lookup(), lookupLength)
		require.Len(t, k.lastFour(), lastFourLength)
	})
}
