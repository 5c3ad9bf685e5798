package events

import (
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/db"
)

// wildcard is the segment of a pattern that matches any segment.
const wildcard = "*"

// anyType restricts the list to events whose type, or the type of a batch's item, is given or matches a given pattern.
// internal/webhooks/subscriptions defines what a pattern means; a property test compares the SQL with it.
func anyType(w *db.Where, engine db.Engine, patterns []string) {
	if len(patterns) == 0 || slices.Contains(patterns, wildcard) {
		return
	}
	items := "json_each(e.event_types) t"
	if engine == db.Postgres {
		items = "json_array_elements_text(e.event_types::json) t (value)"
	}
	w.And("(" + fitsAny(w, engine, "e.event_type", patterns) +
		" OR e.event_types IS NOT NULL AND EXISTS (SELECT 1 FROM " + items + " WHERE " + fitsAny(w, engine, "t.value",
		patterns) +
		"))")
}

// fitsAny returns the condition that a column's type is given or matches a given pattern.
func fitsAny(w *db.Where, engine db.Engine, column string, patterns []string) string {
	either := make([]string, 0, len(patterns))
	for _, p := range patterns {
		prefix, tail := strings.CutSuffix(p, "."+wildcard)
		switch {
		case strings.Contains(prefix, wildcard):
			either = append(either, fitsSegments(w, engine, column, prefix, tail))
		case tail:
			// Not a range of text, because "." sorts differently among locales, and not LIKE, which folds case on SQLite.
			arg := "CAST(" + w.Arg(prefix+".") + " AS text)"
			either = append(either, "substr("+column+", 1, length("+arg+")) = "+arg)
		default:
			either = append(either, column+" = "+w.Arg(p))
		}
	}
	return "(" + strings.Join(either, " OR ") + ")"
}

// fitsSegments returns the condition for a pattern with a wildcard among its segments, before a last ".*" if tail is
// set: as many segments, or more, and the pattern's literals in their places. LIKE and GLOB cannot express it, because
// their wildcards match dots.
func fitsSegments(w *db.Where, engine db.Engine, column, pattern string, tail bool) string {
	size, compare := strconv.Itoa(strings.Count(pattern, ".")+1), " = "
	if tail {
		compare = " > "
	}
	if engine == db.Postgres {
		array := "string_to_array(" + column + ", '.')"
		return "(cardinality(" + array + ")" + compare + size + " AND NOT EXISTS (SELECT 1 FROM unnest(string_to_array(" +
			w.Arg(pattern) +
			", '.')) WITH ORDINALITY p (value, position) WHERE p.value <> '" + wildcard + "' AND p.value <> (" + array +
			")[p.position]))"
	}
	// Quoting the text before it is split leaves no character in it that means something to JSON.
	array := func(text string) string { return `('[' || replace(json_quote(` + text + `), '.', '","') || ']')` }
	return "(json_array_length(" + array(column) + ")" + compare + size + " AND NOT EXISTS (SELECT 1 FROM json_each(" +
		array(w.Arg(pattern)) + ") p WHERE p.value <> '" + wildcard + "' AND p.value <> " + array(column) + " ->> p.key))"
}
