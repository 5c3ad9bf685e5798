package config

import (
	"fmt"
	"strings"
)

// Fault is one thing wrong with the configuration. Message is a clause after the setting's name; it repeats no secret.
type Fault struct {
	// Key is the setting's name, or the unknown key; empty when the file as a whole is at fault.
	Key     string
	Origin  Origin
	Message string
}

// String returns one line: key, place, message.
func (f Fault) String() string {
	var place string
	switch f.Origin.Source {
	case SourceFile:
		place = f.Origin.Name
		if f.Origin.Line > 0 {
			place = fmt.Sprintf("%s, line %d", f.Origin.Name, f.Origin.Line)
		}
	case SourceEnvironment, SourceFlag:
		place = f.Origin.Name
	case SourceDefault:
	}
	switch {
	case f.Key == "":
		return place + ": " + f.Message
	case place == "" || place == "--"+f.Key:
		return f.Key + ": " + f.Message
	}
	return fmt.Sprintf("%s (%s): %s", f.Key, place, f.Message)
}

// Faults are all faults of a configuration, in one error.
type Faults []Fault

// Error lists the faults, one a line.
func (f Faults) Error() string {
	var b strings.Builder
	if len(f) == 1 {
		b.WriteString("the configuration has a fault:")
	} else {
		fmt.Fprintf(&b, "the configuration has %d faults:", len(f))
	}
	for _, one := range f {
		b.WriteString("\n  " + one.String())
	}
	return b.String()
}
