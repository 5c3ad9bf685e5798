package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// installation is the real binary with a data folder and the settings that its server and its other commands share.
type installation struct {
	t       *testing.T
	binary  string
	environ []string
	// base is the server's URL; empty before serve.
	base string
	// output gets each line that the server writes; nil for none.
	output io.Writer
	// process is the server's; nil before serve.
	process *os.Process
}

// newInstallation makes keyset, database and owner, as the first steps of an operator do.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	testkit.NeedProcesses(t)
	dir := t.TempDir()
	in := &installation{t: t, binary: testkit.Binary(t), environ: []string{"SALLYPORT_DATA=" +
		filepath.Join(dir, "data"), "SALLYPORT_LISTEN=127.0.0.1:0", "SALLYPORT_EGRESS_ALLOW=127.0.0.0/8",
		"SALLYPORT_EGRESS_ALLOW_HTTP=true", "SALLYPORT_LOG_FORMAT=json"}}
	in.command("", "keyset", "create")
	in.command("", "migrate")
	in.command(ownerPassword+"\n", "admin", "create", "--email", ownerEmail)
	return in
}

const (
	ownerEmail    = "ada@example.test"
	ownerPassword = "correct horse battery"
)

// command runs a command of the binary, which must succeed, and returns its standard output.
func (in *installation) command(stdin string, args ...string) string {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(in.t.Context(), await.Limit)
	defer cancel()
	c := exec.CommandContext(ctx, in.binary, args...)
	var out, log bytes.Buffer
	c.Env, c.Stdin, c.Stdout, c.Stderr = in.environ, strings.NewReader(stdin), &out, &log
	require.NoError(in.t, c.Run(), "%v\n%s%s", args, out.String(), log.String())
	return out.String()
}

// serve starts the server and returns what ends it, which must be in good order. It ends with the test at the latest.
func (in *installation) serve() (stop func()) {
	in.t.Helper()
	process, end := in.run()
	return func() {
		in.t.Helper()
		require.NoError(in.t, process.Signal(syscall.SIGTERM))
		require.NoError(in.t, end())
	}
}

// run starts the server and returns its process, and what waits for its end.
func (in *installation) run() (process *os.Process, end func() error) {
	in.t.Helper()
	c := exec.CommandContext(in.t.Context(), in.binary, "serve")
	c.Env, c.WaitDelay = in.environ, time.Second
	reader, writer := io.Pipe()
	c.Stderr = writer
	require.NoError(in.t, c.Start())
	in.process = c.Process
	var log logBuffer
	address := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			var entry struct{ Level, Msg, Listen string }
			if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "serving" {
				address <- entry.Listen
			}
			if in.output != nil {
				_, _ = in.output.Write(append(lines.Bytes(), '\n')) // memory
			}
			if entry.Level != "INFO" {
				_, _ = log.Write(append(lines.Bytes(), '\n')) // memory
			}
		}
	})
	exited := make(chan error, 1)
	go func() {
		err := c.Wait()
		_ = writer.Close() // never fails
		reading.Wait()
		exited <- err
	}()
	end = sync.OnceValue(func() error { return await.Value(in.t, "the end of the server", exited, log.tail) })
	in.t.Cleanup(func() {
		if in.t.Failed() {
			in.t.Log("the server's log, without what is routine:\n" + log.tail())
		}
	})
	in.t.Cleanup(func() { _ = end() }) // the test's context has ended, and with it the process
	select {
	case at := <-address:
		in.base = "http://" + at
	case err := <-exited:
		exited <- err
		require.Fail(in.t, "the server ended while starting", "%v\n%s", err, log.tail())
	case <-time.After(await.Limit):
		require.Fail(in.t, "the server did not start", log.tail())
	}
	return c.Process, end
}

// ask makes a request to the server's API and returns status and body.
func (in *installation) ask(c credentials, method, path string, body object) (int, []byte) {
	in.t.Helper()
	content := io.Reader(http.NoBody)
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(in.t, err)
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(in.t.Context(), method, in.base+prefix+path, content)
	require.NoError(in.t, err)
	r.Header.Set("Content-Type", "application/json")
	c(r.Header)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(in.t, err)
	responseBody, err := io.ReadAll(resp.Body)
	require.NoError(in.t, err)
	require.NoError(in.t, resp.Body.Close())
	return resp.StatusCode, responseBody
}

// arrivals is a receiver that takes everything and remembers which messages came.
type arrivals struct {
	url string
	mu  sync.Mutex
	ids map[string]bool
}

func newArrivals(t *testing.T) *arrivals {
	t.Helper()
	a := &arrivals{ids: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what broke off is sent again
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ids[r.Header.Get("Webhook-Id")] = true
	}))
	await.Close(t, server)
	a.url = server.URL
	return a
}

// missing returns how many of the messages have not come.
func (a *arrivals) missing(ids []string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, id := range ids {
		if !a.ids[id] {
			n++
		}
	}
	return n
}
