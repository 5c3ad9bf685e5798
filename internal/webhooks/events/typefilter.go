package events

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/eventtypes"
)

// wildcard is the segment of a pattern that matches any segment.
const wildcard = eventtypes.Wildcard

// anyType restricts the list to events whose type, or the type of a batch's item, is given or matches a given pattern,
// in one of its forms. internal/webhooks/subscriptions defines what a pattern means; a property test compares the SQL
// with it.
func (s *Store) anyType(w *db.Where, patterns []string, forms []Form) {
	if len(patterns) == 0 || slices.Contains(patterns, wildcard) {
		return
	}
	if len(forms) == 0 {
		w.And("1 = 0")
		return
	}
	engine, items := s.db.Engine(), "json_each(e.event_types) t"
	if engine == db.Postgres {
		items = "json_array_elements_text(e.event_types::json) t (value)"
	}
	w.And("(" + fitsAny(w, engine, "e.event_type", forms) +
		" OR e.event_types IS NOT NULL AND EXISTS (SELECT 1 FROM " + items + " WHERE " +
		fitsAny(w, engine, "t.value", forms) + "))")
}

// Form is a form of a type or pattern.
type Form struct {
	eventtypes.Form
	// Keys are the configurations of the form's provider in an environment, if the form has one.
	Keys []string
}

// Of reports whether the form applies to events like e: all events if it has no provider, and otherwise those of the
// provider and those that were published about its connections.
func (f *Form) Of(e *Event) bool {
	return f.Provider == "" || f.Provider == e.Provider ||
		e.Provider == OwnProvider && slices.Contains(f.Keys, e.ProviderConfigKey)
}

// Forms returns the forms of a filter's types and patterns, for the events of an environment.
func (s *Store) Forms(ctx context.Context, env id.Environment, patterns []string) ([]Form, error) {
	var forms []Form
	for _, p := range patterns {
		for _, f := range eventtypes.Forms(s.types, p) {
			form := Form{Form: f}
			if f.Provider != "" {
				form.Keys = []string{f.Provider}
				if s.configs != nil {
					var err error
					if form.Keys, err = s.configs.KeysOf(ctx, env, f.Provider); err != nil {
						return nil, err
					}
				}
			}
			forms = append(forms, form)
		}
	}
	return forms, nil
}

// fitsAny returns the condition that a column's type has or matches one of the forms.
func fitsAny(w *db.Where, engine db.Engine, column string, forms []Form) string {
	either := make([]string, 0, len(forms))
	for _, f := range forms {
		condition := fits(w, engine, column, f.Text)
		if f.Provider != "" {
			condition = "((e.provider = " + w.Arg(f.Provider) + " OR e.provider = " + w.Arg(OwnProvider) +
				" AND e.provider_config_key IN " + db.List(w, f.Keys) + ") AND " + condition + ")"
		}
		either = append(either, condition)
	}
	return "(" + strings.Join(either, " OR ") + ")"
}

// fits returns the condition that a column's type is given or matches a given pattern.
func fits(w *db.Where, engine db.Engine, column, pattern string) string {
	if pattern == wildcard {
		return "1 = 1"
	}
	prefix, tail := strings.CutSuffix(pattern, "."+wildcard)
	switch {
	case strings.Contains(prefix, wildcard):
		return fitsSegments(w, engine, column, prefix, tail)
	case tail:
		// Not a range of text, because "." sorts differently among locales, and not LIKE, which folds case on SQLite.
		arg := "CAST(" + w.Arg(prefix+".") + " AS text)"
		return "substr(" + column + ", 1, length(" + arg + ")) = " + arg
	default:
		return column + " = " + w.Arg(pattern)
	}
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
