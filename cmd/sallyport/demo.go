package main

import (
	"context"
	"time"

	"sallyport/internal/demo"
	"sallyport/internal/platform/obs"
)

type demoCommand struct {
	Keep    bool          `help:"Keep the gateway running after the demonstration, until Ctrl-C."`
	Shop    string        `placeholder:"ADDRESS" help:"Serve only the demonstration's API at this address, until Ctrl-C: a shop that takes orders with the token secret-token."`
	Timeout time.Duration `default:"30s" placeholder:"DURATION" help:"Timeout of the demonstration."`
}

func (demoCommand) unconfigured() {}

// Run plays the demonstration. On this machine it uses only a temporary folder and free ports.
func (c demoCommand) Run(ctx context.Context, e *env) error {
	if c.Timeout <= 0 {
		return usageError("--timeout must be above 0")
	}
	if c.Shop != "" {
		return demo.Serve(ctx, c.Shop, e.stdout)
	}
	return demo.Run(ctx, demo.Options{Out: e.stdout, Logger: obs.NewLogger(e.stderr, "text", "error"), Clock: e.clock,
		Version: version(), Keep: c.Keep, Timeout: c.Timeout})
}
