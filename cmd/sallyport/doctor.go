package main

import (
	"context"
	"fmt"

	"sallyport/internal/operator"
)

type doctorCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the findings, and exits with 1 if a check fails.
func (c doctorCommand) Run(ctx context.Context, e *env) error {
	d, err := operator.Doctor(ctx, e.cfg, e.clock)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(e.stdout, d)
	} else {
		err = printDiagnosis(e, d)
	}
	if err == nil && d.Status == operator.CheckFail {
		err = exitError(exitFailed)
	}
	return err
}

func printDiagnosis(e *env, d operator.Diagnosis) error {
	for _, c := range d.Checks {
		if _, err := fmt.Fprintf(e.stdout, "%-5s %-16s %s\n", c.Status, c.Name, c.Message); err != nil {
			return err
		}
		if c.Hint != "" {
			if _, err := fmt.Fprintf(e.stdout, "%22s %s\n", "", c.Hint); err != nil {
				return err
			}
		}
	}
	return nil
}
