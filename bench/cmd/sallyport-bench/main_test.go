package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/report"
	"sallyport/bench/internal/toygateway"
	"sallyport/internal/platform/testkit/await"
)

// The test binary plays the gateway, and the yardstick that the bench starts itself as.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "serve":
		if err := toygateway.Serve(context.Background(), os.Stdout, os.Args[2:], os.Environ()); err != nil {
			os.Exit(1)
		}
	case len(os.Args) > 1 && os.Args[1] == "yardstick":
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	default:
		await.InParallel()
		os.Exit(m.Run())
	}
}

const events = 200

// measure runs the whole bench against the toy; every load ends by count.
func measure(t *testing.T, args ...string) (status int, stdout, stderr, out string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "out")
	args = append([]string{
		"--binary", os.Args[0], "--out", out, "--data-root", t.TempDir(), "--connections", "4", "--warmup", "0s",
		"--max-events", "200", "--rate", "10000", "--drain-timeout", "200ms",
	}, args...)
	var text, progress bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(""), &text, &progress)
	return status, text.String(), progress.String(), out
}

func result(t *testing.T, out string) report.Report {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "result.json"))
	require.NoError(t, err)
	var r report.Report
	require.NoError(t, json.Unmarshal(text, &r))
	return r
}

// A run measures the yardstick and the engine in all phases, leaves report, log and profiles behind, and removes its
// data.
func TestRun(t *testing.T) {
	t.Parallel()
	status, stdout, stderr, out := measure(t, "--cpuprofile-seconds", "1")
	require.Equal(t, exitOK, status, stderr)
	r := result(t, out)
	require.Contains(t, stdout, r.Command)
	require.Contains(t, r.Command, "--max-events 200")
	require.NotNil(t, r.Yardstick)
	require.Equal(t, events, r.Yardstick.Events)
	require.Positive(t, r.YardstickPeakBytes)
	require.Len(t, r.Engines, 1)
	e := r.Engines[0]
	require.Equal(t, "sqlite", e.Name)
	require.Empty(t, e.Problem)
	require.Equal(t, []int{events, events, events}, []int{e.Ingest.Events, e.Delivery.Delivered, e.Latency.Delivered})
	require.Zero(t, e.Delivery.Arrival.Missing+e.Latency.Arrival.Missing)
	require.Positive(t, e.PeakBytes)
	require.NotEmpty(t, r.Environment.Machine.Kernel)
	require.Len(t, r.Environment.BinarySHA256, 64)
	for _, name := range []string{
		"sqlite.log", "sqlite-ingest-cpu.pprof", "sqlite-ingest-heap.pprof", "sqlite-delivery-cpu.pprof",
		"sqlite-delivery-heap.pprof",
	} {
		require.FileExists(t, filepath.Join(out, name))
	}
	log, err := os.ReadFile(filepath.Join(out, "sqlite.log"))
	require.NoError(t, err)
	_, data, _ := strings.Cut(string(log), "--data ")
	data, _, _ = strings.Cut(data, " ")
	require.NotEmpty(t, data)
	require.NoDirExists(t, data)
}

// With --json, standard output is one JSON document and nothing else.
func TestRunPrintsJSON(t *testing.T) {
	t.Parallel()
	status, stdout, stderr, out := measure(t, "--json")
	require.Equal(t, exitOK, status, stderr)
	var r report.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Equal(t, result(t, out), r)
}

// A gateway that loses events misses its targets: reported either way, and an exit status with --check only.
func TestCheckDecidesTheStatus(t *testing.T) {
	t.Parallel()
	losing := []string{"--server-arg=--drop-every", "--server-arg=2"}
	status, stdout, stderr, out := measure(t, losing...)
	require.Equal(t, exitOK, status, stderr)
	require.Regexp(t, `acknowledged, never delivered +200 +0 +events +NO`, stdout)
	require.Equal(t, events/2, result(t, out).Engines[0].Delivery.Arrival.Missing)
	status, _, stderr, _ = measure(t, append(losing, "--check")...)
	require.Equal(t, exitMissed, status, stderr)
}

// A part that could not run is named, and the status distinguishes it from a missed target; the other parts are still
// reported.
func TestRunWithAServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	status, stdout, stderr, out := measure(t, "--server-arg=--fail")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, errIncomplete.Error())
	require.Contains(t, stdout, "sqlite: gateway ended before it was ready")
	require.Equal(t, events, result(t, out).Yardstick.Events)
}

// Nothing is started on a command line that makes no sense, and help is no failure.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args   []string
		status int
		text   string
	}{
		"help":             {[]string{"--help"}, exitOK, "Usage: sallyport-bench"},
		"no binary":        {nil, exitFailed, "--binary"},
		"binary not there": {[]string{"--binary", "/does/not/exist"}, exitFailed, "/does/not/exist"},
		"connections":      {[]string{"--binary", os.Args[0], "--connections", "0"}, exitFailed, "--connections is from 1"},
		"long profile": {[]string{"--binary", os.Args[0], "--cpuprofile-seconds", "11"}, exitFailed,
			"--cpuprofile-seconds"},
		"provider": {[]string{"--binary", os.Args[0], "--provider", "none"}, exitFailed, "github"},
		"unbounded": {[]string{"--binary", os.Args[0], "--duration", "11m", "--max-events", "10000001"}, exitFailed,
			"--max-events"},
		"database form": {[]string{"--binary", os.Args[0], "--postgres-url", "host=x password=hidden"}, exitFailed,
			"postgres:// URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, tc.status, run(t.Context(), tc.args, strings.NewReader(""), &stdout, &stderr))
			all := stdout.String() + stderr.String()
			require.Contains(t, all, tc.text)
			require.NotContains(t, all, "hidden")
		})
	}
}

// The printed command line can be pasted into a shell, and holds no password.
func TestCommandText(t *testing.T) {
	t.Parallel()
	require.Equal(t,
		`sallyport-bench --binary ./sallyport --postgres-url=postgres://u:xxxxx@localhost/x postgres://u:xxxxx@localhost/x `+
			`'postgres:///x?host=%2Frun&password=xxxxx' 'it'\''s' ''`,
		commandText([]string{
			"--binary", "./sallyport", "--postgres-url=postgres://u:pw@localhost/x", "postgres://u:pw@localhost/x",
			"postgres:///x?host=/run&password=pw", "it's", "",
		}))
}
