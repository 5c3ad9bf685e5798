package main

import (
	"context"
	"fmt"

	"sallyport/internal/operator"
	"sallyport/internal/platform/terminal"
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
	c.noteOther(e)
	if err == nil && d.Status == operator.CheckFail {
		err = exitError(exitFailed)
	}
	return err
}

// noteOther says that a server in development mode, of whose settings the findings are not, uses the same data folder.
func (doctorCommand) noteOther(e *env) {
	dev, found, err := operator.ReadDevCredentials(e.cfg.Data)
	if err != nil || !found || e.cfg.Dev {
		return
	}
	e.note("A server in development mode uses this data folder, at %s. The findings are about the settings of this "+
		"command; with that server's flags, such as --dev, they are about its.", terminal.Inline(dev.Server))
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
