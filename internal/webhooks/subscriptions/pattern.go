package subscriptions

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/internal/providers/eventtypes"
)

// maxPatternLength limits an event-type pattern, in characters.
const maxPatternLength = 256

// wildcard is the segment that stands for any one segment. A literal segment never equals it.
const wildcard = "*"

// Pattern is a parsed event-type pattern. Types and patterns are split on dots. A literal segment compares
// case-sensitively. A segment "*" matches exactly one segment of any content, and a last segment "*" one or more.
type Pattern struct {
	// segments are those before a last "*".
	segments []string
	// tail is true if one or more further segments follow. Without segments the pattern then matches every type.
	tail bool
}

// PatternError says why a text is not a pattern. It contains no part of the text.
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
	case utf8.RuneCountInString(text) > maxPatternLength:
		return Pattern{}, &PatternError{"max_length", fmt.Sprintf("must be at most %d characters", maxPatternLength)}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unprintable):
		return Pattern{}, &PatternError{"pattern", "must contain only printable characters and no spaces"}
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

// PatternViolation says why no provider's rules can make a pattern of a text; nil if some could. Whether they do is
// checked where the rules are known.
func PatternViolation(text string) *PatternError {
	_, violation := parsePattern(text)
	foreign := strings.Contains(text, wildcard) && !eventtypes.FitsNowhere(text) || strings.Contains(text, " ")
	if violation == nil || violation.Rule == "pattern" && foreign && !strings.ContainsFunc(text, func(r rune) bool {
		return r != ' ' && unprintable(r)
	}) {
		return nil
	}
	return violation
}

// TypeFilterViolation is PatternViolation for a text that may also be just a type. It is for the filters of lists,
// which check lengths themselves.
func TypeFilterViolation(s string) *PatternError {
	if !strings.Contains(s, wildcard) {
		return nil
	}
	if violation := PatternViolation(s); violation != nil && violation.Rule == "pattern" {
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

// equal reports whether the patterns have the same text.
func (p Pattern) equal(other Pattern) bool {
	return p.tail == other.tail && slices.Equal(p.segments, other.segments)
}

// Matches reports whether the event type matches the pattern. It defines what the index must return.
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

// overlaps reports whether some type matches both patterns.
func (p Pattern) overlaps(other Pattern) bool {
	for i := range max(len(p.segments), len(other.segments)) {
		if i >= len(p.segments) || i >= len(other.segments) {
			return i >= len(p.segments) && p.tail || i >= len(other.segments) && other.tail
		}
		if a, b := p.segments[i], other.segments[i]; a != b && a != wildcard && b != wildcard {
			return false
		}
	}
	return p.tail == other.tail
}

// matchesOwn reports whether the type of one of the gateway's own events matches the pattern. The pattern must name the
// type's first segment: a pattern for everything selects the events of providers.
func (p Pattern) matchesOwn(eventType string) bool {
	return len(p.segments) > 0 && p.segments[0] != wildcard && p.Matches(eventType)
}
