package crash_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// server is one life of the process.
type server struct {
	cmd    *exec.Cmd
	base   string // http://host:port
	log    *serverLog
	exited chan struct{}
	err    error // of the process; set when exited is closed
}

// startServer starts the binary and returns when it is ready. It is killed at the latest when the test ends.
func startServer(t *testing.T, dir, databaseURL string, args ...string) *server {
	t.Helper()
	args = append([]string{"serve", "--dev", "--data", dir, "--listen", "127.0.0.1:0", "--log-format", "json",
		"--rate-limit-key-per-second", "0"}, args...)
	if databaseURL != "" {
		args = append(args, "--database-url", databaseURL)
	}
	cmd := exec.CommandContext(t.Context(), testkit.Binary(t), args...)
	cmd.Env = []string{} // without the variables of the test's environment
	return launch(t, cmd)
}

// launch starts the command of a server and returns when it is ready.
func launch(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{cmd: cmd, log: newServerLog(), exited: make(chan struct{})}
	s.cmd.Stderr = s.log
	s.cmd.WaitDelay = time.Second
	require.NoError(t, s.cmd.Start())
	go func() {
		s.err = s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(func() {
		// The test's context has ended, and with it the process.
		if !s.endsWithin(patience) {
			t.Errorf("process %d is still there %s after it was killed", s.cmd.Process.Pid, patience)
		}
		if t.Failed() {
			t.Logf("process %d said last:\n%s", s.cmd.Process.Pid, s.log.tail())
		}
	})
	select {
	case address := <-s.log.serving:
		s.base = "http://" + address
	case <-s.exited:
		require.Fail(t, "the server ended while starting", "%v", s.err)
	case <-time.After(patience):
		require.Fail(t, "the server did not start")
	}
	return s
}

// kill ends the process without a warning, as a power failure would.
func (s *server) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Kill())
	require.True(t, s.endsWithin(patience), "process %d is still there %s after it was killed", s.cmd.Process.Pid,
		patience)
	var exit *exec.ExitError
	require.ErrorAs(t, s.err, &exit, "the server ended by itself")
	require.False(t, exit.Exited(), "the server ended by itself: %v", s.err)
}

// terminate asks the process to end and requires that it does so in good order and in time.
func (s *server) terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	waitWithin(t, "the server ends on SIGTERM", shutdownTimeout, s.ended)
	require.NoError(t, s.err, "the server ends with code 0")
}

// endsWithin reports whether the process ends in that time.
func (s *server) endsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.exited:
		return true
	case <-timer.C:
		return false
	}
}

// ended reports whether the process has ended.
func (s *server) ended() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// status asks a path without credentials and returns the response's status; 0 when there is none.
func (s *server) status(t *testing.T, client *http.Client, path string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+path, http.NoBody)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// serverLog reads the process's log: it finds the address, and keeps the last lines that are not routine.
type serverLog struct {
	serving chan string

	mu    sync.Mutex
	rest  []byte
	lines []string
}

const keptLines = 30

func newServerLog() *serverLog { return &serverLog{serving: make(chan string, 1)} }

// Write implements io.Writer.
func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.line(line)
		l.rest = append([]byte(nil), rest...)
	}
}

func (l *serverLog) line(line []byte) {
	var entry struct {
		Level  string `json:"level"`
		Msg    string `json:"msg"`
		Listen string `json:"listen"`
	}
	err := json.Unmarshal(line, &entry)
	if err == nil && entry.Msg == "serving" {
		l.serving <- entry.Listen
	}
	if err == nil && (entry.Level == "INFO" || entry.Msg == "request") {
		return
	}
	l.lines = append(l.lines, string(line))
	if len(l.lines) > keptLines {
		l.lines = l.lines[1:]
	}
}

func (l *serverLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	for _, line := range l.lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}
