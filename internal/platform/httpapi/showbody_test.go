package httpapi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A body that was cut inside a character stays text without that part. Other content comes back byte for byte.
func TestShowBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body      string
		truncated bool
		text      string
		encoding  BodyEncoding
	}{
		{"", false, "", "text"}, {"aü", false, "aü", "text"}, {"aü", true, "aü", "text"}, {"a\xc3", true, "a", "text"},
		{"a\xf0\x9f\x98", true, "a", "text"}, {"a\xc3", false, "YcM=", "base64"}, {"\xff", true, "/w==", "base64"},
	} {
		text, encoding := ShowBody([]byte(c.body), c.truncated)
		require.Equal(t, c.text, text, "%q", c.body)
		require.Equal(t, c.encoding, encoding, "%q", c.body)
	}
}
