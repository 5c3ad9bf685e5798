package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
)

// The demo needs no configuration, an invalid one does not disturb it, and its exit code is that of the story.
func TestDemo(t *testing.T) {
	t.Parallel()
	try := func(args ...string) result {
		return call(command{ctx: t.Context(), clock: clock.System(), args: append([]string{"demo"}, args...)},
			[]string{"SALLYPORT_LISTEN=nowhere"})
	}
	r := try()
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, 13, strings.Count(r.out, "\n"))
	require.Empty(t, r.stderr)
	r = try("--timeout", "1ns")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "sallyport: the demo did not go as it should")
	require.Equal(t, exitUsage, try("--timeout", "0s").code)
}
