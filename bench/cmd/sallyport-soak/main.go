//go:build linux

// Sallyport-soak runs the gateway through rounds of disruptions and checks its guarantees after each. docs/arch/soak.md
// says what it proves.
//
// It exits with status 0 if every guarantee held, with 1 if one was broken, and with 2 if the run could not be made.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"sallyport/bench/internal/soak"
)

const (
	exitOK     = 0
	exitBroken = 1
	exitFailed = 2
)

type commandLine struct {
	Engine     []string      `default:"sqlite,postgres" enum:"sqlite,postgres" help:"Engines to run on, one after the other."`
	Rounds     int           `default:"50" help:"Rounds on each engine."`
	Nodes      int           `default:"2" help:"Nodes that share a PostgreSQL database."`
	Seed       uint64        `help:"Seed of a run to make again. Default: a random one, which is printed."`
	Rate       int           `default:"40" help:"Messages that the provider sends each second."`
	Fans       int           `default:"520" help:"Subscriptions that match an event which fans out. 0: no such events."`
	Lease      time.Duration `default:"4s" help:"Lease of the nodes."`
	QuietEvery int           `default:"3" help:"Rounds, at most, until everything has the time to end."`
	Disruption []string      `help:"Draw only this kind of disruption, in the order of the rounds. May be given several times."`
	Dir        string        `help:"Folder to work in. Default: a temporary one, which is removed after a run without findings."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var status int
	if len(os.Args) == 3 && os.Args[1] == soak.NodeCommand {
		status = node(ctx, os.Args[2])
	} else {
		status = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	os.Exit(status)
}

func node(ctx context.Context, configuration string) int {
	if err := soak.ServeNode(ctx, configuration, os.Stdin, os.Stderr); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	return exitOK
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var cli commandLine
	status, exited := exitOK, false
	parser, err := kong.New(&cli, kong.Name("sallyport-soak"),
		kong.Description("Run the gateway through rounds of disruptions "+
			"and check its guarantees after each."), kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { status, exited = code, true }))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if exited {
		return status // --help has been printed
	}
	if err == nil {
		if cli.Seed == 0 {
			cli.Seed = rand.Uint64()
		}
		status, err = cli.soak(ctx, stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "sallyport-soak:", err)
		return exitFailed
	}
	return status
}

// soak runs on each engine.
func (c *commandLine) soak(ctx context.Context, out io.Writer) (status int, err error) {
	slices.Sort(c.Engine)
	for _, engine := range slices.Compact(c.Engine) {
		dir := c.Dir
		if dir == "" {
			if dir, err = os.MkdirTemp("/tmp", "sallyport-soak-"); err != nil {
				return exitFailed, err
			}
		} else if dir += "/" + engine; true {
			if err := os.MkdirAll(dir, 0o711); err != nil {
				return exitFailed, err
			}
		}
		if err := os.Chmod(dir, 0o711); err != nil {
			return exitFailed, err
		}
		_, _ = fmt.Fprintf(out, "%s: seed %d, in %s\n", engine, c.Seed, dir)
		began := time.Now()
		figures, broken, err := soak.Run(ctx, soak.Options{Engine: engine, Rounds: c.Rounds, Nodes: c.Nodes, Seed: c.Seed,
			Rate: c.Rate, Fans: c.Fans, Lease: c.Lease, QuietEvery: c.QuietEvery, Disruptions: c.Disruption, Dir: dir,
			Progress: out})
		_, _ = fmt.Fprintf(out, "%s: seed %d, %s: %s\n", engine, c.Seed, time.Since(began).Round(time.Second), figures)
		if err != nil {
			return exitFailed, fmt.Errorf("%s, seed %d: %w", engine, c.Seed, err)
		}
		if broken > 0 {
			return exitBroken, nil
		}
		if c.Dir == "" {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		if err != nil {
			return exitFailed, err
		}
	}
	_, _ = fmt.Fprintln(out, "every guarantee held on "+strings.Join(c.Engine, " and "))
	return exitOK, nil
}
