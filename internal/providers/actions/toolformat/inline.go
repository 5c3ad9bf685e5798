package toolformat

import (
	"slices"

	"sallyport/internal/platform/jsonindex"
)

// inliner writes a schema as JSON Schema 2020-12 in which references are replaced by what they refer to.
type inliner struct {
	*reader
	writer
	// depth is how many schemas are within each other, and text how long descriptions are, in bytes.
	depth, text int
	// path are the schemas within which the current one is.
	path []string
	// cut is true if parts are any value, and lost if a limit of values is only in words.
	cut, lost bool
	// written is how many schemas were written, those in texts of their own with them.
	written *int
}

// over reports whether the schema is too large: no schema is shorter than {}.
func (l *inliner) over() bool { return l.writer.over() || *l.written > maxInlined/len("{},") }

// attempt is how much of a schema is written.
type attempt struct{ depth, text int }

// attempts are made until the schema is small enough: the deepest parts go first, then texts.
func attempts() []attempt {
	return []attempt{{32, 1000}, {12, 1000}, {8, 1000}, {8, 300}, {6, 300}, {5, 300}, {4, 300}, {3, 300}, {2, 300},
		{2, 80}, {1, 80}, {1, 0}}
}

// inlined returns the schema of the input for a format that knows no references.
func (d *Definition) inlined(root jsonindex.Value) []byte {
	names := rename(root, propertyForm)
	d.Names = invert(names)
	r := newReader(root)
	r.names = names
	for _, a := range attempts() {
		l := &inliner{reader: r, writer: writer{limit: maxInlined}, depth: a.depth, text: a.text,
			written: new(int)}
		l.top()
		if l.over() {
			continue
		}
		if l.cut {
			d.note(noteCut)
		}
		if l.lost {
			d.note(noteLost)
		}
		return l.out.Bytes()
	}
	d.note(noteLarge)
	return []byte(`{"type":"object","properties":{}}`)
}

// The notes.
const (
	noteCut   = "Its deepest parts are any value: they are too many, or contain themselves."
	noteLost  = "Some limits of its values are in descriptions only."
	noteLarge = "Its schema is too large, so that any object is accepted."
)

// top writes the schema of the input, which is an object without alternatives.
func (l *inliner) top() {
	s := l.reader.top()
	n := l.expand(s)
	if len(n.groups) > 0 || len(n.nots) > 0 || len(n.others) > 0 || n.enum != nil {
		l.lost = true
		n = l.flattened(n)
	}
	l.path = append(l.path, s.key())
	l.object(func(m *members) {
		m.text("type", "object")
		m.count("minProperties", n.minProperties)
		m.count("maxProperties", n.maxProperties)
		l.objectKeywords(m, n, 0, true)
	})
}

// flattened returns an object without alternatives: their properties are optional.
func (r *reader) flattened(n *node) *node {
	flat := *n
	flat.groups, flat.nots, flat.others, flat.enum = nil, nil, nil, nil
	if n.closed {
		return &flat
	}
	flat.properties = slices.Clone(n.properties)
	for _, g := range n.groups {
		for _, b := range g.branches {
			for _, p := range r.expand(schema{{v: b}}).properties {
				if !slices.ContainsFunc(flat.properties, func(q property) bool { return q.name == p.name }) {
					p.required = false
					flat.properties = append(flat.properties, p)
				}
			}
		}
	}
	return &flat
}

// schema writes a schema at a depth.
func (l *inliner) schema(s schema, depth int) {
	n := l.expand(s)
	*l.written++
	switch {
	case n.never():
		l.out.WriteString(`{"not":{}}`)
		return
	case l.over():
		l.out.WriteString("{}")
		return
	}
	key := s.key()
	whole := !n.nested() || depth < l.depth && !slices.Contains(l.path, key)
	l.path = append(l.path, key)
	l.object(func(m *members) {
		l.types(m, n)
		l.describe(m, n)
		if whole {
			l.values(m, n)
			l.nested(m, n, depth)
		} else {
			l.cut = true
			if n.types&tArray != 0 && n.types != tAny {
				m.raw("items", []byte("{}"))
			}
		}
	})
	l.path = l.path[:len(l.path)-1]
}

// nested reports whether a schema has schemas within it.
func (n *node) nested() bool {
	return len(n.properties)+len(n.items)+len(n.prefix)+len(n.more)+len(n.groups)+len(n.nots) > 0
}

func (*inliner) types(m *members, n *node) {
	switch names := n.types.names(); {
	case n.types == tAny:
	case len(names) == 1:
		m.text("type", names[0])
	default:
		m.name("type")
		m.w.strings(names)
	}
}

// describe writes the description, with the regular expression that not all readers know.
func (l *inliner) describe(m *members, n *node) {
	var w words
	if n.pattern != "" && !simple(n.pattern) {
		l.lost = true
		w.explain(&alternative{node: n, kind: n.types & tString}, ^saysPattern)
	}
	m.text("description", w.after(n.description, l.text))
}

// values writes the keywords about values of single types.
func (*inliner) values(m *members, n *node) {
	m.text("format", n.format)
	if n.enum != nil {
		m.list("enum", len(n.enum), func(i int) { m.w.out.WriteString(compact(n.enum[i])) })
	}
	if n.initial.Exists() {
		m.raw("default", []byte(compact(n.initial)))
	}
	m.bound("minimum", n.minimum)
	m.bound("exclusiveMinimum", n.above)
	m.bound("maximum", n.maximum)
	m.bound("exclusiveMaximum", n.below)
	m.raw("multipleOf", n.multipleOf.Raw())
	m.count("minLength", n.minLength)
	m.count("maxLength", n.maxLength)
	if simple(n.pattern) {
		m.text("pattern", n.pattern)
	}
	m.count("minItems", n.minItems)
	m.count("maxItems", n.maxItems)
	m.flag("uniqueItems", n.unique)
	m.count("minProperties", n.minProperties)
	m.count("maxProperties", n.maxProperties)
	m.flag("deprecated", n.deprecated)
}

// nested writes the keywords that have schemas.
func (l *inliner) nested(m *members, n *node, depth int) {
	if len(n.prefix) > 0 {
		m.list("prefixItems", len(n.prefix), func(i int) { l.schema(schema{{v: n.prefix[i]}}, depth+1) })
	}
	if len(n.items) > 0 || n.types&tArray != 0 && n.types != tAny {
		m.name("items")
		l.schema(n.items, depth+1)
	}
	if n.types&tObject != 0 {
		l.objectKeywords(m, n, depth, false)
	}
	l.restrictions(m, n, depth)
}

// objectKeywords writes the members of an object.
func (l *inliner) objectKeywords(m *members, n *node, depth int, always bool) {
	var required []string
	if len(n.properties) > 0 || always {
		m.name("properties")
		l.object(func(properties *members) {
			for _, p := range n.properties {
				if n.closed && !p.required && l.expand(p.schema).never() {
					continue
				}
				properties.name(l.named(p.name))
				l.schema(p.schema, depth+1)
				if p.required {
					required = append(required, l.named(p.name))
				}
			}
		})
	}
	if len(required) > 0 {
		m.name("required")
		m.w.strings(required)
	}
	switch {
	case n.closed:
		m.raw("additionalProperties", []byte("false"))
	case len(n.more) > 0 && !l.expand(n.more).any():
		m.name("additionalProperties")
		l.schema(n.more, depth+1)
	}
}

// restrictions writes what a value must fit in addition: the first of each kind under its keyword, the rest in allOf.
func (l *inliner) restrictions(m *members, n *node, depth int) {
	var rest []string
	for i, g := range n.groups {
		keyword, list := l.branches(g, depth)
		if list == "" {
			continue
		}
		if i == 0 {
			m.raw(keyword, []byte(list))
		} else {
			rest = append(rest, `{"`+keyword+`":`+list+`}`)
		}
	}
	for i, not := range n.nots {
		text, cut := l.apart(schema{{v: not}}, depth+1)
		switch {
		case cut: // what is wider would forbid more
			l.lost = true
		case i == 0:
			m.raw("not", []byte(text))
		default:
			rest = append(rest, `{"not":`+text+`}`)
		}
	}
	for _, o := range n.others {
		if o.name == "pattern" && !simple(o.v.String()) {
			l.lost = true
			continue
		}
		rest = append(rest, `{"`+o.name+`":`+compact(o.v)+`}`)
	}
	if len(rest) > 0 {
		m.list("allOf", len(rest), func(i int) { l.out.WriteString(rest[i]) })
	}
}

// branches writes alternatives. Those of which parts were left out may fit more values, so that more than one may.
func (l *inliner) branches(g group, depth int) (keyword, list string) {
	keyword = "anyOf"
	if g.exact {
		keyword = "oneOf"
	}
	for _, b := range g.branches {
		if l.expand(schema{{v: b}}).never() {
			continue
		}
		text, cut := l.apart(schema{{v: b}}, depth+1)
		if cut {
			keyword, l.cut = "anyOf", true
		}
		if list != "" {
			list += ","
		}
		list += text
	}
	if list == "" {
		return "not", "{}"
	}
	return keyword, "[" + list + "]"
}

// apart writes a schema as a text of its own, and reports whether parts were left out.
func (l *inliner) apart(s schema, depth int) (text string, cut bool) {
	sub := &inliner{reader: l.reader, writer: writer{limit: l.limit - l.out.Len()}, depth: l.depth, text: l.text,
		path: slices.Clone(l.path), written: l.written}
	sub.schema(s, depth)
	l.lost = l.lost || sub.lost
	return sub.out.String(), sub.cut
}
