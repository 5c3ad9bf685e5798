package main

import (
	"fmt"

	"sallyport/internal/platform/config"
)

type configCommand struct {
	Print     configPrint     `cmd:"" help:"Print every effective value and its source; secrets are redacted."`
	Check     configCheck     `cmd:"" help:"Check the configuration; if it has errors, report all of them and exit with 2."`
	Reference configReference `cmd:"" help:"Print the reference of all settings."`
}

type configPrint struct{}

// Run prints the configuration.
func (configPrint) Run(e *env) error { return e.cfg.Print(e.stdout) }

type configCheck struct{}

// Run has nothing to do: an invalid configuration does not get here.
func (configCheck) Run(e *env) error {
	_, err := fmt.Fprintln(e.stdout, "the configuration is valid")
	return err
}

type configReference struct{}

func (configReference) unconfigured() {}

// Run prints the reference.
func (configReference) Run(e *env) error { return config.Reference(e.stdout) }
