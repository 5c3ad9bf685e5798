// Command sallyport is the integration gateway: the server, and the commands that operate it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"sallyport/internal/operator"
	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/terminal"
)

// cli is the command line: the settings, which every command takes, and the commands.
type cli struct {
	config.Config `embed:"" group:"settings"`

	Serve   serveCommand           `cmd:"" help:"Run the server."`
	Demo    demoCommand            `cmd:"" help:"Demonstrate a gateway in a temporary folder that is removed afterwards; exit with 1 if a step fails."`
	Schema  migrateCommand         `cmd:"" name:"migrate" help:"Migrate the database's schema to this binary's version."`
	Keys    keysCommand            `cmd:"" help:"Create, change, rotate and revoke API keys, and show their usage."`
	Configs providerConfigsCommand `cmd:"" name:"provider-configs" help:"List, show, create, change and delete provider configurations."`
	Admin   adminCommand           `cmd:"" help:"Create owners, reset passwords and rotate the signing key."`
	Keyset  keysetCommand          `cmd:"" help:"Manage the encryption keyset."`

	Backup  backupCommand  `cmd:"" help:"Copy the SQLite database to a new file, also while a server runs, and check the copy."`
	Restore restoreCommand `cmd:"" help:"Restore a backup into the data folder of a stopped server; it overwrites nothing."`

	Events        eventsCommand        `cmd:"" help:"List, show, watch and replay webhook events over the API."`
	Subscriptions subscriptionsCommand `cmd:"" help:"List, create, change, test and delete webhook subscriptions over the API, and show their statistics."`
	Replays       replaysCommand       `cmd:"" help:"Replay many events over the API."`
	Connections   connectionsCommand   `cmd:"" help:"List, create, change and delete connections over the API, with their secrets and enrolments."`
	Rejections    rejectionsCommand    `cmd:"" help:"List rejected requests over the API."`
	Listen        listenCommand        `cmd:"" help:"Forward events to a URL on this machine as they arrive, signed by the gateway, with their original headers and body. The provider's own signature is left out: only a subscription to raw webhooks gets it."`

	Actions    actionsCommand    `cmd:"" help:"Run actions with the credentials of connections over the API."`
	Executions executionsCommand `cmd:"" help:"List and show what came of actions over the API."`

	Catalog   catalogCommand   `cmd:"" help:"Search the catalog of actions over the API, and import descriptions of APIs into it."`
	Providers providersCommand `cmd:"" help:"List, show and check provider definitions."`
	Webhooks  webhooksCommand  `cmd:"" help:"Verify saved webhook requests."`
	OpenAPI   openapiCommand   `cmd:"" name:"openapi" help:"Print the OpenAPI document."`
	Settings  configCommand    `cmd:"" name:"config" help:"Print and check the configuration."`
	Commands  commandsCommand  `cmd:"" help:"Print the reference of all commands."`
	Doctor    doctorCommand    `cmd:"" help:"Check the installation for present and coming problems."`
	Version   versionCommand   `cmd:"" help:"Print the version."`
	Help      helpCommand      `cmd:"" help:"Show the commands, or the help of one command: sallyport help keys create."`
}

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitPending = 3 // migrate --status: migrations are pending
)

// process is the environment that a command line runs in.
type process struct {
	args    []string // without the program's name
	environ []string // in the form of os.Environ
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	clock   clock.Clock
	// browse shows a page to the user, and reports whether it was shown; nil if none can be.
	browse func(ctx context.Context, page string) bool
}

// env is the environment that a command works with.
type env struct {
	process
	cfg *config.Config
}

// logger returns the logger of the configuration, on standard error.
func (e *env) logger() *slog.Logger {
	return obs.NewLogger(e.stderr, string(e.cfg.LogFormat), e.cfg.LogLevel.String())
}

// unconfigured marks commands that need no valid configuration.
type unconfigured interface{ unconfigured() }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, process{
		args: os.Args[1:], environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		clock: clock.System(), browse: browseWith(runtime.GOOS, os.Environ(), os.Stderr),
	})
	stop()
	os.Exit(code)
}

// run runs one command line and returns the exit code.
func run(ctx context.Context, p process) int {
	// Most programs have this flag; a flag of kong would become one of every command.
	if slices.Equal(p.args, []string{"--version"}) || slices.Equal(p.args, []string{"-v"}) {
		p.args = []string{"version"}
	}
	if len(p.args) > 0 && p.args[0] == "help" && !slices.Contains(p.args, "--help") {
		p.args = append(slices.Clone(p.args[1:]), "--help")
	}
	p.args = splitConnection(p.args)
	var c cli
	loader := config.NewLoader(p.environ, os.ReadFile, serverVariable, keyVariable, secretVariable)
	exit := -1
	parser, err := kong.New(&c, append(loader.Options(), kong.Name("sallyport"),
		kong.Description("The integration gateway: it receives, verifies and stores provider webhooks, and forwards them "+
			"signed and with retries. Every command takes the settings that \"sallyport serve --help\" lists."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Writers(p.stdout, p.stderr),
		kong.ExplicitGroups([]kong.Group{{Key: "settings", Title: "Settings of every command:"}}),
		kong.Help(printHelp), kong.Exit(func(code int) { exit = code }), kong.BindTo(ctx, (*context.Context)(nil)))...)
	if err != nil {
		return p.fail(err)
	}
	kctx, err := parser.Parse(p.args)
	if exit >= 0 {
		return exit // help was printed
	}
	if err != nil {
		return p.reportMisuse(parser, err)
	}
	err = loader.Complete(kctx, &c.Config)
	if _, ok := kctx.Selected().Target.Interface().(unconfigured); err != nil && !ok {
		p.say("%s", err)
		return exitUsage
	}
	err = namingFlags(kctx.Selected(), kctx.Run(&env{process: p, cfg: &c.Config}))
	var code exitError
	if err != nil && ctx.Err() != nil && !errors.As(err, &code) {
		p.say("interrupted: %s", terminal.Inline(err.Error())) // a hint would be about an error that there is not
		return exitFailed
	}
	return p.fail(err)
}

// reportMisuse reports an error of the command line and prints the usage.
func (p process) reportMisuse(parser *kong.Kong, err error) int {
	p.say("%s", suggestCommand(parser.Model, err, explainChoice(err.Error())))
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context.Selected() != nil {
		parser.Stdout = p.stderr
		_ = parse.Context.PrintUsage(true) // standard error is gone when this fails
	} else {
		p.note("Usage: sallyport <command> [flags]\n\nRun \"sallyport --help\" for the commands.")
	}
	return exitUsage
}

// printHelp prints help, without the settings where few of them matter: before a command is chosen, for groups
// of commands, and for commands that call a server's API.
func printHelp(options kong.HelpOptions, kctx *kong.Context) error {
	shown := func(string) bool { return true }
	if node := kctx.Selected(); node == nil || !node.Leaf() {
		shown = func(name string) bool { return name == "config" }
	} else if _, ok := node.Target.Addr().Interface().(overAPI); ok {
		shown = func(name string) bool {
			return slices.Contains([]string{"config", "data", "public-url", "egress-allow-http"}, name)
		}
	}
	for _, f := range kctx.Model.Flags {
		if f.Group != nil && f.Group.Key == "settings" && !shown(f.Name) {
			f.Hidden = true
		}
	}
	return kong.DefaultHelpPrinter(options, kctx)
}

// usageError is an error of the command line that only the command itself can detect.
type usageError string

func (e usageError) Error() string { return string(e) }

// exitError ends the program with its own code after the command has printed its result.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// fail reports why a command failed and how to continue, and returns the exit code.
func (p process) fail(err error) int {
	var code exitError
	var known *apperr.Error
	var usage usageError
	var refused *apiclient.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &known) && known.Code == apperr.CodeValidation:
		for _, d := range known.Details {
			p.say("%s", complaint(strings.NewReplacer("_", " ", ".", " ").Replace(d.Location), d.Message))
		}
		return exitUsage
	case errors.As(err, &usage):
		p.say("%s", err)
		return exitUsage
	case errors.Is(err, apiclient.ErrServer):
		p.say("%s", err)
		p.note("%s", apiHint(err))
		return exitUsage
	case errors.As(err, &refused):
		p.say("%s", terminal.Inline(err.Error()))
		if refused.Code == apperr.CodeValidation {
			if hint := apiHint(err); hint != "" {
				p.note("%s", hint)
			}
			return exitUsage
		}
	case errors.As(err, &known) && known.Cause == nil:
		p.say("%s", known.Message)
	default:
		p.say("%s", err)
	}
	if hint := cmp.Or(operator.Hint(err), apiHint(err)); hint != "" {
		p.note("%s", hint)
	}
	return exitFailed
}

// complaint is what is wrong with something: its name is the subject of a message without one.
func complaint(name, message string) string {
	first, _, _ := strings.Cut(message, " ")
	if slices.Contains([]string{"must", "is", "has", "can", "cannot", "needs"}, first) {
		return name + " " + message
	}
	return name + ": " + message
}

// say writes one message to standard error after the program's name; note writes one without the name.
func (p process) say(format string, args ...any) { p.note("sallyport: "+format, args...) }

func (p process) note(format string, args ...any) {
	_, _ = fmt.Fprintf(p.stderr, format+"\n", args...) // there is no other place to report a failure
}

// helpCommand is in the help and the reference; run turns it into the flag --help of the command that it names.
type helpCommand struct {
	Command []string `arg:"" optional:"" name:"command" help:"The command."`
}

func (helpCommand) unconfigured() {}

type versionCommand struct{}

func (versionCommand) unconfigured() {}

// Run prints the version.
func (versionCommand) Run(e *env) error {
	_, err := fmt.Fprintln(e.stdout, version())
	return err
}

// version is the module's version if the binary was installed as one, else the revision it was built from.
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
