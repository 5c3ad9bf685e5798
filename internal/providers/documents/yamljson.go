package documents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// yamlWriter writes the values of a YAML document as JSON.
type yamlWriter struct {
	out     bytes.Buffer
	scratch bytes.Buffer
	quote   *json.Encoder
	// line is the one at which the JSON is, from 1.
	line int
	// values counts those that were written, or looked at to be merged.
	values int
	// alias is the outermost one within which the writer is; nil for none.
	alias *yaml.Node
	// open are the values with an anchor within which the writer is.
	open map[*yaml.Node]bool
}

func newYAMLWriter(size int) *yamlWriter {
	w := &yamlWriter{line: 1, open: map[*yaml.Node]bool{}}
	w.out.Grow(size)
	w.quote = json.NewEncoder(&w.scratch)
	w.quote.SetEscapeHTML(false)
	return w
}

// fail returns a problem at a value: at its alias, if it came by one.
func (w *yamlWriter) fail(n *yaml.Node, message string) *Problem {
	if w.alias != nil {
		n = w.alias
	}
	return &Problem{n.Line, n.Column, message}
}

// reach brings the JSON to the line of a value. The value of an alias is on an earlier one.
func (w *yamlWriter) reach(n *yaml.Node) {
	for w.line < n.Line {
		w.out.WriteByte('\n')
		w.line++
	}
}

// count counts values, and checks both limits of what aliases can make of a text.
func (w *yamlWriter) count(n *yaml.Node, values int) *Problem {
	if w.values += values; w.values > maxExpanded {
		return w.fail(n, fmt.Sprintf("the document has more than %d values with its aliases expanded", maxExpanded))
	}
	if w.out.Len() > MaxBytes {
		return w.fail(n, fmt.Sprintf("the document has more than %d MiB as JSON, with its aliases expanded", MaxBytes>>20))
	}
	return nil
}

// value writes a value that is within so many arrays and objects.
func (w *yamlWriter) value(n *yaml.Node, depth int) *Problem {
	w.reach(n)
	if problem := w.count(n, 1); problem != nil {
		return problem
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.expand(n, func(target *yaml.Node) *Problem { return w.value(target, depth) })
	case yaml.ScalarNode:
		text, isText, message := scalar(n)
		switch {
		case message != "":
			return w.fail(n, message)
		case isText:
			w.string(text)
		default:
			w.out.WriteString(text)
		}
		return nil
	default:
		return w.collection(n, depth)
	}
}

// expand does something with the value for which an alias stands.
func (w *yamlWriter) expand(n *yaml.Node, do func(target *yaml.Node) *Problem) *Problem {
	if n.Alias == nil || w.open[n.Alias] {
		return w.fail(n, "the alias *"+short(printable(n.Value), maxTag)+" contains itself")
	}
	if w.alias == nil {
		w.alias = n
		defer func() { w.alias = nil }()
	}
	return do(n.Alias)
}

// collection writes an array or an object.
func (w *yamlWriter) collection(n *yaml.Node, depth int) *Problem {
	if depth >= maxDepth {
		return w.fail(n, errTooDeep.Error())
	}
	if n.Anchor != "" {
		w.open[n] = true
		defer delete(w.open, n)
	}
	switch {
	case n.Kind == yaml.SequenceNode && isTag(n, "!!seq"):
		return w.sequence(n, depth)
	case n.Kind == yaml.MappingNode && isTag(n, "!!map"):
		return w.mapping(n, depth)
	default:
		return w.fail(n, "the tag "+short(printable(n.Tag), maxTag)+" is not supported")
	}
}

func isTag(n *yaml.Node, tag string) bool { return n.Tag == tag || n.Tag == "" || n.Tag == "!" }

func (w *yamlWriter) sequence(n *yaml.Node, depth int) *Problem {
	w.out.WriteByte('[')
	for i, item := range n.Content {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if problem := w.value(item, depth+1); problem != nil {
			return problem
		}
	}
	w.out.WriteByte(']')
	return nil
}

func (w *yamlWriter) mapping(n *yaml.Node, depth int) *Problem {
	entries, problem := w.entries(n, depth)
	if problem != nil {
		return problem
	}
	w.out.WriteByte('{')
	for i := range entries {
		e := &entries[i]
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.reach(e.key)
		w.string(e.name)
		w.out.WriteByte(':')
		if problem := w.value(e.value, depth+1); problem != nil {
			return problem
		}
	}
	w.out.WriteByte('}')
	return nil
}

// entry is a member of an object.
type entry struct {
	name       string
	key, value *yaml.Node
}

// entries returns the members of an object: its own, and those of the objects that it merges which it does not have.
func (w *yamlWriter) entries(n *yaml.Node, depth int) ([]entry, *Problem) {
	list := make([]entry, 0, len(n.Content)/2)
	var merge, merged *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if isMerge(key) {
			if merge != nil {
				return nil, w.fail(key, fmt.Sprintf("the key << is there twice; the first one is on line %d", merge.Line))
			}
			merge, merged = key, value
			continue
		}
		name, message := keyOf(key)
		if message != "" {
			return nil, w.fail(key, message)
		}
		list = append(list, entry{name: name, key: key, value: value})
	}
	if problem := w.unique(list); problem != nil || merge == nil {
		return list, problem
	}
	return w.merge(list, merged, depth)
}

// few is how many members are compared with each other rather than noted.
const few = 8

// unique refuses a key that is there twice.
func (w *yamlWriter) unique(list []entry) *Problem {
	twice := func(first, second *entry) *Problem {
		return w.fail(second.key, fmt.Sprintf("the key %q is there twice; the first one is on line %d",
			short(printable(second.name), maxTag), first.key.Line))
	}
	if len(list) <= few {
		for i := range list {
			for j := range i {
				if list[i].name == list[j].name {
					return twice(&list[j], &list[i])
				}
			}
		}
		return nil
	}
	at := make(map[string]int, len(list))
	for i := range list {
		if first, found := at[list[i].name]; found {
			return twice(&list[first], &list[i])
		}
		at[list[i].name] = i
	}
	return nil
}

// merge adds the members of the objects that << names. The first that has a key wins.
func (w *yamlWriter) merge(list []entry, value *yaml.Node, depth int) ([]entry, *Problem) {
	has := make(map[string]bool, len(list))
	for i := range list {
		has[list[i].name] = true
	}
	sources := []*yaml.Node{value}
	if from := behind(value); from.Kind == yaml.SequenceNode {
		sources = from.Content
	}
	for _, source := range sources {
		from := behind(source)
		switch {
		case from.Kind != yaml.MappingNode || !isTag(from, "!!map"):
			return nil, w.fail(source, "<< expects an object or a list of objects")
		case depth >= maxDepth || w.open[from]:
			return nil, w.fail(source, "<< merges an object into itself, or too many within each other")
		}
		if from.Anchor != "" {
			w.open[from] = true
		}
		more, problem := w.entries(from, depth+1)
		delete(w.open, from)
		if problem == nil {
			problem = w.count(source, 1+len(more))
		}
		if problem != nil {
			return nil, problem
		}
		for _, e := range more {
			if !has[e.name] {
				has[e.name] = true
				list = append(list, e)
			}
		}
	}
	return list, nil
}

// behind returns the value for which an alias stands, and any other value itself.
func behind(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// string writes a string.
func (w *yamlWriter) string(text string) {
	if isPlain(text) {
		w.out.WriteByte('"')
		w.out.WriteString(text)
		w.out.WriteByte('"')
		return
	}
	w.scratch.Reset()
	if err := w.quote.Encode(text); err != nil {
		w.out.WriteString(`""`) // a string always has a form
		return
	}
	w.out.Write(bytes.TrimSuffix(w.scratch.Bytes(), []byte{'\n'}))
}

// isPlain reports whether a text is the same in JSON.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.ValidString(text)
}
