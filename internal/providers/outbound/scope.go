package outbound

import (
	"maps"
	"slices"
	"strings"
)

// scope is the set of names that a template may have in its place.
type scope map[name]known

// known is what is known of a name before it has a value.
type known struct {
	secret bool
	// field is the field of connection_config; nil for others.
	field *Field
}

// The names of the OAuth client and of a request that is signed.
func clientNames() map[string]bool {
	return map[string]bool{"id": false, "secret": true, "private_key": true}
}

func requestNames() []string {
	return []string{"method", "host", "path", "query", "target", "url", "body", "body_sha256"}
}

// withConfig returns the scope of the fields of connection_config.
func withConfig(fields []Field) scope {
	s := scope{}
	for i := range fields {
		s[name{spaceConfig, fields[i].Name}] = known{secret: fields[i].Secret, field: &fields[i]}
	}
	return s
}

// with returns the scope with more names.
func (s scope) with(space string, names map[string]bool) scope {
	out := maps.Clone(s)
	for key, secret := range names {
		out[name{space, key}] = known{secret: secret}
	}
	return out
}

// check returns a clause about the first name that is not in the scope; empty if there is none.
func (s scope) check(t *template) string {
	for _, n := range t.names() {
		if _, ok := s[n]; !ok {
			return "has ${" + n.String() + "}, which does not exist here; there are " + s.list()
		}
	}
	return ""
}

func (s scope) list() string {
	names := make([]string, 0, len(s))
	for n := range s {
		names = append(names, n.String())
	}
	if len(names) == 0 {
		return "no names"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
