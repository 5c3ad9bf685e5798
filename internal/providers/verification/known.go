package verification

import (
	"slices"
	"strings"

	"sallyport/internal/providers/eventtypes"
)

// checkKnown returns the problems of the types that the provider is known to send. No connection needs them, so binding
// leaves them out.
func checkKnown(list []string, rules eventtypes.Rules) problems {
	var fs problems
	if len(list) > maxKnown {
		fs.add("event.known", ruleLimit, "has more than %d entries", maxKnown)
		return fs
	}
	seen := map[string]bool{}
	for i, written := range list {
		field, kind := at("event.known", i), rules.Normal(written)
		switch {
		case strings.Contains(written, paramOpen):
			fs.add(field, ruleFormat, dependent)
		case !printable(kind, maxTypeBytes) || !knownForm(kind):
			fs.add(field, ruleFormat, "must be a type as the provider writes it, or a family of types that ends in a separator "+
				"and *")
		case seen[kind]:
			fs.add(field, ruleUnique, "is listed twice")
		}
		seen[kind] = true
	}
	return fs
}

// dependent is the problem of what is the same for all connections.
const dependent = "must not depend on a parameter: patterns are written by the same rules for all connections"

// knownForm reports whether a type has only whole segments, and no wildcard but for the last of several.
func knownForm(kind string) bool {
	literal := strings.TrimSuffix(kind, "."+eventtypes.Wildcard)
	return !strings.Contains(literal, eventtypes.Wildcard) && !slices.Contains(strings.Split(literal, "."), "")
}

// TypeRules returns the rules that turn types as the provider writes them into those of events.
func (e *Engine) TypeRules() eventtypes.Rules {
	return eventtypes.NewRules(e.decl.Event.TypeSeparators, e.decl.Event.Map)
}

// KnownTypes returns the types that the provider is known to send, in the order of the declaration.
func (e *Engine) KnownTypes() []eventtypes.Known {
	rules := e.TypeRules()
	list := make([]eventtypes.Known, len(e.decl.Event.Known))
	for i, written := range e.decl.Event.Known {
		list[i] = eventtypes.Known{Written: written, Type: rules.Normal(written)}
	}
	return list
}
