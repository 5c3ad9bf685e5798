package httpapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/openapi"
)

// Field names a field of a wire struct.
type Field struct {
	// Package is the import path of the package that declares the struct.
	Package string
	// Type is the name of the struct, without type parameters.
	Type string
	// Name is the name of the field in Go.
	Name string
}

// String returns the field as package.Type.Name.
func (f Field) String() string { return f.Package + "." + f.Type + "." + f.Name }

// documentedField is a field with the function that sets its description in the document.
type documentedField struct {
	Field
	describe func(text string)
}

// exchange holds the input and output types of an operation of the document.
type exchange struct {
	operation *huma.Operation
	in, out   reflect.Type
	statuses  []int
}

const schemaPrefix = "#/components/schemas/"

// Fields returns the fields that the document shows: properties of bodies, parameters and response headers. A field
// that several operations share comes several times.
func (a *API) Fields() []Field {
	var fields []Field
	for _, f := range a.documentedFields() {
		fields = append(fields, f.Field)
	}
	return fields
}

// describeFields sets the description of each field that has a comment. Other fields keep what Huma found in their doc
// tag.
func (a *API) describeFields() error {
	var texts map[string]map[string]map[string]string // by package, type and field
	if err := json.Unmarshal(openapi.Descriptions(), &texts); err != nil {
		return fmt.Errorf("read the descriptions of fields: %w", err)
	}
	a.huma.OpenAPI().Tags = usedTags(a.huma.OpenAPI())
	for _, f := range a.documentedFields() {
		if text := texts[f.Package][f.Type][f.Name]; text != "" {
			f.describe(text)
		}
	}
	return nil
}

func (a *API) documentedFields() []documentedField {
	var fields []documentedField
	schemas := a.huma.OpenAPI().Components.Schemas
	for name, schema := range schemas.Map() {
		fields = append(fields, propertyFields(schemas.TypeFromRef(schemaPrefix+name), schema)...)
	}
	for _, e := range a.exchanges {
		fields = append(fields, e.parameterFields()...)
		fields = append(fields, e.headerFields()...)
	}
	return fields
}

func propertyFields(t reflect.Type, s *huma.Schema) []documentedField {
	var fields []documentedField
	seen := map[string]bool{}
	eachField(t, func(owner reflect.Type, f reflect.StructField) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		// A field of the struct itself hides one of the same name in an embedded struct.
		if p := s.Properties[name]; p != nil && !seen[name] {
			seen[name] = true
			fields = append(fields, newDocumentedField(owner, f, func(text string) { p.Description = text }))
			if len(p.Properties) > 0 {
				fields = append(fields, propertyFields(valueType(f.Type), p)...)
			}
		}
	})
	return fields
}

// valueType returns T for an Optional[T] or Nullable[T], whose schema is that of T.
func valueType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Struct {
		if value, ok := t.FieldByName("Value"); ok {
			return value.Type
		}
	}
	return t
}

func (e exchange) parameterFields() []documentedField {
	var fields []documentedField
	eachField(e.in, func(owner reflect.Type, f reflect.StructField) {
		for _, p := range e.operation.Parameters {
			if name, _, _ := strings.Cut(f.Tag.Get(p.In), ","); name == p.Name {
				fields = append(fields, newDocumentedField(owner, f, func(text string) {
					// Some readers of documents show only the one, some only the other.
					p.Description, p.Schema.Description = text, text
				}))
			}
		}
	})
	return fields
}

func (e exchange) headerFields() []documentedField {
	var fields []documentedField
	eachField(e.out, func(owner reflect.Type, f reflect.StructField) {
		name := f.Tag.Get("header")
		if name == "" {
			return
		}
		for _, status := range e.statuses {
			r := e.operation.Responses[strconv.Itoa(status)]
			if r == nil || r.Headers[name] == nil {
				continue
			}
			h := r.Headers[name]
			fields = append(fields, newDocumentedField(owner, f, func(text string) {
				h.Description, h.Schema.Description = text, text
			}))
		}
	})
	return fields
}

func newDocumentedField(owner reflect.Type, f reflect.StructField, describe func(string)) documentedField {
	name, _, _ := strings.Cut(owner.Name(), "[")
	return documentedField{Field{owner.PkgPath(), name, f.Name}, describe}
}

// eachField calls visit for the exported fields of a struct, then for those of its embedded structs, each with the
// struct that declares it.
func eachField(t reflect.Type, visit func(owner reflect.Type, f reflect.StructField)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	var embedded []reflect.Type
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Anonymous && f.Tag.Get("json") == "":
			embedded = append(embedded, f.Type)
		case f.IsExported():
			visit(t, f)
		}
	}
	for _, e := range embedded {
		eachField(e, visit)
	}
}
