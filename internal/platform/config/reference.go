package config

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

const referenceIntro = `# Configuration

Every setting, generated from the code by ` + "`sallyport config reference`" + `; do not edit.

A value comes from the first of these sources that sets it: the flag, the environment variable, the file named by ` + "`--config`" + `, the
default. The file is YAML, one ` + "`key: value`" + ` a line; unknown keys are errors. An empty variable counts as unset. Lists are
separated by commas; in the file they may be YAML lists, and a flag may occur several times. Durations need a unit: ` + "`30s`, `1h`" + `.
All errors are reported together, and ` + "`sallyport config print`" + ` shows each effective value with its source.

| Key in the file | Flag | Variable | Default | Meaning |
|---|---|---|---|---|
`

// Reference writes docs/reference/configuration.md: one table of every setting.
func Reference(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(referenceIntro)
	for _, s := range settings() {
		def := "none"
		switch {
		case s.def != "":
			def = code(s.def)
		case s.derived != "":
			def = s.derived
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(s.file, s.name), cell(s.flag, "--"+s.name),
			cell(s.env, s.variable()), escapeCell(def), escapeCell(s.help))
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("config: write reference: %w", err)
	}
	return nil
}

func cell(has bool, text string) string {
	if !has {
		return "–"
	}
	return code(text)
}

func code(s string) string { return "`" + s + "`" }

// escapeCell keeps text from ending a table's cell or opening an HTML tag.
func escapeCell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`).Replace(s)
}
