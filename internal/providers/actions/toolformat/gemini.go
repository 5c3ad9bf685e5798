package toolformat

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// geminiDepth is how many schemas are within each other. Google publishes no number; declarations with seven were
// reported to be refused.
const geminiDepth = 6

// gemini makes a function declaration.
func (d *Definition) gemini(t *Tool, root jsonindex.Value) {
	names := rename(root, plainForm)
	d.Names = invert(names)
	r := newReader(root)
	r.names = names
	var parameters []byte
	for _, a := range []attempt{{geminiDepth, 1000}, {5, 1000}, {5, 300}, {4, 300}, {3, 300}, {2, 300}, {2, 80}, {2, 0}} {
		g := &declaration{reader: r, writer: writer{limit: maxInlined}, depth: a.depth, text: a.text}
		g.parameters()
		if g.over() {
			continue
		}
		if g.cut {
			d.note(noteCut)
		}
		if g.lost {
			d.note(noteLost)
		}
		if g.impossible {
			d.note("It requires a value that its own schema makes impossible.")
		}
		parameters = g.out.Bytes()
		break
	}
	if parameters == nil {
		d.note(noteLarge)
	}
	w := &writer{}
	w.object(func(m *members) {
		m.text("name", t.Name)
		m.text("description", text(t.Action, maxText))
		if len(parameters) > 0 && !slices.Equal(parameters, []byte("{}")) {
			m.raw("parameters", parameters)
		}
	})
	d.JSON = w.out.Bytes()
}

// declaration writes a schema in Google's subset of OpenAPI 3.0.
type declaration struct {
	*reader
	writer
	depth, text int
	path        []string
	cut, lost   bool
	// impossible is true if a value is required that cannot be.
	impossible bool
}

// parameters writes the schema of the input; {} for a function without parameters.
func (g *declaration) parameters() {
	s := g.top()
	n := g.expand(s)
	if len(n.groups) > 0 || n.enum != nil {
		g.lost = true
		n = g.flattened(n)
	}
	g.path = append(g.path, s.key())
	count := 0
	g.object(func(m *members) {
		m.text("type", "OBJECT")
		m.text("minProperties", decimal(n.minProperties))
		m.text("maxProperties", decimal(n.maxProperties))
		count = g.objectKeywords(m, n, 1)
	})
	if count == 0 {
		g.out.Reset()
		g.out.WriteString("{}")
	}
}

// schema writes a schema at a level, from 1. text comes before its description.
func (g *declaration) schema(s schema, level int) {
	if g.over() {
		g.out.WriteString(`{"type":"STRING"}`)
		return
	}
	c := g.alternatives(s)
	n := g.expand(s)
	g.lost = g.lost || c.lost || len(n.nots)+len(n.others) > 0 || n.lost
	g.impossible = g.impossible || c.never()
	for _, gr := range n.groups {
		g.lost = g.lost || gr.exact
	}
	key := s.key()
	again := slices.Contains(g.path, key)
	g.path = append(g.path, key)
	defer func() { g.path = g.path[:len(g.path)-1] }()
	switch {
	case c.any:
		g.anything(n, level)
	case len(c.list) == 0:
		g.object(func(m *members) {
			m.text("type", map[bool]string{true: "NULL", false: "STRING"}[c.null])
			m.text("description", cut(n.description, g.text))
		})
	case len(c.list) == 1:
		g.object(func(m *members) { g.single(m, &c.list[0], c.null, n.description, level, again) })
	case level+1 > g.depth:
		g.cut = true
		g.object(func(m *members) { g.single(m, g.simplest(c), c.null, n.description, level, again) })
	default:
		list := g.writable(c, level+1)
		g.object(func(m *members) {
			m.list("anyOf", len(list), func(i int) {
				text := list[i].text
				if i == 0 {
					text = joined(n.description, text)
				}
				g.object(func(m *members) { g.single(m, list[i], c.null && i == 0, text, level+1, again) })
			})
		})
	}
}

// writable returns the alternatives that can be written at a level: at the last one there are no arrays.
func (g *declaration) writable(c *choice, level int) (list []*alternative) {
	for i := range c.list {
		if level < g.depth || c.list[i].kind&tArray == 0 {
			list = append(list, &c.list[i])
		} else {
			g.cut = true
		}
	}
	if len(list) == 0 {
		list = append(list, &c.list[0])
	}
	return list
}

// joined puts two texts together.
func joined(first, second string) string {
	if first == "" || second == "" || first == second {
		return strings.TrimSpace(first + second)
	}
	return strings.TrimRight(first, ". ") + ". " + second
}

// simplest returns the alternative that has the fewest schemas within it: a single value, else an object, of which the
// members can be left out, else an array.
func (*declaration) simplest(c *choice) *alternative {
	cost := func(a *alternative) int {
		switch {
		case a.kind&tArray != 0:
			return 2
		case a.kind&tObject != 0:
			return 1
		default:
			return 0
		}
	}
	best := &c.list[0]
	for i := range c.list {
		if cost(&c.list[i]) < cost(best) {
			best = &c.list[i]
		}
	}
	return best
}

// anything writes the schema of any value: a type is required, so that it is a list of types.
func (g *declaration) anything(n *node, level int) {
	var w words
	w.explain(&alternative{node: n}, 0)
	text := w.after(n.description, g.text)
	if level+1 > g.depth {
		g.cut = true
		g.object(func(m *members) {
			m.text("type", "STRING")
			m.text("description", text)
		})
		return
	}
	kinds := []string{`"STRING"`, `"NUMBER"`, `"BOOLEAN"`, `"OBJECT"`}
	if level+2 <= g.depth {
		kinds = append(kinds, `"ARRAY","items":{"type":"STRING"}`)
	}
	g.lost = true
	g.object(func(m *members) {
		m.list("anyOf", len(kinds), func(i int) {
			g.out.WriteString(`{"type":` + kinds[i])
			if i == 0 && text != "" {
				g.out.WriteString(`,"description":`)
				g.string(text)
			}
			g.out.WriteByte('}')
		})
	})
}

// single writes an alternative. again is true if it is within itself.
func (g *declaration) single(m *members, a *alternative, null bool, text string, level int, again bool) {
	n := a.node
	m.text("type", strings.ToUpper(a.kind.name()))
	has := saysLength | saysMembers
	enum := g.enum(a)
	format := g.format(a, len(enum) > 0)
	if format != "" {
		has |= saysFormat
	}
	pattern := simple(n.pattern)
	if pattern {
		has |= saysPattern
	}
	bounded := a.kind&tArray != 0 && g.hasPlainItems(n)
	if bounded {
		has |= saysItems
	}
	if len(enum) > 0 {
		has |= saysEnum
	} else if n.enum != nil {
		g.lost = true
	}
	var w words
	w.explain(a, has)
	m.text("description", w.after(text, g.text))
	m.flag("nullable", null)
	m.text("format", format)
	if len(enum) > 0 {
		m.name("enum")
		g.strings(enum)
	}
	switch {
	case a.kind&tString != 0:
		m.text("minLength", decimal(n.minLength))
		m.text("maxLength", decimal(n.maxLength))
		if pattern {
			m.text("pattern", n.pattern)
		}
		g.lost = g.lost || n.pattern != "" && !pattern
	case a.kind&tNumber != 0:
		g.bounds(m, n)
	case a.kind&tArray != 0:
		g.lost = g.lost || n.unique || len(n.prefix) > 0
		g.items(m, n, level, again)
		if bounded {
			m.text("minItems", decimal(n.minItems))
			m.text("maxItems", decimal(n.maxItems))
		} else {
			g.lost = g.lost || n.minItems != nil || n.maxItems != nil
		}
	case a.kind&tObject != 0:
		m.text("minProperties", decimal(n.minProperties))
		m.text("maxProperties", decimal(n.maxProperties))
		if again || level >= g.depth || !g.fits(n, level) {
			g.cut = g.cut || len(n.properties) > 0
			return
		}
		g.objectKeywords(m, n, level)
	}
}

// decimal writes a number as Google's JSON writes numbers of 64 bits: as a string.
func decimal(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

// format returns the format of an alternative if Google knows it.
func (*declaration) format(a *alternative, enum bool) string {
	known := []string{"int32", "int64"}
	switch {
	case enum:
		return "enum"
	case a.kind&tString != 0:
		known = []string{"date-time"}
	case a.kind == tInteger:
	case a.kind&tNumber != 0:
		known = []string{"float", "double"}
	default:
		known = nil
	}
	if slices.Contains(known, a.node.format) {
		return a.node.format
	}
	return ""
}

// enum returns the values of an enum of strings that are not empty.
func (*declaration) enum(a *alternative) (values []string) {
	if a.kind&tString == 0 {
		return nil
	}
	for _, v := range a.node.enum {
		if text, ok := v.Text(); ok && text != "" {
			values = append(values, text)
		}
	}
	return values
}

func (g *declaration) bounds(m *members, n *node) {
	g.lost = g.lost || n.above != nil || n.below != nil || n.multipleOf.Exists()
	for _, b := range []struct {
		name string
		*bound
	}{{"minimum", n.minimum}, {"maximum", n.maximum}} {
		if b.bound != nil && math.Abs(b.value) <= exactly {
			m.bound(b.name, b.bound)
		} else {
			g.lost = g.lost || b.bound != nil
		}
	}
}

// hasPlainItems reports whether the items of an array are no arrays or objects. Bounds of the others are in words: a
// declaration with several is refused as too complex.
func (g *declaration) hasPlainItems(n *node) bool {
	c := g.alternatives(n.items)
	return len(c.list) == 1 && c.list[0].kind&(tArray|tObject) == 0
}

// items writes what the items of an array are, which is required.
func (g *declaration) items(m *members, n *node, level int, again bool) {
	m.name("items")
	switch {
	case again || level+1 >= g.depth && g.isArray(n.items):
		g.cut = true
		g.out.WriteString(`{"type":"STRING"}`)
	case len(n.items) == 0:
		g.lost = true
		g.out.WriteString(`{"type":"STRING"}`)
	default:
		g.schema(n.items, level+1)
	}
}

// isArray reports whether the first alternative of a schema is an array.
func (g *declaration) isArray(s schema) bool {
	c := g.alternatives(s)
	return len(c.list) > 0 && g.simplest(c).kind&tArray != 0
}

// fits reports whether the members that are required can be written: at the last level there are no arrays.
func (g *declaration) fits(n *node, level int) bool {
	if level == 1 || level+1 < g.depth {
		return true
	}
	for _, p := range n.properties {
		if p.required && g.isArray(p.schema) {
			return false
		}
	}
	return true
}

// objectKeywords writes the members of an object, and returns how many there are.
func (g *declaration) objectKeywords(m *members, n *node, level int) int {
	g.lost = g.lost || len(n.nots) > 0
	var names, required []string
	for _, p := range n.properties {
		c := g.alternatives(p.schema)
		if c.never() && !p.required {
			continue
		}
		if level > 1 && level+1 >= g.depth && g.isArray(p.schema) {
			g.cut = true
			continue
		}
		if len(names) == 0 {
			m.name("properties")
			g.out.WriteByte('{')
		} else {
			g.out.WriteByte(',')
		}
		names = append(names, g.named(p.name))
		g.string(g.named(p.name))
		g.out.WriteByte(':')
		g.schema(p.schema, level+1)
		if p.required {
			required = append(required, g.named(p.name))
		}
	}
	if len(names) == 0 {
		return 0
	}
	g.out.WriteByte('}')
	if len(required) > 0 {
		m.name("required")
		g.strings(required)
	}
	if len(names) > 1 {
		m.name("propertyOrdering")
		g.strings(names)
	}
	return len(names)
}
