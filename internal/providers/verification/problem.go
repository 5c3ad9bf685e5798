package verification

import (
	"fmt"
	"strings"
)

// Rules that a Problem may name.
const (
	ruleRequired = "required" // a value is missing
	ruleUnknown  = "unknown"  // there is no such name
	ruleEnum     = "enum"     // the value is not one of those accepted
	rulePattern  = "pattern"  // the value does not match the parameter's pattern
	ruleFormat   = "format"   // the value cannot be read as what it has to be
	ruleLimit    = "limit"    // too long or too many
	ruleUnique   = "unique"   // the name is taken
	ruleCoherent = "coherent" // the value contradicts another
)

// Problem is one error in a declaration, or in a connection's settings. It never contains a secret.
type Problem struct {
	// Field is a path into the declaration ("signature[0].from") from Compile; "params.<name>", "params" or "secret" from
	// Prepare.
	Field string
	// Rule is one of the Rule constants.
	Rule string
	// Message says what to change.
	Message string
}

// ConfigError lists every problem found.
type ConfigError struct{ Problems []Problem }

// Error returns the problems in one line.
func (e *ConfigError) Error() string {
	parts := make([]string, len(e.Problems))
	for i, f := range e.Problems {
		parts[i] = f.Field + ": " + f.Message
	}
	return "webhook verification: " + strings.Join(parts, "; ")
}

// problems collects errors, so that all of them are reported together.
type problems []Problem

func (fs *problems) add(field, rule, format string, args ...any) {
	*fs = append(*fs, Problem{Field: field, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

func (fs problems) err() error {
	if len(fs) == 0 {
		return nil
	}
	return &ConfigError{Problems: fs}
}
