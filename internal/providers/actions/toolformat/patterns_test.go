package toolformat

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A definition has only regular expressions that RE2 and ECMAScript in Unicode mode read: one that a client cannot
// compile makes it refuse the tool.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{`^[a-z0-9_-]+$`, `^(?:a|b){1,3}$`, `\d{4}-\d{2}`, `[^/]+\/x`, `^[\w\-.]+$`, `[\d-]`,
		`[-a]`, `a{2,}`, `^\[a\]$`, `é+`, `[\]a]`, `\bx\B`} {
		require.True(t, simple(pattern), pattern)
	}
	for _, pattern := range []string{``, `(`, `(?i)a`, `(?P<n>a)`, `(?=a)`, `\-`, `^[\w-.+]+$`, `[a-\d]`, `\p{L}`, `\Aa\z`,
		`[[:alpha:]]`, `a{`, `a{,3}`, `}`, `]`, `[]a]`, `\a`, `\Qa\E`, `[a-c-e]`, `\_`, `[[a]`} {
		require.False(t, simple(pattern), pattern)
	}
}
