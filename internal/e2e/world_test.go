package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/identity/identitytest"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

const (
	publicURL = "http://gateway.example.test"
	prefix    = "/api/v1"
)

// start is the clock's time when a world begins. Nothing in it depends on the day the tests run.
func start() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC) }

// world is one server on a database of its own, and the developer who started it.
type world struct {
	t           *testing.T
	databaseURL string
	dir         string
	cfg         config.Config
	clk         *clock.Manual
	// ahead is how far, in nanoseconds, the database's clock is said to be ahead.
	ahead *atomic.Int64
	logs  *logBuffer
	http  *http.Client

	app  *app.App
	base string
	// key is the API key of development mode, with every grant in the environment env.
	key, env        string
	email, password string

	shared *sharedState
}

// sharedState is shared by the copies of one world.
type sharedState struct {
	// t is the test that the world belongs to; t of a copy may be a subtest of it.
	t     *testing.T
	mu    sync.Mutex
	db    *db.DB
	token string
	// until is when another token is due.
	until time.Time
}

// each runs fn on every engine with a server of its own, set up by the changes to the configuration. Under the race
// detector, which makes everything several times slower, SQLite alone stands for both: the packages that distinguish
// engines run on both even then.
func each(t *testing.T, fn func(w *world), changes ...func(*config.Config)) {
	t.Helper()
	run := func(t *testing.T, databaseURL, dir string) {
		t.Helper()
		serve(t, databaseURL, dir, fn, changes)
	}
	if !testkit.Race {
		testkit.EachServer(t, run)
		return
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		onSQLite(t, fn, changes...)
	})
}

// onSQLite is each on one engine only. It is for tests of what a browser or a sample shows, which no engine changes.
func onSQLite(t *testing.T, fn func(w *world), changes ...func(*config.Config)) {
	t.Helper()
	dir := t.TempDir()
	testkit.NewSQLite(t, dir)
	serve(t, "", dir, fn, changes)
}

// serve starts a server with the changes and calls fn.
func serve(t *testing.T, databaseURL, dir string, fn func(w *world), changes []func(*config.Config)) {
	t.Helper()
	w := newWorld(t, databaseURL, dir)
	for _, change := range changes {
		change(&w.cfg)
	}
	w.start()
	fn(w)
}

func newWorld(t *testing.T, databaseURL, dir string) *world {
	t.Helper()
	w := &world{t: t, clk: clock.NewManual(start()), logs: &logBuffer{}, ahead: &atomic.Int64{},
		shared: &sharedState{t: t}}
	w.cfg = config.Default()
	w.cfg.Dev, w.cfg.EgressAllowHTTP = true, true
	w.cfg.Listen, w.cfg.PublicURL = "127.0.0.1:0", publicURL
	w.place(databaseURL, dir)
	w.cfg.ShutdownTimeout = await.Limit
	// but where a test is about them
	w.cfg.RateLimitKeyPerSecond, w.cfg.RateLimitUserPerSecond, w.cfg.RateLimitAddressPerSecond = 0, 0, 0
	transport := &http.Transport{MaxIdleConnsPerHost: 64, ExpectContinueTimeout: await.Limit}
	w.http = &http.Client{Transport: transport, Timeout: await.Limit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		w.stop()
		if t.Failed() {
			t.Log("the server's log:\n" + w.logs.tail())
		}
	})
	return w
}

// place sets the database and the data folder of a server that has not started.
func (w *world) place(databaseURL, dir string) {
	w.databaseURL, w.dir = databaseURL, dir
	w.cfg.Data, w.cfg.KeysetFile = dir, filepath.Join(dir, "keyset.json")
	w.cfg.DatabaseURL = secretbox.Secret(databaseURL)
}

// start starts the server and reads the credentials that development mode leaves.
func (w *world) start() {
	w.t.Helper()
	a, err := app.New(w.t.Context(), app.Options{Config: w.cfg, Logger: w.logger(), Clock: w.clk, Version: "test",
		Derive: identitytest.Derive, ClockOffset: func(context.Context, *db.DB, clock.Clock) (time.Duration, error) {
			return time.Duration(w.ahead.Load()), nil
		}})
	require.NoError(w.t, err)
	w.app = a
	require.NoError(w.t, a.Start(w.t.Context()))
	w.base = "http://" + a.Addr()
	text, err := os.ReadFile(filepath.Join(w.dir, "dev-credentials.json"))
	require.NoError(w.t, err)
	var c struct {
		APIKey        string `json:"api_key"`
		EnvironmentID string `json:"environment_id"`
		Email         string `json:"email"`
		Password      string `json:"password"`
	}
	require.NoError(w.t, json.Unmarshal(text, &c))
	w.key, w.env, w.email, w.password = c.APIKey, c.EnvironmentID, c.Email, c.Password
}

func (w *world) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// stop stops the server in order.
func (w *world) stop() {
	w.t.Helper()
	if w.app == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), await.Limit)
	defer cancel()
	a := w.app
	w.app = nil
	require.NoError(w.t, a.Stop(ctx))
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	t.Helper()
	c := *w
	c.t = t
	return &c
}

// run runs a subtest in the same world, after those before it.
func (w *world) run(name string, fn func(w *world)) {
	w.t.Helper()
	w.t.Run(name, func(t *testing.T) { fn(w.in(t)) })
}

// database returns a handle of the test's own on the server's database.
func (w *world) database() *db.DB {
	w.t.Helper()
	w.shared.mu.Lock()
	defer w.shared.mu.Unlock()
	if w.shared.db == nil {
		d, err := db.Open(w.t.Context(), w.databaseURL, w.dir)
		require.NoError(w.t, err)
		w.shared.db = d
		w.shared.t.Cleanup(w.closeDatabase)
	}
	return w.shared.db
}

// closeDatabase closes the test's own handle.
func (w *world) closeDatabase() {
	w.shared.mu.Lock()
	defer w.shared.mu.Unlock()
	if w.shared.db != nil {
		require.NoError(w.shared.t, w.shared.db.Close())
		w.shared.db = nil
	}
}

// ticking waits until the condition holds, and moves the clock on half a second every few milliseconds, which is what
// makes the workers look at their queues.
func (w *world) ticking(what string, condition func() bool) {
	w.t.Helper()
	await.Condition(w.t, what, func() bool {
		if condition() {
			return true
		}
		w.clk.Advance(500 * time.Millisecond)
		w.catchUp()
		return false
	})
}

// catchUp lets the server take part in the time that has passed: a response that needs the database shows that it gets
// processor time. Without it, the clock of a test on a busy machine runs away from the server.
func (w *world) catchUp() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 200*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+"/readyz", http.NoBody)
	require.NoError(w.t, err)
	resp, err := w.http.Do(r)
	if err != nil {
		return // the server may be down, or its database held
	}
	require.NoError(w.t, resp.Body.Close())
}

// logBuffer keeps what the server logs.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends a line.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) tail() string {
	const shown = 16 << 10
	s := l.String()
	return s[max(0, len(s)-shown):]
}
