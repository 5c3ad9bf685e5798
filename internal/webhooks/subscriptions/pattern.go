package subscriptions

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPatternLength bounds an event-type pattern, in characters.
const MaxPatternLength = 256

// wildcard is the segment that stands for any one segment. A literal segment never equals it.
const wildcard = "*"

// Pattern is a parsed event-type pattern. Types and patterns are split on dots. A literal segment compares
// case-sensitively, a segment "*" stands for exactly one segment of any content, and a last segment "*" for one or
// more.
type Pattern struct {
	// segments are those before a last "*".
	segments []string
	// tail says that one or more further segments follow; without segments it matches every type.
	tail bool
}

// PatternError says why a text is no pattern. It repeats no part of the text.
type PatternError struct {
	// Rule is the name of the rule that failed, as in apperr.Detail.
	Rule    string
	Message string
}

// Error returns the message.
func (e *PatternError) Error() string { return e.Message }

// ParsePattern parses a pattern. Its error is a *PatternError.
func ParsePattern(text string) (Pattern, error) {
	p, violation := parsePattern(text)
	if violation != nil {
		return Pattern{}, violation
	}
	return p, nil
}

func parsePattern(text string) (Pattern, *PatternError) {
	switch {
	case text == "":
		return Pattern{}, &PatternError{"min_length", "must not be empty"}
	case utf8.RuneCountInString(text) > MaxPatternLength:
		return Pattern{}, &PatternError{"max_length", fmt.Sprintf("must be at most %d characters", MaxPatternLength)}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unprintable):
		return Pattern{}, &PatternError{"pattern", "must hold printable characters only, and no blanks"}
	}
	segments := strings.Split(text, ".")
	for _, s := range segments {
		switch {
		case s == "":
			return Pattern{}, &PatternError{"pattern", "must not have an empty segment"}
		case s != wildcard && strings.Contains(s, wildcard):
			return Pattern{}, &PatternError{"pattern", "* must be a whole segment"}
		}
	}
	if last := len(segments) - 1; segments[last] == wildcard {
		return Pattern{segments: segments[:last], tail: true}, nil
	}
	return Pattern{segments: segments}, nil
}

// TypeFilterViolation says why s, which is not just a type, is no pattern either; nil where it is one. It is for the
// filters of lists, which take both; what they say of lengths they check themselves.
func TypeFilterViolation(s string) *PatternError {
	if !strings.Contains(s, wildcard) {
		return nil
	}
	if _, violation := parsePattern(s); violation != nil && violation.Rule == "pattern" {
		return violation
	}
	return nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }

// String returns the pattern's text.
func (p Pattern) String() string {
	text := strings.Join(p.segments, ".")
	switch {
	case !p.tail:
		return text
	case text == "":
		return wildcard
	default:
		return text + "." + wildcard
	}
}

// Matches reports whether the event type fits the pattern. It defines what the index must answer.
func (p Pattern) Matches(eventType string) bool {
	segments := strings.Split(eventType, ".")
	if len(segments) < len(p.segments) || (len(segments) > len(p.segments)) != p.tail {
		return false
	}
	for i, s := range p.segments {
		if s != wildcard && s != segments[i] {
			return false
		}
	}
	return true
}

// MatchesOwn reports whether the type of an event of the gateway's own fits the pattern: the pattern must name its
// first segment. Whoever asks for everything means what providers send.
func (p Pattern) MatchesOwn(eventType string) bool {
	return len(p.segments) > 0 && p.segments[0] != wildcard && p.Matches(eventType)
}
