package filters

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common"
)

// explain describes CEL's errors in plain words. CEL's own texts quote parts of the filter, which may contain a secret,
// and require knowledge of its grammar.
func explain(found []*common.Error) []Violation {
	slices.SortStableFunc(found, func(a, b *common.Error) int {
		return cmp.Or(cmp.Compare(a.Location.Line(), b.Location.Line()), cmp.Compare(a.Location.Column(),
			b.Location.Column()))
	})
	var violations []Violation
	for _, e := range found {
		if strings.HasPrefix(e.Message, "error recovery") && len(found) > 1 {
			continue // the parser has stopped after the errors that it reported
		}
		rule, message := words(e.Message)
		if rule == ruleSyntax && len(violations) > 0 {
			break // later errors say more about the parser than about the filter
		}
		violation := Violation{rule, position(e.Location) + message}
		if !slices.Contains(violations, violation) {
			violations = append(violations, violation)
		}
	}
	return violations
}

var (
	wrongTypes = regexp.MustCompile(`^found no matching overload for '([^']+)' applied to '(.+)'$`)
	noFields   = regexp.MustCompile(`^type '([^']+)' does not support field selection$`)
	otherType  = regexp.MustCompile(`^expected type '([^']+)' but found '([^']+)'$`)
)

func words(message string) (rule, text string) {
	if syntax, ok := strings.CutPrefix(message, "Syntax error: "); ok {
		return ruleSyntax, syntaxWords(syntax)
	}
	switch {
	case strings.Contains(message, "recursion"), strings.Contains(message, "node count"):
		return ruleCost, "the filter is nested too deep, or too large"
	case strings.HasPrefix(message, "undefined field"):
		return ruleReference, "the event has no such field; it has " + strings.Join(fieldNames(fields()), ", ")
	case strings.HasPrefix(message, "undeclared reference"):
		return ruleReference, "there is no variable or function with this name; what came in is in event"
	case strings.HasPrefix(message, "invalid argument to has"):
		return ruleSyntax, "has() takes a field, such as has(event.body.action)"
	case strings.HasPrefix(message, "reserved identifier"):
		return ruleSyntax, "the word is reserved"
	case strings.HasPrefix(message, "argument must be a simple name"):
		return ruleSyntax, "the variable of a loop must be a simple name"
	case strings.HasPrefix(message, "invalid") && strings.HasSuffix(message, "literal"):
		return ruleSyntax, "the number or text cannot be read"
	case message == "invalid timestamp argument":
		return ruleType, "timestamp() takes a time such as 2030-01-31T12:00:00Z"
	case message == "invalid duration argument":
		return ruleType, "duration() takes a duration such as 90s or 1h30m"
	}
	if m := wrongTypes.FindStringSubmatch(message); m != nil {
		return ruleType, readable(m[1]) + " cannot take " + m[2]
	}
	if m := noFields.FindStringSubmatch(message); m != nil {
		return ruleType, m[1] + " has no fields"
	}
	if m := otherType.FindStringSubmatch(message); m != nil {
		return ruleType, "expected " + m[1] + " and found " + m[2]
	}
	return ruleSyntax, "the expression is not valid here"
}

func syntaxWords(message string) string {
	token, ok := strings.CutPrefix(message, "token recognition error at: '")
	switch {
	case ok && strings.HasPrefix(token, "="):
		return "a single = compares nothing; write =="
	case ok && (strings.HasPrefix(token, `"`) || strings.HasPrefix(token, `'`)):
		return "the text that begins here does not end, or has an escape that CEL does not know"
	case strings.Contains(message, "input '<EOF>'"):
		return "the expression is incomplete"
	default:
		return "the expression cannot be read from here on"
	}
}

// readable turns CEL's name of an operator or function into what people write.
func readable(name string) string {
	switch {
	case name == "@in" || name == "_in_":
		return "in"
	case strings.Contains(name, "_"):
		if symbol := strings.Trim(name, "_"); !strings.ContainsFunc(symbol, isLetter) {
			return strings.ReplaceAll(symbol, "_", "")
		}
	}
	return name + "()"
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
