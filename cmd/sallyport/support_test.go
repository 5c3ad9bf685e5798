package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

const (
	ownerEmail    = "ada@example.test"
	ownerPassword = "correct horse battery"
)

// installation is a data folder, and on PostgreSQL a database, that commands and servers of a test work on.
type installation struct {
	url, dir string
}

// each runs fn per engine on an installation that has not been set up: on PostgreSQL the schema is there, on SQLite
// nothing.
func each(t *testing.T, fn func(t *testing.T, in installation)) {
	t.Helper()
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		t.Helper()
		fn(t, installation{url: databaseURL, dir: filepath.Join(dir, "data")})
	})
}

// result is the output and exit code of a command.
type result struct {
	code        int
	out, stderr string
}

// command is one call of the program; an unset field is as in a first start.
type command struct {
	ctx   context.Context //nolint:containedctx // stands in for the process's own
	clock clock.Clock
	stdin string
	args  []string
}

func (in installation) environ() []string {
	list := []string{"SALLYPORT_DATA=" + in.dir, "SALLYPORT_LISTEN=127.0.0.1:0"}
	if in.url != "" {
		list = append(list, "SALLYPORT_DATABASE_URL="+in.url)
	}
	return list
}

func (in installation) call(t *testing.T, c command) result {
	t.Helper()
	if c.ctx == nil {
		c.ctx = t.Context()
	}
	if c.clock == nil {
		c.clock = clock.System()
	}
	return call(c, in.environ())
}

func call(c command, environ []string) result {
	var out, stderr bytes.Buffer
	code := run(c.ctx, process{args: c.args, environ: environ, stdin: strings.NewReader(c.stdin), stdout: &out,
		stderr: &stderr, clock: c.clock})
	return result{code: code, out: out.String(), stderr: stderr.String()}
}

// run calls a command that may fail.
func (in installation) run(t *testing.T, args ...string) result {
	t.Helper()
	return in.call(t, command{args: args})
}

// do calls a command that must succeed and returns what it printed.
func (in installation) do(t *testing.T, args ...string) string {
	t.Helper()
	r := in.run(t, args...)
	require.Equal(t, exitOK, r.code, "%v: %s%s", args, r.out, r.stderr)
	return r.out
}

// setUp makes the keyset, the schema and the owner.
func (in installation) setUp(t *testing.T) {
	t.Helper()
	in.do(t, "keyset", "create")
	in.do(t, "migrate")
	r := in.call(t, command{stdin: ownerPassword + "\n", args: []string{"admin", "create", "--email", ownerEmail}})
	require.Equal(t, exitOK, r.code, r.stderr)
}

// server is a server in this process. stop ends it before the test does.
type server struct {
	base string
	stop func()
}

// serve starts a server on the installation. Its receivers may be on loopback.
func (in installation) serve(t *testing.T, clk clock.Clock, flags ...string) server {
	t.Helper()
	cfg, err := config.Load(append([]string{"--egress-allow=127.0.0.0/8", "--egress-allow-http"}, flags...), in.environ(),
		os.ReadFile)
	require.NoError(t, err)
	o := app.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Clock: clk, Version: "test"}
	if _, manual := clk.(*clock.Manual); manual {
		// The server would set its clock back to that of PostgreSQL whenever it compares them.
		o.ClockOffset = func(context.Context, *db.DB, clock.Clock) (time.Duration, error) { return 0, nil }
	}
	a, err := app.New(t.Context(), o)
	require.NoError(t, err)
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), await.Limit)
		defer cancel()
		require.NoError(t, a.Stop(ctx))
	})
	t.Cleanup(stop)
	require.NoError(t, a.Start(t.Context()))
	return server{base: "http://" + a.Addr(), stop: stop}
}

// ask sends a request with a JSON body, where there is one, and returns the status and the response.
func (s server) ask(t *testing.T, method, path, key string, in any) (int, []byte) {
	t.Helper()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		require.NoError(t, err)
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.base+path, body)
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("API-Key", key)
	}
	return send(t, r)
}

// make creates something over the API and returns its properties.
func (s server) make(t *testing.T, path, key string, in any) map[string]any {
	t.Helper()
	status, body := s.ask(t, http.MethodPost, "/api/v1"+path, key, in)
	require.Equal(t, http.StatusCreated, status, string(body))
	var out map[string]any
	require.NoError(t, json.Unmarshal(body, &out))
	return out
}

func send(t *testing.T, r *http.Request) (int, []byte) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, body
}

// decode reads the JSON that a command printed.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}
