package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sallyport/internal/platform/testkit/await"
)

// pseudoTerminal opens a pair of a terminal and what a person has before it.
func pseudoTerminal(t *testing.T) (person, tty *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	fd := int(person.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	return person, tty
}

func echoes(tty *os.File) bool {
	state, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	return err == nil && state.Lflag&unix.ECHO != 0
}

// typist types a response to each prompt, once it is there and the terminal is silent.
type typist struct {
	t       *testing.T
	person  *os.File
	prompts bytes.Buffer
	answers []string
}

func (w *typist) Write(b []byte) (int, error) {
	if len(b) > 1 && len(w.answers) > 0 {
		_, err := io.WriteString(w.person, w.answers[0])
		require.NoError(w.t, err)
		w.answers = w.answers[1:]
	}
	return w.prompts.Write(b)
}

// At a terminal a password is asked for twice, so that a slip is noticed, and the terminal has its echo back
// afterwards.
func TestPasswordAtTerminal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []string
		want    string
	}{
		"equal":  {[]string{ownerPassword + "\n", ownerPassword + "\n"}, ownerPassword},
		"differ": {[]string{ownerPassword + "\n", "something else\n"}, ""},
	} {
		person, tty := pseudoTerminal(t)
		w := &typist{t: t, person: person, answers: c.answers}
		e := &env{process: process{stdin: tty, stderr: w}}
		got, err := e.readPassword(t.Context())
		require.Equal(t, c.want != "", err == nil, name)
		require.Equal(t, c.want, got.Reveal(), name)
		require.Equal(t, "Password: \nPassword again: \n", w.prompts.String(), name)
		require.True(t, echoes(tty), name)
	}
}

// An interrupt ends the wait for a password and leaves a terminal that echoes.
func TestPasswordInterrupted(t *testing.T) {
	t.Parallel()
	_, tty := pseudoTerminal(t)
	bound, stop := context.WithTimeout(t.Context(), await.Limit)
	defer stop()
	ctx, interrupt := context.WithCancel(bound)
	go func() {
		defer interrupt()
		for bound.Err() == nil && echoes(tty) {
			runtime.Gosched()
		}
	}()
	e := &env{process: process{stdin: tty, stderr: io.Discard}}
	_, err := e.readPassword(ctx)
	require.ErrorContains(t, err, "interrupted")
	require.NoError(t, bound.Err())
	require.True(t, echoes(tty))
}
