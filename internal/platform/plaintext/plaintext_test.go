package plaintext_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/plaintext"
)

// A name of any language is accepted, and none that shows as another.
func TestIsControl(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Müller & Söhne", "日本", "עברית (1)", "العربية", "👩\u200d💻 team", "क्\u200dष"} {
		require.False(t, strings.ContainsFunc(name, plaintext.IsControl), "%q", name)
	}
	for _, r := range "\x00\n\t\x7f\u0085\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069" {
		require.True(t, plaintext.IsControl(r), "%q", r)
	}
}
