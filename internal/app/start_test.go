package app_test

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
)

// A server that does not start leaves nothing running: no worker goes on over a database that is closed.
func TestFailedStartLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	// spoil may return a function that spoils the rest after the server has been built.
	for name, spoil := range map[string]func(t *testing.T, cfg *config.Config) (later func()){
		"the first worker": func(t *testing.T, cfg *config.Config) func() {
			t.Helper()
			drop(t, cfg.Data, "deliveries")
			return func() {}
		},
		"a later worker": func(t *testing.T, cfg *config.Config) func() {
			t.Helper()
			drop(t, cfg.Data, "webhook_replays")
			return func() {}
		},
		"the listener": func(t *testing.T, cfg *config.Config) func() {
			t.Helper()
			return occupyLater(t, &cfg.Listen)
		},
		"the admin listener": func(t *testing.T, cfg *config.Config) func() {
			t.Helper()
			return occupyLater(t, &cfg.AdminListen)
		},
		"the people": func(t *testing.T, cfg *config.Config) func() {
			t.Helper()
			cfg.SetupTokenFile = filepath.Join(cfg.Data, "missing")
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Data, cfg.Listen = t.TempDir(), "127.0.0.1:0"
			cfg.KeysetFile = filepath.Join(cfg.Data, "keyset.json")
			clk := clock.NewManual(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
			options := app.Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Clock: clk, Version: "test"}
			a, err := app.New(t.Context(), options)
			require.NoError(t, err)
			require.NoError(t, a.Stop(t.Context()))

			var log bytes.Buffer
			options.Logger = slog.New(slog.NewTextHandler(&log, nil))
			later := spoil(t, &options.Config)
			a, err = app.New(t.Context(), options)
			require.NoError(t, err)
			later()
			require.Error(t, a.Start(t.Context()))
			require.NoError(t, a.Stop(t.Context()))
			require.Never(t, func() bool { return clk.Timers() > 0 }, 100*time.Millisecond, time.Millisecond,
				"a worker waits for its next round")
			require.NotContains(t, log.String(), "closed")
			if addr := a.Addr(); addr != "" {
				l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
				require.NoError(t, err, "the listener is still open")
				require.NoError(t, l.Close())
			}
		})
	}
}

// occupyLater sets the address to a free one, and returns the function that takes it.
func occupyLater(t *testing.T, address *string) func() {
	t.Helper()
	listen := func(address string) net.Listener {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		return l
	}
	l := listen("127.0.0.1:0")
	*address = l.Addr().String()
	require.NoError(t, l.Close())
	return func() {
		l := listen(*address)
		t.Cleanup(func() { _ = l.Close() })
	}
}

func drop(t *testing.T, dataDir, table string) {
	t.Helper()
	d, err := db.Open(t.Context(), "", dataDir)
	require.NoError(t, err)
	_, err = d.Write().ExecContext(t.Context(), "PRAGMA foreign_keys = OFF; DROP TABLE "+table)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// A server behind a tunnel or proxy whose address it does not trust says when it starts that all senders look alike.
func TestWarningOfOneAddressForAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		publicURL, proxies string
		warns              bool
	}{
		"a tunnel":             {"https://abc.tunnel.example", "", true},
		"a tunnel, trusted":    {"https://abc.tunnel.example", "127.0.0.1/32", false},
		"no proxy, on its own": {"http://127.0.0.1:0", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Data, cfg.Listen, cfg.PublicURL = t.TempDir(), "127.0.0.1:0", c.publicURL
			cfg.KeysetFile, cfg.Dev = filepath.Join(cfg.Data, "keyset.json"), true
			if c.proxies != "" {
				cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(c.proxies)}
			}
			var log bytes.Buffer
			a, err := app.New(t.Context(), app.Options{Config: cfg, Version: "test",
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
				Clock:  clock.NewManual(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))})
			require.NoError(t, err)
			require.NoError(t, a.Start(t.Context()))
			require.NoError(t, a.Stop(t.Context()))
			require.Equal(t, c.warns, strings.Contains(log.String(), "trusted-proxies is not set"), log.String())
		})
	}
}

// A server that others can reach although webhook URLs and links lead to its own machine says so when it starts, in
// words. It does not where the default is right, or was chosen.
func TestWarningOfAGuessedURL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listen, publicURL string
		warns             bool
	}{
		"all addresses":                {":0", "http://localhost:0", true},
		"all IPv4 addresses":           {"0.0.0.0:0", "http://localhost:0", true},
		"all IPv6 addresses":           {"[::]:0", "http://localhost:0", true},
		"all addresses, and a URL":     {"0.0.0.0:0", "https://hooks.example.test", false},
		"the loopback interface alone": {"127.0.0.1:0", "http://127.0.0.1:0", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Data, cfg.Listen, cfg.PublicURL = t.TempDir(), c.listen, c.publicURL
			cfg.KeysetFile = filepath.Join(cfg.Data, "keyset.json")
			var log bytes.Buffer
			a, err := app.New(t.Context(), app.Options{Config: cfg, Version: "test",
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
				Clock:  clock.NewManual(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))})
			require.NoError(t, err)
			require.NoError(t, a.Start(t.Context()))
			require.NoError(t, a.Stop(t.Context()))
			require.Equal(t, c.warns, strings.Contains(log.String(), "public-url is not set"), log.String())
		})
	}
}
