package documents

import (
	"bytes"
	"slices"
	"strings"
)

// gqlWriter writes the schemas of an operation.
type gqlWriter struct {
	s     *gqlSchema
	out   bytes.Buffer
	notes []string
	// refs are the types to which a schema of the input refers.
	refs []*gqlType
	// plain leaves out descriptions, and bare the values of enumerations, too.
	plain, bare bool
}

// gqlDefinition is the text of a type of the input, which is the same wherever it is needed.
type gqlDefinition struct {
	text []byte
	refs []*gqlType
	cut  bool
}

// maxValues is how many values of an enumeration a schema has at most; the output has fewer, because it has no
// definitions.
const (
	maxValues       = 1000
	maxOutputValues = 50
	// maxInOutput is the length of the longest description in an output, in bytes.
	maxInOutput = 200
)

func (w *gqlWriter) note(text string) {
	if !slices.Contains(w.notes, text) && len(w.notes) < 20 {
		w.notes = append(w.notes, text)
	}
}

func (w *gqlWriter) string(text string) {
	sw := writer{}
	sw.string(text)
	w.out.Write(sw.out.Bytes())
}

// member begins a member of an object, with a comma if it is not the first.
func (w *gqlWriter) member(name string) {
	if !bytes.HasSuffix(w.out.Bytes(), []byte("{")) {
		w.out.WriteByte(',')
	}
	w.string(name)
	w.out.WriteByte(':')
}

func (w *gqlWriter) describe(text string, limit int) {
	if text = proseOf(text, limit); text != "" && !w.plain {
		w.member("description")
		w.string(text)
	}
}

// input writes the flat object of the arguments, whose properties have the names of the fields.
func (w *gqlWriter) input(arguments []*gqlField, fields []field) []byte {
	properties := make([]string, len(fields))
	for i := range fields {
		properties[i] = fields[i].parameter.Property
	}
	write := func() {
		w.out.Reset()
		w.refs = nil
		w.out.WriteByte('{')
		w.object(arguments, properties)
		w.out.WriteByte('}')
	}
	write()
	if w.tooLarge() {
		w.plain = true
		w.note("its schema is too large, so that its arguments have no descriptions")
		write()
		w.plain = false
	}
	if w.tooLarge() {
		w.note("its schema is too large, so that any value is accepted")
		return []byte(`{"type":"object"}`)
	}
	w.defs()
	return bytes.Clone(w.out.Bytes())
}

// tooLarge reports whether a schema has no room for definitions that are any value.
func (w *gqlWriter) tooLarge() bool {
	return w.out.Len()+sizeOf(w.refs, nil)+len(`,"$defs":{}`) > maxSchema
}

// sizeOf is how many bytes definitions need that are any value, without those that are there.
func sizeOf(refs []*gqlType, there map[*gqlType]bool) (size int) {
	for _, t := range refs {
		if !there[t] {
			size += len(t.name) + len(`"":{},`)
		}
	}
	return size
}

// object writes the members of an object with a property for each of the fields.
func (w *gqlWriter) object(fields []*gqlField, names []string) {
	w.out.WriteString(`"type":"object","properties":{`)
	for i, f := range fields {
		w.member(names[i])
		w.property(f)
	}
	w.out.WriteByte('}')
	separator := `,"required":[`
	for i, f := range fields {
		if f.ref != nil && f.required() {
			w.out.WriteString(separator)
			w.string(names[i])
			separator = ","
		}
	}
	if separator == "," {
		w.out.WriteByte(']')
	}
	w.out.WriteString(`,"additionalProperties":false`)
}

// property writes the schema of an argument or a field of an input object.
func (w *gqlWriter) property(f *gqlField) {
	w.out.WriteByte('{')
	w.value(f.ref, f.of, f.description != "" || f.value != nil || f.deprecated)
	w.describe(f.description, maxInSchema)
	if f.value != nil {
		w.member("default")
		w.out.Write(f.value)
	}
	if f.deprecated {
		w.member("deprecated")
		w.out.WriteString("true")
	}
	w.out.WriteByte('}')
}

// value writes the members of the schema of a type of the input. described is true if further members follow.
func (w *gqlWriter) value(ref *gqlRef, t *gqlType, described bool) {
	if t == nil || t.kind.isComposite() {
		return
	}
	if ref.item != nil {
		w.types(!ref.nonNull, "array")
		w.out.WriteString(`,"items":{`)
		w.value(ref.item, t, false)
		w.out.WriteByte('}')
		return
	}
	if w.builtIn(ref, true) {
		return
	}
	if !slices.Contains(w.refs, t) {
		w.refs = append(w.refs, t)
	}
	text := `"$ref":"#/$defs/` + t.name + `"`
	switch {
	case !ref.nonNull && t.kind != gqlScalar:
		text = `"anyOf":[{` + text + `},{"type":"null"}]`
	case described: // a reference has no place for members of its own that all readers respect
		text = `"allOf":[{` + text + `}]`
	}
	w.out.WriteString(text)
}

// types writes the keyword of types.
func (w *gqlWriter) types(nullable bool, types ...string) {
	if nullable {
		types = append(types, "null")
	}
	if len(types) == 1 {
		w.out.WriteString(`"type":"` + types[0] + `"`)
		return
	}
	w.out.WriteString(`"type":["` + strings.Join(types, `","`) + `"]`)
}

// builtIn writes the types of a scalar of the specification; false for any other type. An identifier may be given as a
// number, and comes as a string.
func (w *gqlWriter) builtIn(ref *gqlRef, input bool) bool {
	switch ref.name {
	case "Int":
		w.types(!ref.nonNull, "integer")
	case "Float":
		w.types(!ref.nonNull, "number")
	case "String":
		w.types(!ref.nonNull, "string")
	case "Boolean":
		w.types(!ref.nonNull, "boolean")
	case "ID":
		if types := []string{"string", "integer"}; input {
			w.types(!ref.nonNull, types...)
		} else {
			w.types(!ref.nonNull, types[0])
		}
	default:
		return false
	}
	return true
}

// defs adds the types to which a schema refers, and those to which they refer: the nearest ones as long as there is
// room, and any value in place of the others.
func (w *gqlWriter) defs() {
	if len(w.refs) == 0 {
		return
	}
	size := w.out.Len() + len(`,"$defs":{}`) + sizeOf(w.refs, nil)
	w.out.Truncate(w.out.Len() - 1)
	w.out.WriteString(`,"$defs":{`)
	queue, there := slices.Clone(w.refs), map[*gqlType]bool{}
	for _, t := range queue {
		there[t] = true
	}
	cut := false
	for i := 0; i < len(queue); i++ {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.string(queue[i].name)
		w.out.WriteByte(':')
		def := w.s.definition(queue[i])
		more := len(def.text) + sizeOf(def.refs, there)
		if cut = cut || def.cut || size+more > maxSchema; size+more > maxSchema {
			w.out.WriteString("{}")
			continue
		}
		size += more
		w.out.Write(def.text)
		for _, t := range def.refs {
			if !there[t] {
				there[t] = true
				queue = append(queue, t)
			}
		}
	}
	w.out.WriteString("}}")
	if cut {
		w.note("its schema is too large, so that any value is accepted in its deepest parts")
	}
}

// definition returns the text of a type of the input that has a name.
func (s *gqlSchema) definition(t *gqlType) *gqlDefinition {
	if def, known := s.definitions[t.name]; known {
		return def
	}
	w := gqlWriter{s: s}
	w.out.WriteByte('{')
	switch t.kind {
	case gqlInput:
		var fields []*gqlField
		var names []string
		for i := range min(len(t.fields), maxParameters) {
			fields, names = append(fields, &t.fields[i]), append(names, t.fields[i].name)
		}
		if w.object(fields, names); t.oneOf {
			w.out.WriteString(`,"minProperties":1,"maxProperties":1`)
		}
	case gqlEnum:
		w.types(false, "string")
		w.enum(t, false, maxValues)
	default:
		w.out.WriteString(`"title":"` + t.name + `"`)
	}
	w.describe(t.description, maxInSchema)
	w.out.WriteByte('}')
	def := &gqlDefinition{text: bytes.Clone(w.out.Bytes()), refs: w.refs}
	if len(def.text) > maxSchema || len(t.fields) > maxParameters && t.kind == gqlInput {
		def = &gqlDefinition{text: []byte("{}"), cut: true}
	}
	s.definitions[t.name] = def
	return def
}

// enum writes the values of an enumeration; none if they are too many, or there are none.
func (w *gqlWriter) enum(t *gqlType, nullable bool, limit int) {
	if len(t.fields) > limit || len(t.fields) == 0 {
		return
	}
	w.out.WriteString(`,"enum":[`)
	for i := range t.fields {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.string(t.fields[i].name)
	}
	if nullable {
		w.out.WriteString(`,null`)
	}
	w.out.WriteByte(']')
}

// response is the schema of a response without data.
const response = `"errors":{"type":"array","items":{"type":"object","properties":{"message":{"type":"string"},` +
	`"path":{"type":"array","items":{"type":["string","integer"]}},"extensions":{"type":"object"}}}},` +
	`"extensions":{"type":["object","null"]}}}`

// output writes the schema of the response to the operation of a field.
func (w *gqlWriter) output(f *gqlField, selected *gqlSelection) []byte {
	for _, w.bare = range []bool{false, false, true} {
		w.out.Reset()
		w.out.WriteString(`{"type":"object","properties":{"data":{"type":["object","null"],"properties":{`)
		w.string(f.name)
		w.out.WriteByte(':')
		of := []*gqlSelection{}
		if selected != nil {
			of = append(of, selected)
		}
		w.received(f, f.ref, of)
		w.out.WriteString(`}},` + response)
		if w.out.Len() <= maxSchema {
			return bytes.Clone(w.out.Bytes())
		}
		w.plain = true
	}
	w.note("the schema of its response is too large")
	return []byte(`{"type":"object","properties":{"data":{"type":["object","null"]},` + response)
}

// received writes the schema of a field of the response. of are the parts of the operation that select in it.
func (w *gqlWriter) received(f *gqlField, ref *gqlRef, of []*gqlSelection) {
	w.out.WriteByte('{')
	switch t := f.of; {
	case ref.item != nil:
		w.types(!ref.nonNull, "array")
		w.out.WriteString(`,"items":`)
		w.received(&gqlField{of: f.of}, ref.item, of)
	case t.kind.isComposite():
		w.types(!ref.nonNull, "object")
		w.out.WriteString(`,"properties":{`)
		w.selected(of)
		w.out.WriteByte('}')
	case t.kind == gqlEnum:
		if w.types(!ref.nonNull, "string"); !w.bare {
			w.enum(t, !ref.nonNull, maxOutputValues)
		}
	case !w.builtIn(ref, false):
		w.out.WriteString(`"title":"` + t.name + `"`)
	}
	w.describe(f.description, maxInOutput)
	w.out.WriteByte('}')
}

// selected writes the properties that parts of an operation select. Two fields under one name are one property.
func (w *gqlWriter) selected(of []*gqlSelection) {
	parts := slices.Clone(of)
	var keys []string
	fields, within := map[string]*gqlField{}, map[string][]*gqlSelection{}
	typename := false
	for i := 0; i < len(parts); i++ {
		typename = typename || parts[i].typename
		parts = append(parts, parts[i].fragments...)
		for _, c := range parts[i].chosen {
			if fields[c.key] == nil {
				fields[c.key] = c.field
				keys = append(keys, c.key)
			}
			if c.of != nil {
				within[c.key] = append(within[c.key], c.of)
			}
		}
	}
	if typename {
		w.out.WriteString(`"__typename":{"type":"string"}`)
	}
	for _, key := range keys {
		w.member(key)
		w.received(fields[key], fields[key].ref, within[key])
	}
}
