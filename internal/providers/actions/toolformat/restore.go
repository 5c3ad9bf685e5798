package toolformat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sallyport/internal/platform/jsonindex"
)

// MaxArguments is the size of the largest arguments that are restored, in bytes.
const MaxArguments = 4 << 20

var errNoObject = errors.New("the arguments are no JSON object")

// Restore returns the arguments of a call as the action's input has them: under the names of the input, and in strict
// mode without the nulls that stand for absent properties. Members that the schema does not know stay as they are.
func (d *Definition) Restore(arguments []byte) (json.RawMessage, error) {
	if len(arguments) > MaxArguments {
		return nil, fmt.Errorf("the arguments have more than %d bytes", MaxArguments)
	}
	value, err := parse(arguments)
	if err != nil {
		return nil, fmt.Errorf("read the arguments: %w", err)
	}
	if value.Kind() != jsonindex.Object {
		return nil, errNoObject
	}
	if len(d.Names) == 0 && !d.Strict {
		return json.RawMessage(compact(value)), nil
	}
	root, err := parse(d.input)
	if err != nil {
		return nil, fmt.Errorf("read the schema of the input: %w", err)
	}
	r := &restorer{reader: newReader(root), strict: d.Strict, names: d.Names}
	r.value(value, []schema{r.top()})
	return r.out.Bytes(), nil
}

// restorer writes arguments again.
type restorer struct {
	*reader
	writer
	strict bool
	// names are the names in the input by those in the definition.
	names map[string]string
}

// value writes a value that fits one of the schemas.
func (r *restorer) value(v jsonindex.Value, schemas []schema) {
	switch v.Kind() {
	case jsonindex.Object:
		r.members(v, r.objects(v, schemas))
	case jsonindex.Array:
		var items schemaSet
		for _, s := range schemas {
			for _, a := range r.alternatives(s).list {
				if a.kind == tArray && len(a.node.items) > 0 {
					items.add(a.node.items)
				}
			}
		}
		r.out.WriteByte('[')
		first := true
		for item := range v.Items() {
			if !first {
				r.out.WriteByte(',')
			}
			first = false
			r.value(item, items.list)
		}
		r.out.WriteByte(']')
	default:
		r.out.WriteString(compact(v))
	}
}

// objects returns the alternatives that an object may fit: those that have all of its members, if there are any.
func (r *restorer) objects(v jsonindex.Value, schemas []schema) []*node {
	var all, exact []*node
	known := map[*node]bool{}
	for _, s := range schemas {
		for _, a := range r.alternatives(s).list {
			if a.kind != tObject || known[a.node] {
				continue
			}
			known[a.node] = true
			all = append(all, a.node)
			if r.hasAll(a.node, v, maxLook) {
				exact = append(exact, a.node)
			}
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return all
}

// maxLook is how deep values are compared with alternatives to find the one that they fit.
const maxLook = 3

// hasAll reports whether an object has members of a schema only, in strict mode all of them, and whether their types
// and values are those of the schema.
func (r *restorer) hasAll(n *node, v jsonindex.Value, look int) bool {
	found := map[string]bool{}
	for name := range v.Members() {
		if found[name] {
			continue
		}
		found[name] = true
		p, known := r.property(n, name)
		member := v.Get(name)
		absent := known && r.strict && !p.required && member.Kind() == jsonindex.Null
		if !known || !absent && !r.looksLike(member, p.schema, look-1) {
			return false
		}
	}
	return !r.strict || len(found) == len(n.properties)
}

// looksLike reports whether a value has a type and, if they are listed, one of the values of a schema.
func (r *restorer) looksLike(v jsonindex.Value, s schema, look int) bool {
	c := r.alternatives(s)
	kind := typesOfValue(v)
	if c.any || c.lost || look <= 0 {
		return true
	}
	if kind == tNull {
		return c.null
	}
	for i := range c.list {
		a := &c.list[i]
		if a.kind&kind == 0 || a.node.enum != nil && !contains(a.node.enum, v) ||
			kind == tObject && !r.hasAll(a.node, v, look) {
			continue
		}
		return true
	}
	return false
}

func contains(list []jsonindex.Value, v jsonindex.Value) bool {
	text := compact(v)
	return slices.ContainsFunc(list, func(w jsonindex.Value) bool { return compact(w) == text })
}

// property returns the property that has a name in the definition.
func (r *restorer) property(n *node, name string) (*property, bool) {
	if other, renamed := r.names[name]; renamed {
		name = other
	}
	p, known := n.byName()[name]
	return p, known
}

// members writes the members of an object under the names of the input.
func (r *restorer) members(v jsonindex.Value, nodes []*node) {
	r.object(func(m *members) {
		seen := map[string]bool{}
		for name := range v.Members() {
			if seen[name] {
				continue
			}
			seen[name] = true
			member, own := v.Get(name), name
			var schemas schemaSet
			absent := r.strict && member.Kind() == jsonindex.Null
			needed := false
			for _, n := range nodes {
				if p, known := r.property(n, name); known {
					own = p.name
					schemas.add(p.schema)
					needed = needed || p.required && r.alternatives(p.schema).null
				}
			}
			if absent && len(schemas.list) > 0 && !needed {
				continue
			}
			m.name(own)
			r.value(member, schemas.list)
		}
	})
}

// schemaSet are different schemas, so that their number does not grow with the depth.
type schemaSet struct {
	list []schema
	keys map[string]bool
}

func (s *schemaSet) add(sc schema) {
	key := sc.key()
	if s.keys[key] {
		return
	}
	if s.keys == nil {
		s.keys = map[string]bool{}
	}
	s.keys[key] = true
	s.list = append(s.list, sc)
}
