package config

import (
	"fmt"
	"strings"
)

// problem is one error of the configuration. Message is a clause after the setting's name, and contains no secret.
type problem struct {
	// Key is the setting's name, or the unknown key. It is empty if the error concerns the whole file.
	Key     string
	Origin  settingOrigin
	Message string
}

// String returns one line: key, place, message.
func (f problem) String() string {
	var place string
	switch f.Origin.Source {
	case sourceFile:
		place = f.Origin.Name
		if f.Origin.Line > 0 {
			place = fmt.Sprintf("%s, line %d", f.Origin.Name, f.Origin.Line)
		}
	case sourceEnvironment, sourceFlag:
		place = f.Origin.Name
	case sourceDefault:
	}
	switch {
	case f.Key == "":
		return place + ": " + f.Message
	case place == "" || place == "--"+f.Key:
		return f.Key + ": " + f.Message
	}
	return fmt.Sprintf("%s (%s): %s", f.Key, place, f.Message)
}

// problemList lists all errors of a configuration.
type problemList []problem

// Error returns the errors, one a line.
func (f problemList) Error() string {
	var b strings.Builder
	if len(f) == 1 {
		b.WriteString("the configuration has an error:")
	} else {
		fmt.Fprintf(&b, "the configuration has %d errors:", len(f))
	}
	for _, one := range f {
		b.WriteString("\n  " + one.String())
	}
	return b.String()
}
