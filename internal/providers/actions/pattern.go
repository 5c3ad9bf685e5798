package actions

import (
	"slices"
	"strings"
)

// maxPattern is the length of the longest pattern of names, in bytes.
const maxPattern = 100

// ValidPattern reports whether a text is a pattern of names of actions: one that MatchName can match.
func ValidPattern(text string) bool {
	return text != "" && len(text) <= maxPattern && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '*'
	})
}

// IsChosen reports whether patterns leave an action: one of include matches its name, if there are any, and none of
// exclude does.
func IsChosen(include, exclude []string, name string) bool {
	matches := func(pattern string) bool { return MatchName(pattern, name) }
	return (len(include) == 0 || slices.ContainsFunc(include, matches)) && !slices.ContainsFunc(exclude, matches)
}

// MatchName reports whether a pattern matches the whole name of an action. * stands for any characters, also for none.
func MatchName(pattern, name string) bool {
	head, rest, open := strings.Cut(pattern, "*")
	if !open {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		var piece string
		piece, rest, open = strings.Cut(rest, "*")
		if !open {
			return strings.HasSuffix(name, piece)
		}
		i := strings.Index(name, piece)
		if i < 0 {
			return false
		}
		name = name[i+len(piece):]
	}
}
