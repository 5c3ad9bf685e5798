package reference

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// CommandLine is the command line that Commands describes.
type CommandLine struct {
	Model *kong.Application
	// CallsAPI reports whether a command works through the API of a server.
	CallsAPI func(command *kong.Node) bool
	// ServerVariable and KeyVariable are the environment variables that name the server and the API key.
	ServerVariable, KeyVariable string
}

const commandsIntro = `# Commands

Generated from the code by ` + "`sallyport commands`" + `; do not edit.

Every command also takes the settings of [configuration.md](configuration.md), as flags, as variables or in the file that
` + "`--config`" + ` names. Commands write results to standard output and everything else to standard error.

| Exit code | Meaning |
|---|---|
| 0 | success |
| 1 | the command failed, also because a file cannot be read or is empty; standard error says why |
| 2 | the command line, the configuration or a given value is invalid, even if only the server could detect that |
| 3 | only ` + "`migrate --status`" + `: migrations are pending |

` + "`webhooks verify`" + ` exits with 2 for every failure, because its 1 means that the request is rejected.

**Commands that call the API** (%s) work from any machine. They need:

- *The server*: ` + "`--server=URL`" + `, else the variable ` + "`%s`" + `, else the public URL of the configuration, which
  is ` + "`http://127.0.0.1:8080`" + ` by default. ` + "`http://`" + ` is for servers on the same machine. For another machine it needs
  ` + "`--egress-allow-http`" + `, because the key then crosses the network unencrypted. ` + "`SSL_CERT_FILE`" + ` names your own root certificates.
- *An API key*: ` + "`--api-key-file=PATH`" + `, else the variable ` + "`%s`" + `. There is no flag for the key itself, because command
  lines appear in histories and process lists. Next to a server in development mode you need neither a key nor a URL: the
  command reads both from the data folder.
- *A timeout* for each request: ` + "`--timeout=DURATION`" + `, 30 s by default.

On a terminal they print tables, cut to its width and coloured (unless ` + "`NO_COLOR`" + ` is set). Elsewhere tables are complete and
plain. With ` + "`--json`" + ` they print the API's response: one object, or one array for a list. ` + "`events tail`" + ` prints one object a line.
Text from other people is escaped, so that it cannot control the terminal. An error of the API is one line with its message, each
validation error, the HTTP status code, the code from [error-codes.md](error-codes.md) and the request id in the server's log.
`

// Commands writes docs/reference/commands.md: every command with its arguments and flags.
func Commands(w io.Writer, c CommandLine) error {
	var commands, page bytes.Buffer
	var groups []string
	local := map[string]bool{} // groups with commands that do not call the API
	for _, node := range c.Model.Leaves(true) {
		writeCommand(&commands, node)
		if !c.CallsAPI(node) {
			local[strings.Fields(node.Path())[0]] = true
		}
	}
	for _, node := range c.Model.Leaves(true) {
		name := strings.Fields(node.Path())[0]
		if local[name] {
			name = node.Path()
		}
		if c.CallsAPI(node) {
			groups = append(groups, "`"+name+"`")
		}
	}
	fmt.Fprintf(&page, commandsIntro, strings.Join(slices.Compact(groups), ", "), c.ServerVariable, c.KeyVariable)
	if _, err := commands.WriteTo(&page); err != nil {
		return fmt.Errorf("write the commands: %w", err)
	}
	if _, err := page.WriteTo(w); err != nil {
		return fmt.Errorf("write the commands: %w", err)
	}
	return nil
}

// common reports whether a flag belongs to all commands, or to all that call the API, so that the introduction
// describes it.
func common(f *kong.Flag) bool {
	return f.Name == "help" || f.Tag.Type == settingType || slices.Contains([]string{"server", "api-key-file", "timeout"},
		f.Name)
}

// settingType is the kind of flags that configuration.md describes.
const settingType = "setting"

// writeCommand writes one command with its own arguments and flags.
func writeCommand(b *bytes.Buffer, node *kong.Node) {
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

// code puts the written form into a code span and leaves the rest outside.
func code(s string) string {
	form, rest, _ := strings.Cut(strings.ReplaceAll(s, "|", `\|`), " (")
	if rest != "" {
		rest = " (" + rest
	}
	return "`" + form + "`" + rest
}
