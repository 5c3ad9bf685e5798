package target_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/load"
	"sallyport/bench/internal/target"
	"sallyport/bench/internal/toygateway"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/testkit/await"
)

// The test binary plays the two programs that the bench starts.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "serve":
		exitOn(toygateway.Serve(context.Background(), os.Stdout, os.Args[2:], os.Environ()))
	case len(os.Args) > 1 && os.Args[1] == "yardstick":
		exitOn(target.ServeYardstick(context.Background(), os.Stdin, os.Stdout))
	default:
		os.Exit(m.Run())
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func startToy(t *testing.T, args ...string) (*target.Server, string, error) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "server.log")
	server, err := target.StartServer(t.Context(), clock.System(), target.ServerConfig{
		Binary: os.Args[0], DataDir: dir, DatabaseURL: "postgres://localhost/x", LogPath: log, Admin: true, Args: args,
	})
	return server, log, err
}

// The gateway is started with the documented arguments, used through its contract, profiled, and ended in an orderly
// way.
func TestServerLifeCycle(t *testing.T) {
	t.Parallel()
	server, log, err := startToy(t, "--log-level", "warn")
	require.NoError(t, err)
	require.Positive(t, server.PID())

	path, err := server.API.CreateConnection(t.Context(), "github", "a secret")
	require.NoError(t, err)
	require.Equal(t, "/api/v1/webhook/toy", path)
	secret, err := server.API.CreateSubscription(t.Context(), "github", "http://127.0.0.1:1/")
	require.NoError(t, err)
	require.Equal(t, toygateway.SigningSecret, secret)

	profile := filepath.Join(t.TempDir(), "heap.pprof")
	require.NoError(t, target.SaveProfile(t.Context(), server.AdminAddr, "/debug/pprof/heap", profile))
	text, err := os.ReadFile(profile)
	require.NoError(t, err)
	require.Equal(t, "profile", string(text))
	require.ErrorIs(t, target.SaveProfile(t.Context(), server.AdminAddr, "/debug/pprof/other", profile), target.ErrServer)

	require.NoError(t, server.Stop())
	started, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Regexp(t, `^--dev --listen 127\.0\.0\.1:\d+ --data \S+ --log-format json --rate-limit-key-per-second 0 `+
		`--database-url postgres://localhost/x `+
		`--admin-listen 127\.0\.0\.1:\d+ --log-level warn\n$`, string(started))
}

// A gateway that does not come up is reported immediately, with the path of its log.
func TestServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	_, log, err := startToy(t, "--fail")
	require.ErrorIs(t, err, target.ErrServer)
	require.ErrorContains(t, err, log)
}

// Variables of the bench's own environment must not change what is measured: the toy refuses to start when it sees one.
func TestServerDoesNotInheritSettings(t *testing.T) {
	t.Setenv("SALLYPORT_LISTEN", "127.0.0.1:1")
	server, _, err := startToy(t)
	require.NoError(t, err)
	require.NoError(t, server.Stop())
}

// A refusal of the API must stop the run with the response's text. A response without the promised fields is refused
// too.
func TestAPIReportsRefusals(t *testing.T) {
	t.Parallel()
	toy, err := toygateway.New(t.Context(), toygateway.Defects{})
	require.NoError(t, err)
	refusing := httptest.NewServer(toy)
	t.Cleanup(func() {
		await.Return(t, "the end of the requests", refusing.Close)
		require.NoError(t, toy.Close())
	})
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{}`)
	}))
	await.Close(t, empty)
	for base, want := range map[string]string{refusing.URL + "/api/v1": "unauthorized", empty.URL: ""} {
		api := target.NewAPI(base, "wrong")
		_, err := api.CreateConnection(t.Context(), "github", "s")
		require.ErrorIs(t, err, target.ErrServer)
		require.ErrorContains(t, err, want)
		_, err = api.CreateSubscription(t.Context(), "github", "http://127.0.0.1:1/")
		require.ErrorIs(t, err, target.ErrServer)
	}
}

// The yardstick acknowledges what the generator signs, refuses what it did not sign, and ends with its starter.
func TestYardstick(t *testing.T) {
	t.Parallel()
	const events = 50
	y, err := target.StartYardstick(t.Context(), os.Args[0], []string{"yardstick"}, "a secret")
	require.NoError(t, err)
	require.Positive(t, y.PID())
	run := func(secret string) (int, load.Outcome) {
		tracker := event.NewTracker(clock.System(), 1, events)
		out, err := load.Run(t.Context(), clock.System(),
			load.Target{Addr: y.Addr, Path: target.YardstickPath, Scheme: load.GitHub, Secret: secret},
			tracker, load.Plan{Connections: 4, Duration: time.Minute})
		require.NoError(t, err)
		acked, _ := tracker.Progress()
		return acked, out
	}
	acked, out := run("a secret")
	require.Equal(t, events, acked, out.FirstProblem)
	acked, out = run("another")
	require.Zero(t, acked)
	require.Equal(t, events, out.Refused)
	require.NoError(t, y.Stop())
}

// A database of the bench is empty, of its own name, and gone afterwards.
func TestDatabase(t *testing.T) {
	t.Parallel()
	admin := os.Getenv("SALLYPORT_TEST_POSTGRES_URL")
	if admin == "" {
		require.Empty(t, os.Getenv("SALLYPORT_REQUIRE_ENGINES"), "PostgreSQL is required here")
		t.Skip("SALLYPORT_TEST_POSTGRES_URL is not set: no PostgreSQL to make a database on")
	}
	db, err := target.CreateDatabase(t.Context(), admin)
	require.NoError(t, err)
	require.NotEmpty(t, db.Settings["server_version"])
	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	var name string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
	require.NoError(t, conn.Close(t.Context()))
	require.Regexp(t, "^sallyport_bench_[0-9a-f]{12}$", name)

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, db.Drop(cancelled), "an interrupted run cleans up too")
	_, err = pgx.Connect(t.Context(), db.URL)
	require.ErrorContains(t, err, "does not exist")
}

// Databases elsewhere are refused before any connection is made, and a refused URL's password is not quoted.
func TestDatabaseRefusesOtherHosts(t *testing.T) {
	t.Parallel()
	for _, admin := range []string{
		"postgres://u:hidden@db.example.test/x", "postgres://u:hidden@127.0.0.1,192.0.2.1/x",
		"host=127.0.0.1 password=hidden", "postgres://u:hidden@127.0.0.1:port/x", "mysql://127.0.0.1/x",
	} {
		_, err := target.CreateDatabase(t.Context(), admin)
		require.ErrorIs(t, err, target.ErrDatabaseURL, admin)
		require.NotContains(t, err.Error(), "hidden")
	}
}
