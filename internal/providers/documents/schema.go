package documents

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// writer writes a schema of a document as JSON Schema 2020-12. Schemas that are referred to become definitions, each
// once, so that cycles end.
type writer struct {
	d   *Document
	out bytes.Buffer
	// input is true of schemas of requests, which have no members that are only read.
	input bool
	notes []string
	// limit is how deep the schema may be; what is deeper is any value.
	limit int
	cut   bool
	// refs are the schemas to which it refers.
	refs []jsonindex.Value
	// within is the definition that is written; absent for the schema itself.
	within jsonindex.Value
}

func newWriter(d *Document, input bool) *writer {
	w := &writer{d: d, input: input, limit: maxNested}
	w.out, d.spare = *bytes.NewBuffer(d.spare), nil
	return w
}

// text returns what was written. The writer is not used any more.
func (w *writer) text() []byte {
	text := bytes.Clone(w.out.Bytes())
	w.out.Reset()
	w.d.spare = w.out.AvailableBuffer()
	return text
}

// maxNested is how deep a schema is without references.
const maxNested = 64

// fragment is the text of a definition, which is the same wherever it is needed.
type fragment struct {
	text  []byte
	refs  []jsonindex.Value
	cut   bool
	notes []string
}

type fragmentKey struct {
	id    uint32
	input bool
}

// fragment returns the text of a definition.
func (d *Document) fragment(v jsonindex.Value, input bool) *fragment {
	key := fragmentKey{v.ID(), input}
	if f, known := d.fragments[key]; known {
		return f
	}
	w := newWriter(d, input)
	w.within = v
	w.schema(v, 0, false)
	f := &fragment{text: w.text(), refs: w.refs, cut: w.cut, notes: w.notes}
	if len(f.text) > maxSchema {
		f.text, f.refs, f.cut = []byte("{}"), nil, true
	}
	d.fragments[key] = f
	return f
}

// fit writes a schema, with less depth if it is too large, and then the definitions that it needs: the nearest ones as
// long as there is room, and others as any value.
func (w *writer) fit(write func()) []byte {
	for _, limit := range []int{maxNested, 12, 8, 6, 5, 4, 3, 2} {
		w.out.Reset()
		w.limit, w.refs, w.cut = limit, nil, false
		write()
		if w.out.Len()+w.namesOf(w.refs, nil) <= maxSchema {
			break
		}
	}
	if w.out.Len()+w.namesOf(w.refs, nil) > maxSchema { // the names of its members alone are too much
		w.note("its schema is too large, so that any value is accepted")
		return []byte("{}")
	}
	w.definitions()
	if w.cut {
		w.note("its schema is too large, so that any value is accepted in its deepest parts")
	}
	return w.text()
}

// whole writes a schema as a document of its own.
func (w *writer) whole(schema jsonindex.Value) []byte {
	return w.fit(func() { w.schema(schema, 0, false) })
}

// namesOf is how many bytes definitions need that are any value, without those that are there.
func (w *writer) namesOf(refs []jsonindex.Value, there map[uint32]bool) (bytes int) {
	for _, v := range refs {
		if !there[v.ID()] {
			bytes += len(w.d.names[v.ID()]) + len(`"":{},`)
		}
	}
	return bytes
}

// definitions adds the schemas that were referred to, and those to which they refer.
func (w *writer) definitions() {
	if len(w.refs) == 0 || !bytes.HasSuffix(w.out.Bytes(), []byte("}")) {
		return
	}
	size := w.out.Len() + len(`,"$defs":{}`) + w.namesOf(w.refs, nil)
	w.out.Truncate(w.out.Len() - 1)
	if w.out.Len() > 1 {
		w.out.WriteByte(',')
	}
	w.out.WriteString(`"$defs":{`)
	queue, there := w.refs, map[uint32]bool{}
	for _, v := range queue {
		there[v.ID()] = true
	}
	for i := 0; i < len(queue); i++ {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.string(w.d.names[queue[i].ID()])
		w.out.WriteByte(':')
		f := w.d.fragment(queue[i], w.input)
		more := len(f.text) + w.namesOf(f.refs, there)
		if size+more > maxSchema {
			w.cut = true
			w.out.WriteString("{}")
			continue
		}
		size += more
		w.out.Write(f.text)
		w.cut = w.cut || f.cut
		for _, n := range f.notes {
			w.note(n)
		}
		for _, v := range f.refs {
			if !there[v.ID()] {
				there[v.ID()] = true
				queue = append(queue, v)
			}
		}
	}
	w.out.WriteString("}}")
}

// keywords writes the members of a schema, with commas between them.
type keywords struct {
	w     *writer
	first bool
}

func (k *keywords) name(name string) {
	if !k.first {
		k.w.out.WriteByte(',')
	}
	k.first = false
	k.w.out.WriteByte('"')
	k.w.out.WriteString(name)
	k.w.out.WriteString(`":`)
}

func (k *keywords) text(name, value string) {
	if value != "" {
		k.name(name)
		k.w.string(value)
	}
}

// schema writes a schema at a depth. parameter is true of a parameter of Swagger 2.0 or Google Discovery, which has
// members of its own.
func (w *writer) schema(v jsonindex.Value, depth int, parameter bool) {
	switch {
	case v.Kind() == jsonindex.Bool:
		w.out.Write(v.Raw())
		return
	case v.Kind() != jsonindex.Object:
		w.out.WriteString("{}")
		return
	case depth >= w.limit || w.out.Len() > maxSchema:
		w.cut = true
		w.out.WriteString("{}")
		return
	}
	if ref, ok := v.Get("$ref").Text(); ok && !parameter {
		w.reference(v, ref, depth)
		return
	}
	if isBinary(v) && w.input {
		w.binary(prose(v.Get("description"), maxInSchema))
		return
	}
	if parameter && w.d.Format == Discovery && v.Get("repeated").Bool() {
		w.out.WriteString(`{"type":"array"`)
		w.describe(w.d.describe(v))
		w.out.WriteString(`,"items":`)
		w.keywords(v, depth, "")
		w.out.WriteByte('}')
		return
	}
	w.keywords(v, depth, w.d.describe(v))
}

// keywords writes a schema that is an object of keywords, with a description.
func (w *writer) keywords(v jsonindex.Value, depth int, description string) {
	w.out.WriteByte('{')
	k := &keywords{w, true}
	types := w.types(v)
	w.typeKeyword(k, types)
	k.text("title", line(v.Get("title"), maxTitle))
	k.text("description", description)
	if format := v.Get("format"); format.Kind() == jsonindex.String {
		k.text("format", w.d.format(line(format, maxTag)))
	}
	w.values(k, v, types)
	w.numbers(k, v, types)
	w.sizes(k, v)
	if pattern, ok := v.Get("pattern").Text(); ok && w.d.usable(pattern) {
		k.text("pattern", pattern)
	}
	w.children(k, v, depth)
	for _, name := range []string{"uniqueItems", "deprecated"} {
		if v.Get(name).Bool() {
			k.name(name)
			w.out.WriteString("true")
		}
	}
	w.out.WriteByte('}')
}

// maxInSchema is the length of the longest description in a schema, in bytes.
const maxInSchema = 1000

// reference writes a reference to a definition. One that leads out of the document is any value.
func (w *writer) reference(v jsonindex.Value, ref string, depth int) {
	target := w.d.resolve(v)
	if !target.Exists() {
		w.note("the reference " + short(printable(ref), maxTag) + " leads to nothing in the document")
		w.out.WriteString("{}")
		return
	}
	if target.Kind() != jsonindex.Object {
		w.schema(target, depth, false)
		return
	}
	if w.within.Exists() && w.loops(target, w.within.ID(), map[uint32]bool{}) {
		w.note("the schema " + short(printable(ref), maxTag) + " contains itself as the same value")
		w.out.WriteString("{}")
		return
	}
	if !slices.ContainsFunc(w.refs, func(v jsonindex.Value) bool { return v.ID() == target.ID() }) {
		w.refs = append(w.refs, target)
	}
	text := `{"$ref":"#/$defs/` + w.d.nameOf(target, ref) + `"}`
	if own := prose(v.Get("description"), maxInSchema); own != "" && w.d.Format == Discovery {
		// A reference has no place for a description of its own that all readers respect.
		w.out.WriteString(`{"allOf":[` + text + `]`)
		w.describe(own)
		text = "}"
	}
	w.out.WriteString(text)
}

// loops reports whether a schema applies the schema of a place to the same value as itself: through allOf and its like
// alone, so that a check of a value would never end.
func (w *writer) loops(from jsonindex.Value, to uint32, seen map[uint32]bool) bool {
	if from.ID() == to && len(seen) > 0 {
		return true
	}
	if seen[from.ID()] || len(seen) > 1000 {
		return false
	}
	seen[from.ID()] = true
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		for part := range from.Get(name).Items() {
			if target := w.d.resolve(part); target.Exists() && (target.ID() == to || w.loops(target, to, seen)) {
				return true
			}
		}
	}
	if not := w.d.resolve(from.Get("not")); not.Exists() {
		return not.ID() == to || w.loops(not, to, seen)
	}
	return false
}

func (w *writer) note(text string) {
	if !slices.Contains(w.notes, text) && len(w.notes) < 20 {
		w.notes = append(w.notes, text)
	}
}

// nameOf returns the name of a definition: the last part of the first reference to it, in characters that need no
// escape.
func (d *Document) nameOf(v jsonindex.Value, ref string) string {
	if name, known := d.names[v.ID()]; known {
		return name
	}
	base := plainName(ref[strings.LastIndexByte(ref, '/')+1:])
	name := base
	for i := 2; d.taken[name]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	d.taken[name], d.names[v.ID()] = true, name
	return name
}
