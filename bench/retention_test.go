package bench_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/bench/internal/event"
	"sallyport/bench/internal/load"
	"sallyport/bench/internal/target"
	"sallyport/internal/app"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

const (
	retentionSeed    = 150_000 // events that are there before the measured part, more than retention removes in it
	retentionLoad    = 20 * time.Second
	retentionMax     = 2_000_000
	retentionSecret  = "a secret shared with GitHub"
	retentionSenders = 64
	longAgo          = 120 * 24 * time.Hour // beyond what payloads and events are kept for
)

// setClock is the system's clock, set back or ahead.
type setClock struct {
	clock.Clock
	offset atomic.Int64
}

// Now returns the time as set.
func (c *setClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.offset.Load())) }

// gateway is a gateway in this process, whose clock can be set back.
type gateway struct {
	cfg config.Config
	clk *setClock
	app *app.App
}

func newGateway(b *testing.B, databaseURL string) *gateway {
	b.Helper()
	dir := b.TempDir()
	g := &gateway{cfg: config.Default(), clk: &setClock{Clock: clock.System()}}
	g.cfg.Dev, g.cfg.Listen = true, "127.0.0.1:0"
	g.cfg.Data, g.cfg.KeysetFile = dir, filepath.Join(dir, "keyset.json")
	g.cfg.DatabaseURL = secretbox.Secret(databaseURL)
	return g
}

func (g *gateway) start(b *testing.B) {
	b.Helper()
	a, err := app.New(b.Context(), app.Options{Config: g.cfg, Logger: slog.New(slog.DiscardHandler), Clock: g.clk,
		Version: "bench", ClockOffset: func(context.Context, *db.DB, clock.Clock) (time.Duration, error) { return 0, nil }})
	require.NoError(b, err)
	require.NoError(b, a.Start(b.Context()))
	g.app = a
}

func (g *gateway) stop(b *testing.B) {
	b.Helper()
	require.NoError(b, g.app.Stop(b.Context()))
}

// key returns the API key of development.
func (g *gateway) key(b *testing.B) string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(g.cfg.Data, "dev-credentials.json"))
	require.NoError(b, err)
	var c struct {
		APIKey string `json:"api_key"`
	}
	require.NoError(b, json.Unmarshal(text, &c))
	return c.APIKey
}

// api returns what makes the gateway's connection and subscription.
func (g *gateway) api(b *testing.B) *target.API {
	b.Helper()
	return target.NewAPI("http://"+g.app.Addr()+"/api/v1", g.key(b))
}

// connect makes a connection to GitHub and returns the request target of its deliveries.
func (g *gateway) connect(b *testing.B) string {
	b.Helper()
	path, err := g.api(b).CreateConnection(b.Context(), "github", retentionSecret)
	require.NoError(b, err)
	return path
}

// send posts at most so many events as fast as they are acknowledged, and returns how many were, and in what time.
func (g *gateway) send(b *testing.B, path string, epoch uint32, most int,
	length time.Duration) (events int, took time.Duration) {
	b.Helper()
	system := clock.System()
	tracker := event.NewTracker(system, epoch, most)
	begin := system.Now()
	out, err := load.Run(b.Context(), system, load.Target{Addr: g.app.Addr(), Path: path, Scheme: load.GitHub,
		Secret: retentionSecret}, tracker, load.Plan{Connections: retentionSenders, Duration: length})
	require.NoError(b, err)
	require.Zero(b, out.Refused+out.Failed, out.FirstProblem)
	events, _ = tracker.Progress()
	return events, system.Now().Sub(begin)
}

// old counts the events that were received before the clock was set right.
func (g *gateway) old(b *testing.B) int {
	b.Helper()
	d, err := db.Open(b.Context(), g.cfg.DatabaseURL.Reveal(), g.cfg.Data)
	require.NoError(b, err)
	var n int
	require.NoError(b, d.Read().QueryRowContext(b.Context(), "SELECT COUNT(*) FROM webhook_events WHERE received_ms < $1",
		clock.Millis(g.clk.Now().Add(-longAgo/2))).Scan(&n))
	require.NoError(b, d.Close())
	return n
}

// newDatabase returns the URL of a database of PostgreSQL, which goes with the benchmark; without a server the
// benchmark is skipped.
func newDatabase(b *testing.B) string {
	b.Helper()
	server := os.Getenv(testkit.PostgresURL)
	if server == "" {
		b.Skipf("no PostgreSQL: set %s", testkit.PostgresURL)
	}
	d, err := target.CreateDatabase(b.Context(), server)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, d.Drop(context.WithoutCancel(b.Context()))) })
	return d.URL
}

// engine is where the gateway of a benchmark stores.
type engine struct {
	name     string
	database func(b *testing.B) string
}

func engines() []engine {
	return []engine{{"sqlite", func(*testing.B) string { return "" }}, {"postgres", newDatabase}}
}

// Ingest at full speed, over the loopback interface, while retention removes events and payloads that are due, and
// while as many lie there that are not. The target is that it costs less than a tenth.
func BenchmarkIngestDuringRetention(b *testing.B) {
	seeds := []struct {
		name string
		back time.Duration
	}{{"nothing-due", 0}, {"due", -longAgo}}
	for _, engine := range engines() {
		for _, seed := range seeds {
			b.Run(engine.name+"/"+seed.name, func(b *testing.B) {
				for range b.N {
					g := newGateway(b, engine.database(b))
					g.clk.offset.Store(int64(seed.back))
					g.start(b)
					path := g.connect(b)
					seeded, _ := g.send(b, path, 1, retentionSeed, time.Hour)
					g.stop(b)
					require.Equal(b, retentionSeed, seeded)
					g.clk.offset.Store(0)
					before := g.old(b)
					g.start(b)
					events, took := g.send(b, path, 2, retentionMax, retentionLoad)
					left := g.old(b)
					g.stop(b)
					if seed.back != 0 {
						require.Equal(b, retentionSeed, before)
						require.Less(b, left, before, "retention removed nothing")
						require.Positive(b, left, "retention was done before the load was")
					}
					b.ReportMetric(float64(events)/took.Seconds(), "events/s")
					b.ReportMetric(float64(before-left)/took.Seconds(), "removed/s")
					b.ReportMetric(0, "ns/op") // which says nothing here
				}
			})
		}
	}
}
