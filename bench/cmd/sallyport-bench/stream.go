package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sallyport/bench/internal/phases"
	"sallyport/bench/internal/readers"
	"sallyport/bench/internal/report"
	"sallyport/bench/internal/sink"
	"sallyport/bench/internal/target"
)

const maxReaders = 10_000

// streamCommand measures readers of the stream of events.
type streamCommand struct {
	Binary      string `required:"" type:"existingfile" placeholder:"PATH" help:"The sallyport program to measure."`
	PostgresURL string `name:"postgres-url" placeholder:"URL" help:"Measure on PostgreSQL too: a postgres:// URL, on this machine, of a role that may create databases."`

	Readers       int           `default:"1000" placeholder:"N" help:"Readers of the stream in the open loop (${default})."`
	Rate          int           `default:"50" placeholder:"N" help:"Events per second of the open loop (${default})."`
	IngestReaders int           `default:"100" placeholder:"N" help:"Readers of the stream in the closed loop (${default})."`
	Connections   int           `default:"64" placeholder:"N" help:"Connections of the generator (${default})."`
	Warmup        time.Duration `default:"2s" placeholder:"TIME" help:"Load before each closed loop's measured part (${default})."`
	Duration      time.Duration `default:"20s" placeholder:"TIME" help:"Measured part of each phase (${default})."`
	MaxEvents     int           `default:"2000000" placeholder:"N" help:"Events at most in any phase (${default})."`
	Drain         time.Duration `name:"drain-timeout" default:"30s" placeholder:"TIME" help:"How long readers may take to receive every event after the load (${default})."`

	Out        string   `default:"bench/out" type:"path" placeholder:"DIR" help:"Folder for the server's logs and result.json (${default})."`
	DataRoot   string   `type:"path" placeholder:"DIR" help:"Folder in which the server's data folders are made and removed; the system's temporary folder unless given."`
	ServerArgs []string `name:"server-arg" sep:"none" placeholder:"ARG" help:"Further argument of the server; repeatable."`

	JSON  bool `help:"Print JSON instead of tables."`
	Check bool `help:"Exit with status 1 when a figure misses its target."`
}

// Validate is called by kong.
func (c *streamCommand) Validate() error {
	run := c.run()
	err := run.Validate()
	if c.Readers < 1 || c.Readers > maxReaders || c.IngestReaders < 1 || c.IngestReaders > maxReaders {
		err = errors.Join(err, fmt.Errorf("%w: --readers and --ingest-readers are from 1 to %d", errFlag, maxReaders))
	}
	return err
}

// run returns what the two commands have in common.
func (c *streamCommand) run() runCommand {
	return runCommand{
		Binary: c.Binary, PostgresURL: c.PostgresURL, Provider: "github", Connections: c.Connections, Warmup: c.Warmup,
		Duration: c.Duration, Rate: c.Rate, MaxEvents: c.MaxEvents, Drain: c.Drain, Out: c.Out, DataRoot: c.DataRoot,
		ServerArgs: c.ServerArgs, JSON: c.JSON, Check: c.Check,
	}
}

// streams runs the phases about readers of the stream: first the closed loop, which nothing is subscribed to.
func (b *bench) streams(ctx context.Context, e *report.Engine, server *target.Server,
	subject phases.Subject) (err error) {
	path, key, err := server.API.Stream()
	if err != nil {
		return err
	}
	plan := readers.Plan{Addr: server.Addr, Path: path, Key: key, Count: b.stream.IngestReaders}
	b.say("%s: ingest with %d readers of the stream and without", e.Name, plan.Count)
	if e.Contended, err = b.runner.Contended(ctx, subject, plan); err != nil {
		return err
	}
	receiver, err := sink.Listen(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, receiver.Close()) }()
	signing, err := server.API.CreateSubscription(ctx, b.cmd.Provider, receiver.URL())
	if err != nil {
		return err
	}
	verifier, err := sink.NewVerifier(signing, b.cmd.Provider, target.ConnectionID)
	if err != nil {
		return err
	}
	if err := b.runner.Rest(ctx); err != nil {
		return err
	}
	plan.Count = b.stream.Readers
	b.say("%s: %d readers of the stream at %d/s", e.Name, plan.Count, b.cmd.Rate)
	e.Streaming, err = b.runner.Streaming(ctx, subject, receiver, verifier, plan)
	return err
}
