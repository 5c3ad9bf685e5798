package outbound

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one error in a declaration, in a connection's settings, or in a request that is rendered from them. It
// never contains a value of a connection.
type Problem struct {
	// Field is a path into the declaration ("auth[0].token_url") from Compile; else "connection_config.<name>",
	// "credentials.<name>", "client.<name>", "base_url", "mode", "path", "query" or "header".
	Field string
	// Message says what to change.
	Message string
}

// ConfigError lists every problem found.
type ConfigError struct{ Problems []Problem }

// Error returns the problems in one line.
func (e *ConfigError) Error() string {
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = p.Field + ": " + p.Message
	}
	return "requests to the provider: " + strings.Join(parts, "; ")
}

// problems collects errors, so that all of them are reported together.
type problems []Problem

func (ps *problems) add(field, format string, args ...any) {
	*ps = append(*ps, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// unique returns every problem once: what a definition has for all modes is checked for each.
func (ps problems) unique() problems {
	seen := map[Problem]bool{}
	return slices.DeleteFunc(ps, func(p Problem) bool {
		known := seen[p]
		seen[p] = true
		return known
	})
}

func (ps problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return &ConfigError{Problems: ps}
}

// refuse returns an error with one problem.
func refuse(field, message string) error {
	return &ConfigError{Problems: []Problem{{Field: field, Message: message}}}
}

// at names an entry of a list.
func at(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// under names a field of a mapping.
func under(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// short cuts a name that a caller made up.
func short(name string) string {
	const most = 64
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}
