package main

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// At a terminal only y or yes confirms. An interrupt is no consent.
func TestConfirmAtATerminal(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]error{"y\n": nil, "YES\n": nil, "\n": errNotConfirmed, "yess\n": errNotConfirmed,
		"n\n": errNotConfirmed} {
		person, tty := pseudoTerminal(t)
		w := &typist{t: t, person: person, answers: []string{reply}}
		e := &env{process: process{stdin: tty, stderr: w}}
		require.Equal(t, want, e.confirm(t.Context(), "All would go.", "Remove it?", "--yes"), "%q", reply)
		require.Equal(t, "All would go.\nRemove it? [y/N] ", w.prompts.String())
	}
	_, tty := pseudoTerminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	e := &env{process: process{stdin: tty, stderr: io.Discard}}
	require.ErrorIs(t, e.confirm(ctx, "All would go.", "Remove it?", "--yes"), context.Canceled)
}

// Progress is one line of a terminal, which is removed at the end.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	person, tty := pseudoTerminal(t)
	e := &env{process: process{stderr: tty}}
	line := e.progressLine()
	line.set("Reading")
	line.end()
	want := eraseLine + "Reading…" + eraseLine
	got := make([]byte, len(want))
	_, err := io.ReadFull(person, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}
