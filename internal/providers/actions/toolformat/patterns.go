package toolformat

import (
	"regexp"
	"strings"
)

// maxPattern is the length of the longest regular expression that a definition has, in bytes.
const maxPattern = 200

// simple reports whether a regular expression is one that all readers know, and read alike: RE2 (without look-around),
// and ECMAScript in Unicode mode, in which a needless escape is an error. Flags, names and Unicode's classes are left
// out.
func simple(pattern string) bool {
	if pattern == "" || len(pattern) > maxPattern {
		return false
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return false
	}
	for rest := pattern; rest != ""; {
		var ok bool
		switch rest[0] {
		case '\\':
			rest, ok = afterEscape(rest, false)
		case '[':
			rest, ok = afterClass(rest)
		case '{':
			rest, ok = afterCount(rest)
		case '(':
			ok = !strings.HasPrefix(rest, "(?") || strings.HasPrefix(rest, "(?:")
			rest = strings.TrimPrefix(rest[1:], "?:")
		case ']', '}':
			ok = false
		default:
			rest, ok = rest[1:], true
		}
		if !ok {
			return false
		}
	}
	return true
}

// Characters after a backslash: those that stand for themselves, for classes, and for others.
const (
	syntaxEscapes = `^$\.*+?()[]{}|/`
	classEscapes  = "dDwWsS"
	otherEscapes  = "nrtfv"
)

// afterEscape returns what follows an escape.
func afterEscape(text string, class bool) (rest string, ok bool) {
	if len(text) < 2 {
		return "", false
	}
	c := text[1]
	return text[2:], strings.IndexByte(syntaxEscapes+classEscapes+otherEscapes, c) >= 0 || class && c == '-' ||
		!class && (c == 'b' || c == 'B')
}

// afterCount returns what follows a repetition in braces.
func afterCount(text string) (rest string, ok bool) {
	count, rest, ok := strings.Cut(text[1:], "}")
	digits := strings.Trim(count, "0123456789")
	return rest, ok && count != "" && count[0] != ',' && (digits == "" || digits == ",")
}

// afterClass returns what follows a class in brackets. A class such as \\d is no end of a range.
func afterClass(text string) (rest string, ok bool) {
	rest = strings.TrimPrefix(text[1:], "^")
	if strings.HasPrefix(rest, "]") {
		return "", false
	}
	// set is true if the last member cannot begin a range, and dash if a hyphen follows a member that can.
	set, dash := false, false
	for first := true; rest != ""; first = false {
		switch c := rest[0]; {
		case c == ']':
			return rest[1:], true
		case c == '[':
			return "", false // other modes of ECMAScript read it as a class
		case c == '-' && !first && !dash && !strings.HasPrefix(rest, "-]"):
			if set {
				return "", false
			}
			dash, rest = true, rest[1:]
			continue
		case c == '\\':
			set = len(rest) > 1 && strings.IndexByte(classEscapes, rest[1]) >= 0
			if rest, ok = afterEscape(rest, true); !ok || set && dash {
				return "", false
			}
		default:
			set, rest = false, rest[1:]
		}
		if dash { // a range has ended, after which a hyphen begins none
			set, dash = true, false
		}
	}
	return "", false
}
