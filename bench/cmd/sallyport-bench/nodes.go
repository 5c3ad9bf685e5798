package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sallyport/bench/internal/compare"
	"sallyport/internal/platform/clock"
)

// maxNodes is how many nodes share the cores and the connections of one PostgreSQL server here.
const maxNodes = 8

// nodesCommand measures what further nodes cost.
type nodesCommand struct {
	serverFlags

	Nodes   []int `default:"1,2,4" placeholder:"N" help:"How many nodes there are, one measurement each (${default})."`
	Receive int   `placeholder:"N" help:"How many of the nodes get events. By default all."`
}

// Validate is called by kong.
func (c *nodesCommand) Validate() error {
	err := c.serverFlags.Validate()
	for _, n := range c.Nodes {
		if n < 1 || n > maxNodes {
			err = errors.Join(err, fmt.Errorf("%w: --nodes is from 1 to %d", errFlag, maxNodes))
		}
		if c.Receive < 0 || c.Receive > n {
			err = errors.Join(err, fmt.Errorf("%w: --receive is from 1 to the number of nodes", errFlag))
		}
	}
	return err
}

func (c *nodesCommand) run(ctx context.Context, stdout, progress io.Writer) error {
	var fleets []compare.Fleet
	err := c.withServers(true, func(o compare.Options) error {
		o.Engine, o.Say = compare.Postgres, sayTo(progress)
		b := compare.New(clock.System(), o, firstEpoch())
		for _, n := range c.Nodes {
			setup := compare.Setup{Nodes: n, Receiving: n}
			if c.Receive > 0 {
				setup.Receiving = c.Receive
			}
			fleets = append(fleets, b.MeasureFleet(ctx, setup))
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(stdout, fleets)
	}
	return compare.PrintFleets(stdout, fleets)
}
