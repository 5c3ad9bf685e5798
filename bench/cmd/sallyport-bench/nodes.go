package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sallyport/bench/internal/compare"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/role"
)

// maxNodes is how many nodes share the cores and the connections of one PostgreSQL server here.
const maxNodes = 8

// nodesCommand measures what further nodes cost.
type nodesCommand struct {
	serverFlags

	Nodes   []int       `default:"1,2,4" placeholder:"N" help:"How many nodes there are, one measurement each (${default})."`
	Receive int         `placeholder:"N" help:"How many of the nodes get events. By default all."`
	Roles   []role.Role `enum:"all,api,worker" placeholder:"ROLE" help:"The roles of the nodes, in turn, such as api,worker: those that serve requests get events. By default all do everything."`
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
	if len(c.Roles) > 0 && c.Receive > 0 {
		err = errors.Join(err, fmt.Errorf("%w: --receive goes without --roles, which say who receives", errFlag))
	}
	for _, n := range c.Nodes {
		if _, setupErr := c.setup(n); setupErr != nil {
			err = errors.Join(err, fmt.Errorf("%w: --roles: %w", errFlag, setupErr))
		}
	}
	return err
}

// setup returns the setup of so many nodes.
func (c *nodesCommand) setup(n int) (compare.Setup, error) {
	if len(c.Roles) > 0 {
		return compare.WithRoles(n, c.Roles)
	}
	setup := compare.Setup{Nodes: n, Receiving: n}
	if c.Receive > 0 {
		setup.Receiving = c.Receive
	}
	return setup, nil
}

func (c *nodesCommand) run(ctx context.Context, stdout, progress io.Writer) error {
	var fleets []compare.Fleet
	err := c.withServers(true, func(o compare.Options) error {
		o.Engine, o.Say = compare.Postgres, sayTo(progress)
		b := compare.New(clock.System(), o, firstEpoch())
		for _, n := range c.Nodes {
			setup, err := c.setup(n)
			if err != nil {
				return err
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
