package actions_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
)

// The beginning of a description is on one line, ends with a word, and is short.
func TestShorten(t *testing.T) {
	t.Parallel()
	require.Empty(t, actions.Shorten(" \n "))
	require.Equal(t, "One line of two.", actions.Shorten("One line\n\tof  two."))
	long := actions.Shorten(strings.Repeat("word ", 100))
	require.LessOrEqual(t, len(long), 160)
	require.True(t, strings.HasSuffix(long, "word…"), long)
	require.Empty(t, actions.Shorten(strings.Repeat("x", 200)))
}

// Patterns choose actions by their whole names.
func TestMatchName(t *testing.T) {
	t.Parallel()
	for pattern, names := range map[string][]string{"get_a": {"get_a"}, "get_*": {"get_", "get_a_b"}, "*": {"", "x"},
		"*_a": {"_a", "get_a"}, "g*t_*_b": {"get_x_b", "gt__b"}} {
		for _, name := range names {
			require.True(t, actions.MatchName(pattern, name), "%s %s", pattern, name)
		}
	}
	for pattern, name := range map[string]string{"get_a": "get_ab", "get_*": "xget_a", "*_a": "_ab", "a*a": "a", "": "a"} {
		require.False(t, actions.MatchName(pattern, name), "%s %s", pattern, name)
	}
}
