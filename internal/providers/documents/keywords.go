package documents

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"

	"sallyport/internal/platform/jsonindex"
)

// isBinary reports whether a value is a file.
func isBinary(v jsonindex.Value) bool {
	return v.Get("type").String() == "string" && v.Get("format").String() == "binary" || v.Get("type").String() == "file"
}

// binary writes the schema of a file in the input.
func (w *writer) binary(description string) {
	w.out.WriteString(`{"type":"object","properties":{"base64":{"type":"string","contentEncoding":"base64"},` +
		`"filename":{"type":"string"},"content_type":{"type":"string"}},"required":["base64"],"additionalProperties":false`)
	w.describe(description)
	w.out.WriteByte('}')
}

// types returns the types of a schema; none for any.
func (w *writer) types(v jsonindex.Value) []string {
	var types []string
	add := func(t jsonindex.Value) {
		text := t.String()
		if text == "file" {
			text = "string"
		}
		if slices.Contains([]string{"string", "number", "integer", "boolean", "array", "object", "null"}, text) &&
			!slices.Contains(types, text) {
			types = append(types, text)
		}
	}
	declared := v.Get("type")
	add(declared)
	for t := range declared.Items() {
		add(t)
	}
	if (v.Get("nullable").Bool() || v.Get("x-nullable").Bool()) && len(types) > 0 && !slices.Contains(types, "null") {
		types = append(types, "null")
	}
	return types
}

func (w *writer) typeKeyword(k *keywords, types []string) {
	switch len(types) {
	case 0:
	case 1:
		k.text("type", types[0])
	default:
		k.name("type")
		w.out.WriteByte('[')
		for i, t := range types {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.string(t)
		}
		w.out.WriteByte(']')
	}
}

// maxValue is the size of the largest default and constant, in bytes.
const maxValue = 1000

// values writes enum, const and default.
func (w *writer) values(k *keywords, v jsonindex.Value, types []string) {
	if enum := v.Get("enum"); enum.Kind() == jsonindex.Array {
		w.enum(k, enum, types)
	}
	for _, name := range []string{"const", "default"} {
		if value := w.d.literal(v.Get(name), types); value != nil && len(value) <= maxValue {
			k.name(name)
			w.raw(value)
		}
	}
}

// enum writes different values; null is one of them where the type is nullable.
func (w *writer) enum(k *keywords, enum jsonindex.Value, types []string) {
	var seen [][]byte
	has := func(raw []byte) bool {
		return slices.ContainsFunc(seen, func(s []byte) bool { return bytes.Equal(s, raw) })
	}
	for value := range enum.Items() {
		if raw := w.d.literal(value, types); raw != nil && len(seen) < 1000 && !has(raw) {
			seen = append(seen, raw)
		}
	}
	if len(seen) == 0 {
		return
	}
	if slices.Contains(types, "null") && !has([]byte("null")) {
		seen = append(seen, []byte("null"))
	}
	k.name("enum")
	w.out.WriteByte('[')
	for i, raw := range seen {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.raw(raw)
	}
	w.out.WriteByte(']')
}

// compact writes a value without white space.
func (w *writer) compact(v jsonindex.Value) { w.raw(v.Raw()) }

func (w *writer) raw(text []byte) {
	if err := json.Compact(&w.out, text); err != nil {
		w.out.WriteString("null") // the syntax was checked
	}
}

// numbers writes the limits of numbers. Before OpenAPI 3.1, exclusive limits were booleans.
func (w *writer) numbers(k *keywords, v jsonindex.Value, types []string) {
	for _, name := range [][2]string{{"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}} {
		limit, exclusive := w.d.limit(v.Get(name[0]), types), v.Get(name[1])
		switch {
		case limit != nil && exclusive.Bool():
			k.name(name[1])
			w.raw(limit)
			continue
		case limit != nil:
			k.name(name[0])
			w.raw(limit)
		}
		if exclusive.Kind() == jsonindex.Number && isMeasured(exclusive) {
			k.name(name[1])
			w.compact(exclusive)
		}
	}
	if of := v.Get("multipleOf"); of.Kind() == jsonindex.Number && isMeasured(of) {
		if n, err := strconv.ParseFloat(string(of.Raw()), 64); err == nil && n > 0 && !math.IsInf(n, 0) {
			k.name("multipleOf")
			w.compact(of)
		}
	}
}

func (w *writer) sizes(k *keywords, v jsonindex.Value) {
	for _, name := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"} {
		if n, ok := v.Get(name).Int(); ok && n >= 0 {
			k.name(name)
			w.out.WriteString(strconv.FormatInt(n, 10))
		}
	}
}

// maxPattern is the length of the longest regular expression, in bytes.
const maxPattern = 1000

// usable reports whether a regular expression can be used: those of JavaScript that Go does not read cannot.
func (d *Document) usable(pattern string) bool {
	if pattern == "" || len(pattern) > maxPattern {
		return false
	}
	ok, known := d.patterns[pattern]
	if !known {
		_, err := regexp.Compile(pattern)
		ok = err == nil
		d.patterns[pattern] = ok
	}
	return ok
}

// children writes the keywords that have schemas.
func (w *writer) children(k *keywords, v jsonindex.Value, depth int) {
	if items := v.Get("items"); items.Kind() == jsonindex.Object || items.Kind() == jsonindex.Bool {
		k.name("items")
		w.schema(items, depth+1, false)
	}
	properties, left := v.Get("properties"), map[string]bool{}
	if properties.Kind() == jsonindex.Object {
		k.name("properties")
		w.out.WriteByte('{')
		written := map[string]bool{}
		for name := range properties.Members() {
			property := properties.Get(name)
			if written[name] {
				continue
			}
			written[name] = true
			if w.input && w.d.is(property, "readOnly") || !w.input && w.d.is(property, "writeOnly") {
				left[name] = true
				continue
			}
			if len(written)-len(left) > 1 {
				w.out.WriteByte(',')
			}
			w.string(name)
			w.out.WriteByte(':')
			w.schema(property, depth+1, false)
		}
		w.out.WriteByte('}')
	}
	w.required(k, v.Get("required"), left)
	if more := v.Get("additionalProperties"); more.Kind() == jsonindex.Object || more.Kind() == jsonindex.Bool {
		k.name("additionalProperties")
		w.schema(more, depth+1, false)
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		if parts := v.Get(name); parts.Kind() == jsonindex.Array {
			w.parts(k, name, parts, depth)
		}
	}
	if not := v.Get("not"); not.Kind() == jsonindex.Object {
		k.name("not")
		w.schema(not, depth+1, false)
	}
}

func (w *writer) parts(k *keywords, name string, parts jsonindex.Value, depth int) {
	count := 0
	for part := range parts.Items() {
		if part.Kind() != jsonindex.Object && part.Kind() != jsonindex.Bool {
			continue
		}
		if count == 0 {
			k.name(name)
			w.out.WriteByte('[')
		} else {
			w.out.WriteByte(',')
		}
		count++
		w.schema(part, depth+1, false)
	}
	if count > 0 {
		w.out.WriteByte(']')
	}
}

// required writes the names of members that are needed, each once.
func (w *writer) required(k *keywords, list jsonindex.Value, left map[string]bool) {
	var names []string
	for item := range list.Items() {
		if name, ok := item.Text(); ok && !left[name] && !slices.Contains(names, name) && len(names) < maxParameters {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	k.name("required")
	w.out.WriteByte('[')
	for i, name := range names {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.string(name)
	}
	w.out.WriteByte(']')
}
