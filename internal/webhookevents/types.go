package webhookevents

import (
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/db"
)

// wildcard is the segment of a pattern that stands for others.
const wildcard = "*"

// types restricts the list to events whose type is one of those given or fits one of the patterns. What a pattern means is
// defined by internal/subscriptions; a property test holds the SQL to it.
func (w *where) types(engine db.Engine, patterns []string) {
	if slices.Contains(patterns, wildcard) {
		return
	}
	either := make([]string, 0, len(patterns))
	for _, p := range patterns {
		prefix, tail := strings.CutSuffix(p, "."+wildcard)
		switch {
		case strings.Contains(prefix, wildcard):
			either = append(either, w.segments(engine, prefix, tail))
		case tail:
			// Not a range of text, because "." sorts differently among locales, and not LIKE, which folds case on SQLite.
			arg := "CAST(" + w.arg(prefix+".") + " AS text)"
			either = append(either, "substr(e.event_type, 1, length("+arg+")) = "+arg)
		default:
			either = append(either, "e.event_type = "+w.arg(p))
		}
	}
	if len(either) > 0 {
		w.raw("(" + strings.Join(either, " OR ") + ")")
	}
}

// segments is the condition for a pattern with a wildcard among its segments, before a last ".*" if it has that tail: as
// many segments, or more, and none where the pattern has a literal that differs. LIKE and GLOB cannot say it, because their
// wildcards run over dots.
func (w *where) segments(engine db.Engine, pattern string, tail bool) string {
	size, compare := strconv.Itoa(strings.Count(pattern, ".")+1), " = "
	if tail {
		compare = " > "
	}
	if engine == db.Postgres {
		const array = "string_to_array(e.event_type, '.')"
		return "(cardinality(" + array + ")" + compare + size + " AND NOT EXISTS (SELECT 1 FROM unnest(string_to_array(" + w.arg(pattern) +
			", '.')) WITH ORDINALITY p (value, position) WHERE p.value <> '" + wildcard + "' AND p.value <> (" + array + ")[p.position]))"
	}
	// Quoting the text before it is split leaves no character in it that means something to JSON.
	array := func(text string) string { return `('[' || replace(json_quote(` + text + `), '.', '","') || ']')` }
	return "(json_array_length(" + array("e.event_type") + ")" + compare + size + " AND NOT EXISTS (SELECT 1 FROM json_each(" +
		array(w.arg(pattern)) + ") p WHERE p.value <> '" + wildcard + "' AND p.value <> " + array("e.event_type") + " ->> p.key))"
}
