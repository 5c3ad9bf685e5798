package toolformat

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// strict writes a schema in the subset of Structured Outputs, in which every property is required and objects have no
// others. failed is true if the schema cannot be written so.
type strict struct {
	*reader
	writer
	failed, lost bool
	// nulls is true if there is a property that may be absent or null.
	nulls bool
	path  []string
	// definitions are the schemas that are referred to, in the order of their first reference.
	definitions []jsonindex.Value
	defined     map[uint32]string
	taken       map[string]bool
}

// maxStrict is the size of the largest strict schema, in bytes.
const maxStrict = 112 << 10

// exactly is how far numbers are exact in all readers.
const exactly = 1 << 53

// strictly returns the schema of the input in strict mode; false if it cannot be written so.
func (d *Definition) strictly(root jsonindex.Value) ([]byte, bool) {
	names := rename(root, propertyForm)
	r := newReader(root)
	r.names = names
	s := &strict{reader: r, writer: writer{limit: maxStrict}, defined: map[uint32]string{}, taken: map[string]bool{}}
	c := r.alternatives(r.top())
	if len(c.list) != 1 || c.null || c.lost || c.any || c.list[0].kind != tObject || c.list[0].node.enum != nil {
		return nil, false
	}
	s.object(func(m *members) {
		m.text("type", "object")
		s.objectKeywords(m, c.list[0].node)
		s.writeDefinitions(m)
	})
	// In strict mode null stands for an absent property. Where null means something, such as the removal of a value, that
	// would change what a call does.
	if s.failed || s.over() || s.nulls {
		return nil, false
	}
	d.Names = invert(names)
	if s.lost {
		d.note(noteLost)
	}
	return s.out.Bytes(), true
}

func (s *strict) writeDefinitions(m *members) {
	if len(s.definitions) == 0 {
		return
	}
	m.name("$defs")
	s.object(func(definitions *members) {
		for i := 0; i < len(s.definitions) && !s.failed; i++ { // writing one may add more
			definitions.name(s.defined[s.definitions[i].ID()])
			s.path = nil
			s.alternativesOf(schema{{v: s.definitions[i]}}, false, "")
		}
	})
}

// schema writes a schema. null is true if null is accepted in addition.
func (s *strict) schema(sc schema, null bool) {
	if s.failed = s.failed || s.over(); s.failed {
		s.out.WriteString("{}")
		return
	}
	target, text := s.reference(sc)
	if !target.Exists() || !s.isContainer(target) {
		s.alternativesOf(sc, null, "")
		return
	}
	ref := "#/$defs/" + s.define(target)
	s.object(func(m *members) {
		if text == "" && !null {
			m.text("$ref", ref)
			return
		}
		m.text("description", cut(text, maxProperty))
		m.list("anyOf", map[bool]int{false: 1, true: 2}[null], func(i int) {
			if i == 0 {
				s.object(func(m *members) { m.text("$ref", ref) })
			} else {
				s.out.WriteString(`{"type":"null"}`)
			}
		})
	})
}

// maxProperty is the length of the longest description of a property, in bytes.
const maxProperty = 1000

// isContainer reports whether values of a schema are arrays or objects, or whether it has alternatives.
func (s *strict) isContainer(v jsonindex.Value) bool {
	c := s.alternatives(schema{{v: v}})
	return len(c.list) > 1 || len(c.list) == 1 && c.list[0].kind&(tArray|tObject) != 0
}

// definitionForm is what the name of a definition consists of.
var definitionForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// define returns the name of a definition: the one that it has.
func (s *strict) define(v jsonindex.Value) string {
	if name, known := s.defined[v.ID()]; known {
		return name
	}
	base := "schema"
	for name, value := range s.root.Get("$defs").Members() {
		if value.ID() == v.ID() && definitionForm.MatchString(name) {
			base = name
		}
	}
	name := base
	for i := 2; s.taken[name]; i++ {
		name = cutName(base, 56) + "_" + strconv.Itoa(i)
	}
	s.taken[name], s.defined[v.ID()] = true, name
	s.definitions = append(s.definitions, v)
	return name
}

// alternativesOf writes a schema where it stands.
func (s *strict) alternativesOf(sc schema, null bool, text string) {
	key := sc.key()
	c := s.alternatives(sc)
	if c.any || c.lost || c.never() || slices.Contains(s.path, key) {
		s.failed = true
		s.out.WriteString("{}")
		return
	}
	s.path = append(s.path, key)
	defer func() { s.path = s.path[:len(s.path)-1] }()
	n := s.expand(sc)
	s.note(n)
	if text == "" {
		text = n.description
	}
	null = null || c.null
	switch len(c.list) {
	case 0:
		s.object(func(m *members) {
			m.text("type", "null")
			m.text("description", cut(text, maxProperty))
		})
	case 1:
		s.object(func(m *members) { s.single(m, &c.list[0], null, text) })
	default:
		s.object(func(m *members) {
			m.text("description", cut(text, maxProperty))
			m.list("anyOf", len(c.list)+map[bool]int{true: 1}[null], func(i int) {
				if i == len(c.list) {
					s.out.WriteString(`{"type":"null"}`)
					return
				}
				s.object(func(m *members) { s.single(m, &c.list[i], false, c.list[i].text) })
			})
		})
	}
}

// note notes what strict mode does not say.
func (s *strict) note(n *node) {
	if len(n.nots) > 0 || len(n.others) > 0 || n.lost {
		s.lost = true
	}
	for _, g := range n.groups {
		s.lost = s.lost || g.exact
	}
}

// strictFormats are the formats of strings that strict mode knows.
func strictFormats() []string {
	return []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
}

// single writes an alternative.
func (s *strict) single(m *members, a *alternative, null bool, text string) {
	n := a.node
	if null {
		m.name("type")
		s.strings([]string{a.kind.name(), "null"})
	} else {
		m.text("type", a.kind.name())
	}
	has := saysEnum | saysExclusive | saysMultiple | saysItems
	if slices.Contains(strictFormats(), n.format) {
		has |= saysFormat
	}
	if simple(n.pattern) {
		has |= saysPattern
	} else if n.pattern != "" && a.kind&tString != 0 {
		s.lost = true
	}
	var w words
	w.explain(a, has)
	m.text("description", w.after(text, maxProperty))
	s.note(n)
	s.enum(m, a, null)
	switch {
	case a.kind&tString != 0:
		s.lost = s.lost || n.minLength != nil || n.maxLength != nil
		if has&saysFormat != 0 {
			m.text("format", n.format)
		}
		if has&saysPattern != 0 {
			m.text("pattern", n.pattern)
		}
	case a.kind&tNumber != 0:
		for _, b := range []struct {
			name string
			*bound
		}{{"minimum", n.minimum}, {"exclusiveMinimum", n.above}, {"maximum", n.maximum}, {"exclusiveMaximum", n.below}} {
			if b.bound != nil && math.Abs(b.value) <= exactly {
				m.bound(b.name, b.bound)
			} else {
				s.lost = s.lost || b.bound != nil
			}
		}
		m.raw("multipleOf", n.multipleOf.Raw())
	case a.kind&tArray != 0:
		if s.failed = s.failed || len(n.items) == 0 || len(n.prefix) > 0; s.failed {
			return
		}
		s.lost = s.lost || n.unique
		m.name("items")
		s.schema(n.items, false)
		m.count("minItems", n.minItems)
		m.count("maxItems", n.maxItems)
	case a.kind&tObject != 0:
		s.lost = s.lost || n.minProperties != nil || n.maxProperties != nil
		s.objectKeywords(m, n)
	}
}

// enum writes the values that have the type of the alternative.
func (s *strict) enum(m *members, a *alternative, null bool) {
	if a.node.enum == nil {
		return
	}
	var values []string
	for _, v := range a.node.enum {
		if kind := typesOfValue(v); kind&a.kind != 0 {
			s.failed = s.failed || kind&(tArray|tObject) != 0
			values = append(values, compact(v))
		}
	}
	if null {
		values = append(values, "null")
	}
	m.raw("enum", []byte("["+strings.Join(values, ",")+"]"))
}

// objectKeywords writes the members of an object. One whose members are not known, or in which there may be more than
// those that are named, cannot be written.
func (s *strict) objectKeywords(m *members, n *node) {
	if s.failed = s.failed || !n.closed && (n.stated || len(n.properties) == 0); s.failed {
		return
	}
	names := []string{}
	m.name("properties")
	s.object(func(properties *members) {
		for _, p := range n.properties {
			c := s.alternatives(p.schema)
			if c.never() && !p.required {
				continue
			}
			s.nulls = s.nulls || c.null && !p.required
			names = append(names, s.named(p.name))
			properties.name(s.named(p.name))
			s.schema(p.schema, !p.required)
		}
	})
	m.name("required")
	s.strings(names)
	m.raw("additionalProperties", []byte("false"))
}
