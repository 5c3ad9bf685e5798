//go:build linux

package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"sallyport/internal/app"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/secretbox"
)

// NodeCommand is the first argument of a process that is to be a node; the second is its configuration.
const NodeCommand = "node"

// nodeConfig is what distinguishes a node.
type nodeConfig struct {
	Data, KeysetFile, DatabaseURL, Listen string
	Lease                                 time.Duration
	// ClockStep is how many seconds the node's wall clock is ahead when it starts.
	ClockStep int64
}

// stopTimeout is how long a node may take to end in order.
const stopTimeout = 15 * time.Second

// ServeNode is a node: it serves as `sallyport serve --dev` does until ctx ends or the input does, whose lines step its
// clock.
func ServeNode(ctx context.Context, configuration string, input io.Reader, stderr io.Writer) error {
	var n nodeConfig
	if err := json.Unmarshal([]byte(configuration), &n); err != nil {
		return fmt.Errorf("read the node's configuration: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	clk := newSteppedClock(n.ClockStep)
	go func() {
		clk.follow(input)
		end() // the run is gone
	}()
	cfg := config.Default()
	cfg.Dev, cfg.EgressAllowHTTP = true, true
	cfg.Listen, cfg.PublicURL = n.Listen, "http://"+n.Listen
	cfg.Data, cfg.KeysetFile, cfg.DatabaseURL = n.Data, n.KeysetFile, secretbox.Secret(n.DatabaseURL)
	cfg.RateLimitKeyPerSecond, cfg.RateLimitUserPerSecond, cfg.RateLimitAddressPerSecond = 0, 0, 0
	cfg.ShutdownTimeout = stopTimeout
	log := obs.NewLogger(stderr, string(config.LogJSON), slog.LevelInfo.String())
	a, err := app.New(ctx, app.Options{Config: cfg, Logger: log, Clock: clk, Version: "soak", Lease: n.Lease})
	if err != nil {
		return err
	}
	err = a.Start(ctx)
	if err == nil {
		<-ctx.Done()
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if stopErr := a.Stop(stopCtx); err == nil && stopErr != nil {
		return fmt.Errorf("stop: %w", stopErr)
	}
	return err
}
