package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type commandsCommand struct{}

func (commandsCommand) unconfigured() {}

const commandsIntro = `# Commands

Generated from the code by ` + "`sallyport commands`" + `; do not edit.

Every command also takes the settings of [configuration.md](configuration.md) as flags, variables or lines of the file that
` + "`--config`" + ` names. Results go to standard output, everything else to standard error.

| Exit code | Meaning |
|---|---|
| 0 | done |
| 1 | it failed; standard error says why |
| 2 | the command line, the configuration or a value given is wrong, also where only the server could tell |
| 3 | of ` + "`migrate --status`" + `: migrations are pending |

` + "`webhooks verify`" + ` has 2 for everything that keeps it from telling, because its 1 is a refusal.

**Commands that call the API** (%s) work from any machine. They take:

- *The server*: ` + "`--server=URL`" + `, else the variable ` + "`" + serverVariable + "`" + `, else the public URL of the configuration, which is
  ` + "`http://127.0.0.1:8080`" + ` where nothing is set. ` + "`http://`" + ` is for servers on the same machine; elsewhere it needs
  ` + "`--egress-allow-http`" + `, for the key then crosses the network in clear. Roots of your own come from ` + "`SSL_CERT_FILE`" + `.
- *An API key*: ` + "`--api-key-file=PATH`" + `, else the variable ` + "`" + keyVariable + "`" + `. There is no flag for the key itself, because command
  lines are in histories and process lists. Beside a server in development mode neither is needed: both are
  read from the data folder.
- *A time-out* for each request: ` + "`--timeout=DURATION`" + `, 30 s by default.

They print tables, cut to the terminal's width and coloured there (not with ` + "`NO_COLOR`" + `), complete and plain elsewhere. With
` + "`--json`" + ` they print what the API answers: one object, or one array for a list; ` + "`events tail`" + ` prints one object a line. Text that
comes from others is escaped, so that it cannot steer the terminal. An error of the API is one line with its message, each fault, the
HTTP status, the code of [error-codes.md](error-codes.md) and the request id that the server's log has.
`

// Run prints the reference of all commands.
func (commandsCommand) Run(e *env, kctx *kong.Context) error {
	var b, api bytes.Buffer
	var groups []string
	for _, node := range kctx.Model.Leaves(true) {
		reference(&b, node)
		if _, ok := node.Target.Addr().Interface().(overAPI); ok {
			groups = append(groups, "`"+strings.Fields(node.Path())[0]+"`")
		}
	}
	fmt.Fprintf(&api, commandsIntro, strings.Join(slices.Compact(groups), ", "))
	if _, err := b.WriteTo(&api); err != nil {
		return fmt.Errorf("write the reference: %w", err)
	}
	if _, err := api.WriteTo(e.stdout); err != nil {
		return fmt.Errorf("write the reference: %w", err)
	}
	return nil
}

// common reports whether a flag is one of all commands, or of all that call the API, and described in the introduction.
func common(f *kong.Flag) bool {
	return f.Name == "help" || f.Tag.Type == settingType || slices.Contains([]string{"server", "api-key-file", "timeout"},
		f.Name)
}

// settingType is the kind of flags that configuration.md describes.
const settingType = "setting"

// reference writes one command with its own arguments and flags.
func reference(b *bytes.Buffer, node *kong.Node) {
	fmt.Fprintf(b, "\n## sallyport %s\n\n%s\n", node.Path(), node.Help)
	rows := [][2]string{}
	for _, a := range node.Positional {
		rows = append(rows, [2]string{a.Summary(), a.Help})
	}
	for _, f := range node.Flags {
		if common(f) {
			continue
		}
		help := f.Help
		if f.HasDefault && f.Default != "" {
			help += " Default: `" + f.Default + "`."
		}
		rows = append(rows, [2]string{flagSummary(f), help})
	}
	if len(rows) == 0 {
		return
	}
	b.WriteString("\n| | |\n|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(b, "| %s | %s |\n", code(r[0]), strings.NewReplacer("|", `\|`, "<", `\<`).Replace(r[1]))
	}
}

func flagSummary(f *kong.Flag) string {
	if f.Tag.Negatable != "" {
		return "--[no-]" + f.Name
	}
	if f.IsBool() {
		return "--" + f.Name
	}
	name := "--" + f.Name + "=" + strings.Trim(f.FormatPlaceHolder(), `"`)
	if f.Required {
		return name + " (required)"
	}
	return name
}

// code marks the written form, and leaves what is said about it outside.
func code(s string) string {
	form, rest, _ := strings.Cut(strings.ReplaceAll(s, "|", `\|`), " (")
	if rest != "" {
		rest = " (" + rest
	}
	return "`" + form + "`" + rest
}
