package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The conditions are listed with their names, and nothing is measured.
func TestCompareList(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	status := run(t.Context(), []string{"compare", "--binary", os.Args[0], "--list", "--rows", "changes,grown"},
		strings.NewReader(""), &out, &progress)
	require.Equal(t, exitOK, status, progress.String())
	require.Regexp(t, `(?s)^changes .*grown `, out.String())
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
}

// Flags of the comparisons that are wrong are refused before anything is started.
func TestCompareFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"compare", "--rows", "nothing"}, {"compare", "--pairs", "0"}, {"compare", "--events", "0"},
		{"compare", "--waiting", "20000001"}, {"compare", "--rate", "0"}, {"compare", "--engines", "other"},
		{"compare", "--actions", "0"}, {"nodes", "--nodes", "9"}, {"nodes", "--nodes", "0"},
		{"nodes", "--receive", "2", "--nodes", "1"},
		{"nodes", "--connections", "0"},
	} {
		var out, progress bytes.Buffer
		status := run(t.Context(), append(args, "--binary", os.Args[0]), strings.NewReader(""), &out, &progress)
		require.Equal(t, exitFailed, status, args)
		require.Contains(t, progress.String(), args[1], "the flag is named")
		require.Empty(t, out.String())
	}
}
