// Sallyport-bench measures a sallyport binary under load on this machine and compares it with the design's figures.
//
// It exits with status 0 when the run took place, with 1 when --check was given and a figure missed its target, and
// with 2 when the run, or a part of it, could not be made.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"sallyport/bench/internal/target"
	"sallyport/internal/platform/clock"
)

const (
	exitOK     = 0
	exitMissed = 1
	exitFailed = 2
)

type commandLine struct {
	Run       runCommand       `cmd:"" default:"withargs" help:"Measure a gateway (the default)."`
	Stream    streamCommand    `cmd:"" help:"Measure readers of the stream of events."`
	Compare   compareCommand   `cmd:"" help:"Measure the same work under a condition and without it: attacks of another environment, receivers that fail, a database that has grown."`
	Nodes     nodesCommand     `cmd:"" help:"Measure gateways of several nodes that share a PostgreSQL database."`
	Documents documentsCommand `cmd:"" help:"Read descriptions of APIs as an import does, and say which become actions."`
	Yardstick yardstickCommand `cmd:"" hidden:""`
}

// yardstickCommand is the command with which the bench starts itself: see target.ServeYardstick.
type yardstickCommand struct{}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var cli commandLine
	status, exited := exitOK, false
	parser, err := kong.New(&cli,
		kong.Name("sallyport-bench"),
		kong.Description("Load generator and sink in one program: measures what a gateway receives, delivers, needs and "+
			"how fast."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { status, exited = code, true }),
	)
	if err != nil {
		return fail(stderr, err)
	}
	kctx, err := parser.Parse(args)
	if exited {
		return status // --help has been printed
	}
	if err != nil {
		return fail(stderr, err)
	}
	if kctx.Command() == "yardstick" {
		if err := target.ServeYardstick(ctx, stdin, stdout); err != nil {
			return fail(stderr, err)
		}
		return exitOK
	}
	if kctx.Command() == "compare" {
		met, err := cli.Compare.run(ctx, stdout, stderr)
		return conclude(stderr, err, cli.Compare.Check && !met)
	}
	if strings.HasPrefix(kctx.Command(), "documents") {
		return conclude(stderr, cli.Documents.run(ctx, stdout), false)
	}
	if kctx.Command() == "nodes" {
		return conclude(stderr, cli.Nodes.run(ctx, stdout, stderr), false)
	}
	b := &bench{cmd: cli.Run, args: args, clk: clock.System(), progress: stderr}
	if kctx.Command() == "stream" {
		b.cmd, b.stream = cli.Stream.run(), &cli.Stream
	}
	met, err := b.run(ctx, stdout)
	return conclude(stderr, err, b.cmd.Check && !met)
}

// conclude returns the status of a command that has ended with err or has missed a target that was to be checked.
func conclude(stderr io.Writer, err error, missed bool) int {
	switch {
	case err != nil:
		return fail(stderr, err)
	case missed:
		return exitMissed
	default:
		return exitOK
	}
}

func fail(stderr io.Writer, err error) int {
	_, _ = fmt.Fprintf(stderr, "sallyport-bench: %v\n", err) // nothing is left to report a failure of this to
	return exitFailed
}
