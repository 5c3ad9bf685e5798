package toolformat

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// part is a schema as it stands in the text.
type part struct {
	v jsonindex.Value
	// alone is true if its alternatives (anyOf, oneOf) are left out, because one of them was chosen.
	alone bool
}

// schema is what a value must fit: all its parts. One without parts is any value.
type schema []part

func (s schema) key() string {
	var key strings.Builder
	for _, p := range s {
		key.WriteString(strconv.FormatUint(uint64(p.v.ID()), 36))
		if p.alone {
			key.WriteByte('!')
		}
		key.WriteByte(' ')
	}
	return key.String()
}

// with adds parts that are not there.
func (s schema) with(more ...part) schema {
	out := append(schema(nil), s...)
	for _, p := range more {
		if p.v.Exists() && !out.has(p) {
			out = append(out, p)
		}
	}
	return out
}

// has reports whether a schema is among the parts. One that is there alone leads to itself only along references that
// were followed before.
func (s schema) has(p part) bool {
	return slices.ContainsFunc(s, func(q part) bool { return q.v.ID() == p.v.ID() })
}

// Limits that bound the work on a schema that was made to cost.
const (
	// maxParts is how many schemas one value must fit at most, and maxBranches how many alternatives are written.
	maxParts, maxBranches = 200, 48
	// maxWithin is how deep alternatives are within each other.
	maxWithin = 6
	// maxNodes is how many schemas are read; further ones are any value.
	maxNodes = 20_000
)

// reader reads the schemas of a text.
type reader struct {
	root    jsonindex.Value
	nodes   map[string]*node
	choices map[string]*choice
	// names are the properties with another name in the definition, by the name in the schema.
	names map[string]string
}

func newReader(root jsonindex.Value) *reader {
	return &reader{root: root, nodes: map[string]*node{}, choices: map[string]*choice{}}
}

func (r *reader) top() schema { return schema{{v: r.root}} }

// target returns what a reference leads to; absent if it leads to nothing in the text.
func (r *reader) target(ref string) jsonindex.Value {
	fragment, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return jsonindex.Value{}
	}
	pointer, err := url.PathUnescape(fragment)
	if err != nil {
		return jsonindex.Value{}
	}
	return r.root.Pointer(pointer)
}

// isAnnotation reports whether a keyword does not restrict a value.
func isAnnotation(name string) bool {
	switch name {
	case "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment":
		return true
	default:
		return false
	}
}

// reference returns the schema that this one only refers to, with a description of its own; absent if it says more.
func (r *reader) reference(s schema) (target jsonindex.Value, description string) {
	if len(s) != 1 {
		return jsonindex.Value{}, ""
	}
	v := s[0].v
	for range maxWithin {
		next, refers, only := r.refersTo(v)
		if !only {
			return target, description
		}
		if description == "" {
			description = describe(v)
		}
		if v = next; refers {
			target = next
		}
	}
	return target, description
}

// refersTo returns the one schema that this one consists of, next to annotations, and whether it is a reference.
func (r *reader) refersTo(v jsonindex.Value) (next jsonindex.Value, refers, only bool) {
	keywords := 0
	for name, value := range v.Members() {
		switch {
		case isAnnotation(name):
			continue
		case name == "$ref":
			next, refers = r.target(value.String()), true
		case name == "allOf":
			count := 0
			for item := range value.Items() {
				next, count = item, count+1
			}
			if count != 1 {
				return next, false, false
			}
		default:
			return next, false, false
		}
		keywords++
	}
	return next, refers, keywords == 1 && next.Kind() == jsonindex.Object
}

// describe returns the description of a schema, or its title.
func describe(v jsonindex.Value) string {
	if text := strings.TrimSpace(v.Get("description").String()); text != "" {
		return text
	}
	return strings.TrimSpace(v.Get("title").String())
}

// expand returns what a schema says, with its parts put together.
func (r *reader) expand(s schema) *node {
	key := s.key()
	if n, known := r.nodes[key]; known {
		return n
	}
	n := newNode()
	if len(r.nodes) >= maxNodes {
		n.lost = true
		return n
	}
	r.nodes[key] = n
	queue := s
	for i := 0; i < len(queue); i++ {
		v := queue[i].v
		if v.Kind() == jsonindex.Bool && !v.Bool() {
			n.types = 0
		}
		if v.Kind() != jsonindex.Object {
			continue
		}
		if ref, ok := v.Get("$ref").Text(); ok {
			target := r.target(ref)
			n.lost = n.lost || !target.Exists() || len(queue) >= maxParts
			if len(queue) < maxParts {
				queue = queue.with(part{v: target})
			}
		}
		for item := range v.Get("allOf").Items() {
			if len(queue) >= maxParts {
				n.lost = true
				break
			}
			queue = queue.with(part{v: item})
		}
		n.keywords(v)
		if !queue[i].alone {
			n.alternatives(v)
		}
	}
	n.parts = queue
	n.members()
	return n
}
