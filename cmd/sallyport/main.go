// Command sallyport is the integration gateway: the server, and the commands that look after it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"sallyport/internal/platform/config"
)

// cli is the command line: the settings, which every command takes, and the commands.
type cli struct {
	config.Config `embed:""`

	Serve   serveCommand   `cmd:"" help:"Run the server."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// env is what a command works with.
type env struct {
	cfg    *config.Config
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	loader := config.NewLoader(os.Environ(), os.ReadFile)
	exit := -1
	parser, err := kong.New(&c, append(loader.Options(), kong.Name("sallyport"),
		kong.Description("The integration gateway: provider webhooks in, verified and stored; signed and retried out."),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)))...)
	if err != nil {
		return fail(err)
	}
	kctx, err := parser.Parse(args)
	if exit >= 0 {
		return exit // help was printed
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sallyport: "+err.Error())
		return exitUsage
	}
	if err := loader.Complete(kctx, &c.Config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	err = kctx.Run(&env{cfg: &c.Config, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr})
	return fail(err)
}

// exitError ends the program with a code of its own after what there was to say has been said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

func fail(err error) int {
	var code exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintln(os.Stderr, "sallyport: "+err.Error())
		return exitFailed
	}
}

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(e *env) error {
	_, err := fmt.Fprintln(e.stdout, version())
	return err
}

// version is the module's version where the binary was installed as one, else the revision it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
