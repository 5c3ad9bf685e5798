package declared

import (
	"bytes"
	"encoding/json"
	"strconv"

	"sallyport/internal/providers/actions"
)

// writer writes schemas as JSON Schema 2020-12, with what they refer to in its place.
type writer struct {
	c   *compiler
	out bytes.Buffer
	// input is true of schemas of inputs, in which a file is an object.
	input bool
}

// written returns what a function writes. There is none if there are problems, which would not end, or make no sense.
func (c *compiler) written(field string, write func(*writer)) json.RawMessage {
	if len(c.problems) > 0 {
		return nil
	}
	w := &writer{c: c}
	write(w)
	c.size += w.out.Len()
	switch {
	case w.out.Len() > maxSchema:
		c.add(field, "has a schema of more than %d KiB", maxSchema>>10)
	case c.size > maxSchemas:
		c.add(field, "makes the schemas of all actions larger than %d MiB", maxSchemas>>20)
	}
	return json.RawMessage(bytes.Clone(w.out.Bytes()))
}

// flat writes the object of all inputs of an action.
func (w *writer) flat(list []input) {
	w.input = true
	w.out.WriteString(`{"type":"object","properties":{`)
	for i := range list {
		if i > 0 {
			w.out.WriteByte(',')
		}
		w.string(list[i].parameter.Property)
		w.out.WriteByte(':')
		if list[i].members {
			w.members(&list[i])
			continue
		}
		w.schema(list[i].schema)
	}
	w.out.WriteByte('}')
	var required []string
	for i := range list {
		if list[i].required {
			required = append(required, list[i].parameter.Property)
		}
	}
	if required != nil {
		w.out.WriteString(`,"required":`)
		w.json(required)
	}
	w.out.WriteString(`,"additionalProperties":false}`)
}

// members writes an object whose members are headers, or parameters of the query: with no names that an input of its
// own could not have.
func (w *writer) members(in *input) {
	w.schema(in.schema)
	w.out.Truncate(w.out.Len() - 1)
	if in.parameter.Place == actions.InHeader {
		w.out.WriteString(`,"propertyNames":{"pattern":"^[A-Za-z0-9_-]{1,100}$","not":{"pattern":`)
		w.string(anyCase(anyOf(ownHeaders())))
	} else {
		w.out.WriteString(`,"propertyNames":{"minLength":1,"not":{"pattern":`)
		w.string(anyCase(anyOf(ownParameters())))
	}
	w.out.WriteString("}}}")
}

// schema writes a schema.
func (w *writer) schema(s *Schema) {
	description := s.Description
	target := w.c.schemas.resolve(s)
	if target == nil || w.out.Len() > maxSchema { // it is too large anyway
		w.out.WriteString("{}")
		return
	}
	if description == "" || target == s {
		description = target.Description
	}
	if w.input && isFile(target) {
		w.out.WriteString(`{"type":"object"`)
		w.text("description", description)
		w.out.WriteString(`,"properties":{"base64":{"type":"string","contentEncoding":"base64"},"filename":` +
			`{"type":"string"},"content_type":{"type":"string"}},"required":["base64"],"additionalProperties":false}`)
		return
	}
	w.out.WriteByte('{')
	switch len(target.Type) {
	case 0:
	case 1:
		w.member("type", target.Type[0])
	default:
		w.member("type", target.Type)
	}
	w.text("title", target.Title)
	w.text("description", description)
	w.text("format", target.Format)
	w.values(target)
	w.limits(target)
	w.within(target)
	if target.Deprecated {
		w.member("deprecated", true)
	}
	w.out.WriteByte('}')
}

// name writes the name of a keyword, with a comma before it where it is not the first.
func (w *writer) name(name string) {
	if b := w.out.Bytes(); b[len(b)-1] != '{' {
		w.out.WriteByte(',')
	}
	w.out.WriteString(`"` + name + `":`)
}

func (w *writer) member(name string, value any) {
	w.name(name)
	w.json(value)
}

func (w *writer) text(name, value string) {
	if value != "" {
		w.name(name)
		w.string(value)
	}
}

func (w *writer) values(s *Schema) {
	if s.Enum != nil {
		w.list("enum", s.Enum)
	}
	if s.Const != nil {
		w.member("const", raw(s.Const))
	}
	if s.Default != nil {
		w.member("default", raw(s.Default))
	}
	if s.Examples != nil {
		w.list("examples", s.Examples)
	}
}

func (w *writer) list(name string, values []Value) {
	list := make([]json.RawMessage, len(values))
	for i, v := range values {
		list[i] = raw(v)
	}
	w.member(name, list)
}

func (w *writer) limits(s *Schema) {
	for _, k := range []struct {
		name  string
		value *int
	}{{"minLength", s.MinLength}, {"maxLength", s.MaxLength}, {"minItems", s.MinItems}, {"maxItems", s.MaxItems},
		{"minProperties", s.MinProperties}, {"maxProperties", s.MaxProperties}} {
		if k.value != nil {
			w.name(k.name)
			w.out.WriteString(strconv.Itoa(*k.value))
		}
	}
	w.text("pattern", s.Pattern)
	for _, k := range []struct {
		name  string
		value Value
	}{{"minimum", s.Minimum}, {"maximum", s.Maximum}, {"exclusiveMinimum", s.ExclusiveMinimum},
		{"exclusiveMaximum", s.ExclusiveMaximum}, {"multipleOf", s.MultipleOf}} {
		if k.value != nil {
			w.member(k.name, raw(k.value))
		}
	}
	if s.UniqueItems {
		w.member("uniqueItems", true)
	}
}

// within writes the keywords that have schemas.
func (w *writer) within(s *Schema) {
	if s.Items != nil {
		w.name("items")
		w.schema(s.Items)
	}
	if s.Properties.names != nil {
		w.name("properties")
		w.out.WriteByte('{')
		for i, name := range s.Properties.names {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.string(name)
			w.out.WriteByte(':')
			property := s.Properties.byName[name]
			w.schema(&property)
		}
		w.out.WriteByte('}')
	}
	if len(s.Required) > 0 {
		w.member("required", s.Required)
	}
	if o := s.AdditionalProperties; o != nil {
		w.name("additionalProperties")
		if o.Schema != nil {
			w.schema(o.Schema)
		} else {
			w.json(o.Allowed)
		}
	}
	if s.AnyOf != nil {
		w.name("anyOf")
		for i := range s.AnyOf {
			w.out.WriteByte("[,"[min(i, 1)])
			w.schema(&s.AnyOf[i])
		}
		w.out.WriteByte(']')
	}
}

// json writes a value without escapes that only HTML needs.
func (w *writer) json(value any) {
	e := json.NewEncoder(&w.out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		w.out.WriteString("null") // strings, numbers and values that were read always have a form
		return
	}
	w.out.Truncate(w.out.Len() - 1) // the line break
}

func (w *writer) string(text string) { w.json(text) }
