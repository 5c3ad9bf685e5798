// Package oas has the schemas of the OpenAPI document, for types that describe themselves. A wire type whose Go type
// does not say what it looks like in JSON has the method
//
//	Schema(r oas.Registry) *oas.Schema
//
// The types are Huma's: it is Huma that looks for the method.
package oas

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Schema is a schema of the document.
type Schema = huma.Schema

// Registry holds the schemas that the document has by name.
type Registry = huma.Registry

// Of returns the schema of T in full.
func Of[T any](r Registry) *Schema { return huma.SchemaFromType(r, reflect.TypeFor[T]()) }

// Ref returns a reference to the schema of T, which the document has by name; for a type without a name, its schema.
func Ref[T any](r Registry) *Schema { return r.Schema(reflect.TypeFor[T](), true, "") }

// Enum returns the schema of a string that is one of the values.
func Enum[T ~string](values []T) *Schema {
	s := &Schema{Type: huma.TypeString}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

// NullableEnum returns the schema of null, or a string that is one of the values. A tag cannot express it: an enum
// without null forbids null.
func NullableEnum[T ~string](values ...T) *Schema {
	s := Enum(values)
	s.Nullable, s.Enum = true, append(s.Enum, nil)
	return s
}
