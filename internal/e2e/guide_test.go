package e2e_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// step is one fenced block of a guide.
type step struct {
	language, file, text string
	line                 int
}

// steps returns the fenced blocks of a guide at its left margin.
func steps(t *testing.T, path string) []step {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []step
	var open *step
	for i, line := range strings.SplitAfter(string(text), "\n") {
		switch info, fence := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "```"); {
		case fence && open != nil:
			out, open = append(out, *open), nil
		case fence:
			open = &step{line: i + 1}
			var file string
			open.language, file, _ = strings.Cut(info, " ")
			open.file = strings.TrimPrefix(file, "file=")
		case open != nil:
			open.text += line
		}
	}
	require.Nil(t, open, "%s ends inside a block", path)
	return out
}

// missing returns the first line of want that output does not have in this order; a line may be a part of one.
func missing(output, want string) string {
	for line := range strings.Lines(want) {
		line = strings.TrimSuffix(line, "\n")
		at := strings.Index(output, line)
		if at < 0 {
			return line
		}
		output = output[at+len(line):]
	}
	return ""
}

// Promise: the guide "add a provider", pasted from top to bottom into a shell, does what it says: each file is written as it stands,
// each command runs, and prints the lines that the guide shows, in their order.
func TestGuideAddAProvider(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: this test starts whole processes")
	}
	if os.Getenv(raceVariable) != "" {
		t.Skipf("%s is set: the race detector sees nothing of the processes that this test starts", raceVariable)
	}
	for _, tool := range []string{"bash", "curl", "openssl"} {
		_, err := exec.LookPath(tool)
		if err != nil && os.Getenv(testkit.RequireEngines) == "" {
			t.Skipf("%s is not installed", tool)
		}
		require.NoError(t, err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "sallyport"), "sallyport/cmd/sallyport")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	built, err := build.CombinedOutput()
	require.NoError(t, err, "%s", built)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())

	// One script, so that what a block sets is there for the next; a mark stands behind the output of each.
	const mark = "--- end of a block ---"
	var script strings.Builder
	script.WriteString("set -euo pipefail\ntrap 'kill ${SERVER:-} 2>/dev/null || true' EXIT\n")
	all := steps(t, filepath.Join("..", "..", "docs", "guides", "add-a-provider.md"))
	ran, checked := 0, 0
	for _, s := range all {
		switch {
		case s.file != "":
			path := filepath.Join(dir, s.file)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(s.text), 0o600))
		case s.language == "sh":
			script.WriteString(strings.ReplaceAll(s.text, "127.0.0.1:8080", address) + "\n")
			script.WriteString("echo '" + mark + "'\n")
			ran++
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := exec.CommandContext(ctx, "bash")
	var output bytes.Buffer
	// The server of the guide is of the shell's group, and ends with it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, strings.NewReader(script.String()), &output, &output
	c.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "SALLYPORT_LISTEN=" + address, "SALLYPORT_LOG_FORMAT=json"}
	if err := c.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "server.log")) // may not be there
		require.NoError(t, err, "%s\n%s", output.String(), log)
	}
	outputs := strings.Split(output.String(), mark)
	require.Len(t, outputs, ran+1)

	block := -1
	for _, s := range all {
		switch s.language {
		case "sh":
			block++
		case "text":
			require.GreaterOrEqual(t, block, 0)
			require.Empty(t, missing(outputs[block], s.text), "line %d of the guide promises other output than\n%s", s.line, outputs[block])
			checked++
		}
	}
	require.Positive(t, checked)
}
