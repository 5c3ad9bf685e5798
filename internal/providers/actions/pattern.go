package actions

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/internal/platform/plaintext"
)

const (
	// maxPattern is the length of the longest pattern of names, in bytes, and maxChoice that of what chooses actions.
	maxPattern, maxChoice = 100, 300
	// tagMark begins a choice by tag.
	tagMark = "tag:"
	anyMark = "*"
	deep    = "**"
)

// ValidPattern reports whether a text is a pattern of names of actions: one that MatchName can match.
func ValidPattern(text string) bool {
	return text != "" && len(text) <= maxPattern && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '*'
	})
}

// Subject is what chooses an action, or leaves it out.
type Subject struct {
	Name, Method, Path string
	Tags               []string
}

// Subject returns what chooses the action.
func (a *Action) Subject() Subject { return Subject{a.Name, a.Method, a.Path, a.Tags} }

// Subject returns what chooses the action.
func (s *Summary) Subject() Subject { return Subject{s.Name, s.Method, s.Path, s.Tags} }

// IsChosen reports whether two lists leave an action: one of include matches it, if there are any, and none of exclude
// does. CheckChoice says which forms there are.
func IsChosen(include, exclude []string, s Subject) bool {
	matches := func(choice string) bool { return s.matches(choice) }
	return (len(include) == 0 || slices.ContainsFunc(include, matches)) && !slices.ContainsFunc(exclude, matches)
}

// matches reports whether a choice, which is a valid one, is of the action.
func (s *Subject) matches(choice string) bool {
	if tag, ok := strings.CutPrefix(choice, tagMark); ok {
		if !strings.Contains(tag, anyMark) {
			return slices.ContainsFunc(s.Tags, func(of string) bool { return strings.EqualFold(tag, of) })
		}
		tag = strings.ToLower(tag)
		return slices.ContainsFunc(s.Tags, func(of string) bool { return MatchName(tag, strings.ToLower(of)) })
	}
	if method, path, ok := strings.Cut(choice, " "); ok {
		if method != anyMark && method != s.Method {
			return false
		}
		// Most paths begin differently, which costs less to see than to split them.
		begin := path
		if i := strings.IndexAny(path, "*{"); i >= 0 {
			begin = path[:i]
		}
		return strings.HasPrefix(strings.TrimPrefix(s.Path, "/"), strings.Trim(begin, "/")) &&
			matchPath(segmentsOf(path), segmentsOf(s.Path))
	}
	return MatchName(choice, s.Name)
}

// segmentsOf splits a path or a pattern of paths. The names of parameters do not matter.
func segmentsOf(path string) []string {
	return strings.Split(strings.TrimPrefix(UnnamedPath(path), "/"), "/")
}

// UnnamedPath returns a path without the names of its parameters.
func UnnamedPath(path string) string {
	if !strings.Contains(path, "{") {
		return path
	}
	var b strings.Builder
	for {
		head, rest, found := strings.Cut(path, "{")
		b.WriteString(head)
		if !found {
			return b.String()
		}
		if _, path, found = strings.Cut(rest, "}"); !found {
			return b.String()
		}
		b.WriteString("{}")
	}
}

// matchPath reports whether a pattern matches a whole path. A segment ** stands for any number of segments, also for
// none, and * for any characters of one.
func matchPath(pattern, path []string) bool {
	p, at := 0, 0
	last, resume := -1, 0 // the last **, and where to go on after it has taken one segment more
	for at < len(path) {
		switch {
		case p < len(pattern) && pattern[p] == deep:
			last, resume = p, at
			p++
		case p < len(pattern) && MatchName(pattern[p], path[at]):
			p, at = p+1, at+1
		case last >= 0:
			resume++
			p, at = last+1, resume
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == deep {
		p++
	}
	return p == len(pattern)
}

// methods are those that actions have.
func methods() []string {
	return []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "QUERY"}
}

// CheckChoice returns what is wrong with a text that is to choose actions, as the end of a sentence; empty for a valid
// one. It has one of three forms:
//   - a pattern of names, in which * stands for any characters: list_*
//   - tag: and a tag, in any case and with * likewise: tag:billing
//   - a method, or * for any, and the path of the action. Its segment ** stands for any number of segments, also for
//     none, * for any characters of one, and the name of a parameter does not matter: GET /v1/invoices/**
func CheckChoice(text string) string {
	switch {
	case text == "":
		return "must not be empty; " + choiceForms
	case len(text) > maxChoice:
		return fmt.Sprintf("must be at most %d bytes", maxChoice)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, plaintext.IsControl):
		return "must be text without control characters"
	}
	if tag, ok := strings.CutPrefix(text, tagMark); ok {
		if strings.TrimSpace(tag) != tag || tag == "" {
			return "must have a tag directly after tag:, such as tag:billing"
		}
		return ""
	}
	method, path, isRequest := strings.Cut(text, " ")
	switch {
	case !isRequest && strings.HasPrefix(text, "/"):
		return "must have a method before the path, or * for any, such as * /v1/invoices/**"
	case isRequest && method != anyMark && !slices.Contains(methods(), method):
		return "must begin with a method in capitals, or * for any, such as GET /v1/invoices/**; " + choiceForms
	case isRequest:
		return checkPath(path)
	case !ValidPattern(text):
		return choiceForms
	}
	return ""
}

const choiceForms = "must be a pattern of names of actions, in which * stands for any characters, such as list_*; a " +
	"tag, such as tag:billing; or a method and a path, such as GET /v1/invoices/**"

// checkPath checks the path of a choice.
func checkPath(path string) string {
	switch {
	case !strings.HasPrefix(path, "/"):
		return "must have a path that begins with / after the method and one blank"
	case strings.ContainsFunc(path, unicode.IsSpace):
		return "must have a path without blanks"
	}
	for segment := range strings.SplitSeq(path, "/") {
		if strings.Contains(segment, deep) && segment != deep {
			return "must have ** as a whole segment of the path; within one, * stands for any characters"
		}
		if !closesBraces(segment) {
			return "must close each brace of the path in its segment, as in {id}"
		}
	}
	return ""
}

// closesBraces reports whether braces are pairs, none of which is within another one.
func closesBraces(segment string) bool {
	open := false
	for _, c := range segment {
		switch {
		case c == '{' && open || c == '}' && !open:
			return false
		case c == '{' || c == '}':
			open = !open
		}
	}
	return !open
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
