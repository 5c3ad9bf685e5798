package documents

import (
	"bytes"
	"regexp"
)

// Syntax is the notation of a document.
type Syntax string

// The notations. Other is any that is neither, such as the schema language of GraphQL.
const (
	JSON  Syntax = "json"
	YAML  Syntax = "yaml"
	Other Syntax = "other"
)

// firstKey is how a document in YAML begins that is an object: with a key, which GraphQL does not have there.
var firstKey = regexp.MustCompile(`^("[^"\\]*"|'[^']*'|[\w$./-][\w$./ -]*)[ \t]*:([ \t\r]|$)`)

// Sniff returns the notation of a text by its beginning. It does not check the rest.
func Sniff(text []byte) Syntax {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) == 0 || trimmed[0] == '#' { // a comment of YAML and of GraphQL
			text = rest
			continue
		}
		return sniffAt(text, line, trimmed)
	}
	return Other
}

// sniffAt judges by the first line that is no comment, and by what follows a brace.
func sniffAt(text, line, trimmed []byte) Syntax {
	switch c := trimmed[0]; {
	case c == '[':
		return JSON
	case c == '{':
		after := bytes.TrimLeft(bytes.TrimLeft(text, " \t\r\n")[1:], " \t\r\n")
		if len(after) == 0 || after[0] == '"' || after[0] == '}' {
			return JSON
		}
		next, _, _ := bytes.Cut(after, []byte{'\n'})
		if after[0] == '#' || firstKey.Match(next) {
			return YAML
		}
		return Other
	case bytes.HasPrefix(line, []byte("---")), bytes.HasPrefix(line, []byte("%YAML")), firstKey.Match(trimmed):
		return YAML
	default:
		return Other
	}
}
