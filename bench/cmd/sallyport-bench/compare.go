package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sallyport/bench/internal/compare"
	"sallyport/internal/platform/clock"
)

// Limits of the conditions.
const (
	maxPairs = 20
	maxFill  = 20_000_000
	// maxActions is below what an environment may have, because the last document may have many.
	maxActions = 200_000
)

// serverFlags are those of commands that start gateways on both engines.
type serverFlags struct {
	Binary      string `required:"" type:"existingfile" placeholder:"PATH" help:"The sallyport program to measure."`
	PostgresURL string `name:"postgres-url" placeholder:"URL" help:"Server for PostgreSQL: a postgres:// URL, on this machine, of a role that may create databases. By default the command starts a server of its own, which syncs its writes."`

	Connections int           `default:"64" placeholder:"N" help:"Connections of the generator (${default})."`
	Duration    time.Duration `default:"10s" placeholder:"TIME" help:"Length of each measurement (${default})."`
	Rate        int           `default:"200" placeholder:"N" help:"Events per second of the open loop (${default})."`

	Out        string   `default:"bench/out" type:"path" placeholder:"DIR" help:"Folder for the servers' logs (${default})."`
	DataRoot   string   `type:"path" placeholder:"DIR" help:"Folder in which the servers' data folders are made and removed; the system's temporary folder unless given."`
	ServerArgs []string `name:"server-arg" sep:"none" placeholder:"ARG" help:"Further argument of the server; repeatable."`
	JSON       bool     `help:"Print JSON instead of tables."`
}

// Validate is called by kong.
func (c *serverFlags) Validate() error {
	return (&runCommand{Connections: c.Connections, Duration: c.Duration, Rate: c.Rate, Drain: maxPhase,
		MaxEvents: maxEvents, PostgresURL: c.PostgresURL}).Validate()
}

// compareCommand measures conditions next to the same work without them.
type compareCommand struct {
	serverFlags

	Engines   []string `default:"sqlite,postgres" enum:"sqlite,postgres" placeholder:"NAME" help:"Engines: ${enum} (${default})."`
	Rows      []string `placeholder:"NAME" help:"Only these rows; see --list."`
	List      bool     `help:"List the rows and measure nothing."`
	Pairs     int      `default:"1" placeholder:"N" help:"Measurements of each row, on a new server each (${default})."`
	Events    int      `default:"2000000" placeholder:"N" help:"Events of a database that has grown (${default})."`
	Waiting   int      `default:"1000000" placeholder:"N" help:"Deliveries that wait in the row about them (${default})."`
	Documents string   `type:"existingdir" placeholder:"DIR" help:"Folder with descriptions of APIs in JSON, which the rows search and imports import; made ones unless given."`
	Actions   int      `default:"100000" placeholder:"N" help:"Actions of a catalog that is searched (${default})."`
	Check     bool     `help:"Exit with status 1 when a figure misses its target."`
}

// Validate is called by kong.
func (c *compareCommand) Validate() error {
	_, err := compare.Rows(c.Rows)
	if err != nil {
		err = fmt.Errorf("%w: --rows: %w", errFlag, err)
	}
	if c.Pairs < 1 || c.Pairs > maxPairs {
		err = errors.Join(err, fmt.Errorf("%w: --pairs is from 1 to %d", errFlag, maxPairs))
	}
	if min(c.Events, c.Waiting) < 1 || max(c.Events, c.Waiting) > maxFill {
		err = errors.Join(err, fmt.Errorf("%w: --events and --waiting are from 1 to %d", errFlag, maxFill))
	}
	if c.Actions < 1 || c.Actions > maxActions {
		err = errors.Join(err, fmt.Errorf("%w: --actions is from 1 to %d", errFlag, maxActions))
	}
	return errors.Join(err, c.serverFlags.Validate())
}

// run measures the rows on the engines and returns whether all targets were met.
func (c *compareCommand) run(ctx context.Context, stdout, progress io.Writer) (met bool, err error) {
	rows, err := compare.Rows(c.Rows)
	if err != nil {
		return false, err
	}
	if c.List {
		for _, r := range rows {
			if _, err := fmt.Fprintf(stdout, "%-11s %s\n", r.Name, r.About); err != nil {
				return false, fmt.Errorf("list the rows: %w", err)
			}
		}
		return true, nil
	}
	var results []compare.Result
	err = c.withServers(slices.Contains(c.Engines, compare.Postgres), func(o compare.Options) error {
		o.Fill, o.Waiting, o.Pairs, o.Say = c.Events, c.Waiting, c.Pairs, sayTo(progress)
		o.Documents, o.Actions, o.Operations = c.Documents, c.Actions, compare.MostOperations
		for _, engine := range c.Engines {
			o.Engine = engine
			b := compare.New(clock.System(), o, firstEpoch())
			for i := range rows {
				if ctx.Err() == nil && (rows[i].Engine == "" || rows[i].Engine == engine) {
					results = append(results, b.Measure(ctx, &rows[i]))
				}
			}
		}
		return ctx.Err()
	})
	// Results from before a failure are worth printing.
	if c.JSON {
		return true, errors.Join(err, writeJSON(stdout, results))
	}
	met, printErr := compare.Print(stdout, rows, results)
	return met, errors.Join(err, printErr)
}

// withServers calls measure with a folder for data, and a PostgreSQL server where one is needed.
func (c *serverFlags) withServers(postgres bool, measure func(o compare.Options) error) (err error) {
	if err := os.MkdirAll(c.Out, 0o750); err != nil {
		return fmt.Errorf("make output folder: %w", err)
	}
	root, err := os.MkdirTemp(c.DataRoot, "sallyport-bench-")
	if err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	if err := os.Chmod(root, 0o711); err != nil { // PostgreSQL's user enters it
		return fmt.Errorf("make data folder: %w", err)
	}
	o := compare.Options{Binary: c.Binary, DataRoot: root, LogDir: c.Out, PostgresURL: c.PostgresURL,
		Duration: c.Duration, PerSecond: c.Rate, Connections: c.Connections, ServerArgs: c.ServerArgs}
	if postgres && o.PostgresURL == "" {
		var stop func()
		if o.PostgresURL, stop, err = startPostgres(filepath.Join(root, "server")); err != nil {
			return err
		}
		defer stop()
	}
	return measure(o)
}

// sayTo returns what writes lines of progress. They are for the eye; no result depends on them.
func sayTo(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
