package httpapi

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A client gets gzip only if it accepts it (RFC 9110 section 12.5.3).
func TestAcceptsGzip(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"": false, "identity": false, "br": false, "gzip": true, "GZIP": true, "x-gzip": true, "br, gzip": true,
		"gzip;q=0": false, "gzip; q=0.000": false, "gzip;Q=0.1": true, "*": true, "*;q=0": false, "*, gzip;q=0": false,
		"gzip;q=0, *": false, "br;q=1, gzip;q=0.5": true, "gzip;q=x": false, "gzipped": false, "gzip;q=-1": false,
		", ,gzip": true,
	} {
		require.Equal(t, want, acceptsGzip([]string{value}), value)
	}
	require.True(t, acceptsGzip([]string{"br", "gzip"}))
	require.False(t, acceptsGzip(nil))
}

// Accept-Encoding and If-None-Match take anything that a client sends, and encodings in front of gzip do not change the
// result.
func TestNegotiationOfAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		anything := rapid.SliceOfN(rapid.StringMatching(`[a-z*",;=/.0-9 W]{0,30}`), 0, 3).Draw(t, "values")
		acceptsGzip(anything)
		if hasTag(anything, `"tag"`) {
			require.True(t, strings.Contains(strings.Join(anything, ","), "*") ||
				strings.Contains(strings.Join(anything, ","), `"tag"`))
		}
		q := rapid.IntRange(0, 1000).Draw(t, "thousandths")
		value := "br;q=0.3, gzip;q=" + strconv.FormatFloat(float64(q)/1000, 'f', 3, 64)
		require.Equal(t, q > 0, acceptsGzip([]string{value}), value)
	})
}

// A tag is found in a list, weak or strong, and by the asterisk (RFC 9110 section 13.1.2).
func TestHasTag(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"": false, `"tag"`: true, `W/"tag"`: true, `"a", "tag"`: true, `"a",W/"tag"`: true, "*": true, `"tag`: false,
		"tag": false, `"tag-gzip"`: false,
	} {
		require.Equal(t, want, hasTag([]string{value}, `"tag"`), value)
	}
	require.True(t, hasTag([]string{`"a"`, `"tag"`}, `"tag"`))
}
