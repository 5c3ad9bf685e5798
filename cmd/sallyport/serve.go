package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"sallyport/internal/app"
	"sallyport/internal/platform/heaplimit"
	"sallyport/internal/platform/obs"
)

type serveCommand struct{}

// memoryLimit is the soft limit of the Go heap if GOMEMLIMIT sets none, without what large imports and the indexes of
// catalogs take. SQLite's memory, up to 54 MiB, and the program are not part of it: together they stay below 200 MiB.
const memoryLimit = 104 << 20

// Run serves until SIGTERM or an interrupt, and then stops in order. A second signal stops it immediately.
func (serveCommand) Run(ctx context.Context, e *env) error {
	var heap *heaplimit.Limit
	if !slices.ContainsFunc(e.environ, func(v string) bool { return strings.HasPrefix(v, "GOMEMLIMIT=") }) {
		heap = heaplimit.New(memoryLimit)
		if os.Getenv("GOGC") == "" {
			// The live heap is small and there is much garbage: collecting less often saves a tenth of the CPU, and the limit
			// above bounds the memory.
			debug.SetGCPercent(400)
		}
	}
	lines := obs.NewWriter(e.stderr)
	defer lines.Close()
	log := obs.NewLogger(lines, string(e.cfg.LogFormat), e.cfg.LogLevel.String())
	a, err := app.New(ctx, app.Options{Config: *e.cfg, Logger: log, Clock: e.clock, Version: version(), Heap: heap})
	if err != nil {
		return stoppedEarly(ctx, log, err)
	}
	if err := a.Start(ctx); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.ShutdownTimeout)
		defer cancel()
		_ = a.Stop(stopCtx) // the error that made it stop is the one that counts
		return stoppedEarly(ctx, log, err)
	}
	attrs := []any{slog.String("listen", a.Addr()), slog.String("public_url", e.cfg.PublicURL),
		slog.String("version", version())}
	if admin := a.AdminAddr(); admin != "" {
		attrs = append(attrs, slog.String("admin_listen", admin))
	}
	if e.cfg.Dev {
		attrs = append(attrs, slog.String("credentials", filepath.Join(e.cfg.Data, "dev-credentials.json")))
	}
	log.InfoContext(ctx, "serving", attrs...)
	<-ctx.Done()

	// After the first signal, another one stops the process immediately.
	second := make(chan os.Signal, 1)
	signal.Notify(second, os.Interrupt, syscall.SIGTERM)
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.ShutdownTimeout)
	defer cancel()
	go func() {
		select {
		case <-second:
			cancel()
		case <-stopCtx.Done():
		}
	}()
	log.InfoContext(stopCtx, "stopping")
	if err := a.Stop(stopCtx); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	log.InfoContext(context.WithoutCancel(ctx), "stopped")
	return nil
}

// stoppedEarly returns the error of a start that failed; none if it failed because the process was asked to stop, which
// is no error: the log says what was interrupted. A migration is either complete or has changed nothing, or its next
// run completes it.
func stoppedEarly(ctx context.Context, log *slog.Logger, err error) error {
	if ctx.Err() == nil {
		return err
	}
	log.InfoContext(context.WithoutCancel(ctx), "stopped before the server was ready; the next start continues",
		slog.String("interrupted", err.Error()))
	return nil
}
