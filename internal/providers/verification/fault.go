package verification

import (
	"fmt"
	"strings"
)

// Rules that a Fault may name.
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

// Fault is one thing wrong with a declaration, or with what a connection set. It never contains a secret.
type Fault struct {
	// Field is a path into the declaration ("signature[0].from") from Compile; "params.<name>", "params" or "secret" from
	// Prepare.
	Field string
	// Rule is one of the Rule constants.
	Rule string
	// Message says what to change.
	Message string
}

// ConfigError carries every fault found.
type ConfigError struct{ Faults []Fault }

// Error lists the faults in one line.
func (e *ConfigError) Error() string {
	parts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		parts[i] = f.Field + ": " + f.Message
	}
	return "webhook verification: " + strings.Join(parts, "; ")
}

// faults collects what is wrong, so that all of it is reported at once.
type faults []Fault

func (fs *faults) add(field, rule, format string, args ...any) {
	*fs = append(*fs, Fault{Field: field, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

func (fs faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	return &ConfigError{Faults: fs}
}
