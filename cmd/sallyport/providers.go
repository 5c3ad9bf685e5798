package main

import (
	"sallyport/internal/app"
)

type providersCommand struct {
	Reference providersReference `cmd:"" help:"Print the reference of the definitions that ship."`
}

type providersReference struct{}

func (providersReference) unconfigured() {}

// Run prints the reference.
func (providersReference) Run(e *env) error { return app.ProvidersReference(e.stdout) }
