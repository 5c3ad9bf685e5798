package main

import (
	"github.com/alecthomas/kong"

	"sallyport/internal/reference"
)

type commandsCommand struct{}

func (commandsCommand) unconfigured() {}

// Run prints the reference of all commands.
func (commandsCommand) Run(e *env, kctx *kong.Context) error {
	return reference.Commands(e.stdout, reference.CommandLine{
		Model: kctx.Model,
		CallsAPI: func(command *kong.Node) bool {
			_, ok := command.Target.Addr().Interface().(overAPI)
			return ok
		},
		ServerVariable: serverVariable, KeyVariable: keyVariable,
	})
}
