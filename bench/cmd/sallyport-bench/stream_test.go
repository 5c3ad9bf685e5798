package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The command for readers of the stream measures both of its phases, prints them, and holds them to the design's
// figures.
func TestStreamRun(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	var text, progress bytes.Buffer
	status := run(t.Context(), []string{"stream",
		"--binary", os.Args[0], "--out", out, "--data-root", t.TempDir(), "--connections", "4", "--warmup", "0s",
		"--duration", "5m", "--max-events", "200", "--rate", "10000", "--drain-timeout", "200ms", "--readers", "3",
		"--ingest-readers", "2",
	}, strings.NewReader(""), &text, &progress)
	require.Equal(t, exitOK, status, progress.String())
	require.Contains(t, text.String(), "Readers of the stream, open loop")
	require.Contains(t, text.String(), "with readers of the stream and without")
	require.NotContains(t, text.String(), "Received and delivered")
	r := result(t, out)
	require.Nil(t, r.Yardstick)
	e := r.Engines[0]
	require.Empty(t, e.Problem)
	require.Equal(t, 3, e.Streaming.Readers)
	require.Equal(t, events, e.Streaming.Acknowledged)
	require.Zero(t, e.Streaming.Missing+e.Streaming.Duplicates)
	require.Equal(t, 2, e.Contended.Readers)
	require.Len(t, e.Checks, 6)
}

// Flags beyond their limits are refused before anything is started.
func TestStreamFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--readers", "0"}, {"--ingest-readers", "10001"}, {"--rate", "0"},
		{"--duration", "0s"}} {
		var text, progress bytes.Buffer
		status := run(t.Context(), append([]string{"stream", "--binary", os.Args[0]}, args...), strings.NewReader(""), &text,
			&progress)
		require.Equal(t, exitFailed, status)
		require.Contains(t, progress.String(), args[0])
	}
}
