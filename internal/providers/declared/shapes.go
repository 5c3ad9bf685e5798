package declared

import (
	"encoding/json"
	"fmt"
	"iter"
	"reflect"

	"github.com/goccy/go-yaml"
)

// Ordered is a mapping that keeps its order.
type Ordered[T any] struct {
	names  []string
	byName map[string]T
}

// UnmarshalYAML reads the mapping.
func (o *Ordered[T]) UnmarshalYAML(unmarshal func(any) error) error {
	var order yaml.MapSlice
	if err := unmarshal(&order); err != nil {
		return fmt.Errorf("read the names of a mapping: %w", err)
	}
	if err := unmarshal(&o.byName); err != nil {
		return fmt.Errorf("read a mapping: %w", err)
	}
	for _, item := range order {
		o.names = append(o.names, fmt.Sprint(item.Key))
	}
	return nil
}

// YAMLShapes returns the types that describe what a file may contain here.
func (o Ordered[T]) YAMLShapes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[map[string]T]()}
}

// all returns the entries in their order.
func (o *Ordered[T]) all() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, name := range o.names {
			if !yield(name, o.byName[name]) {
				return
			}
		}
	}
}

// Value is any value, as JSON; nil for none.
type Value json.RawMessage

// UnmarshalYAML reads any value.
func (v *Value) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return fmt.Errorf("read a value: %w", err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write a value as JSON: %w", err)
	}
	*v = text
	return nil
}

// YAMLShapes returns the types that describe what a file may contain here.
func (v Value) YAMLShapes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[[]Value](), reflect.TypeFor[map[string]Value]()}
}

// Others are the members of an object that are not among its properties: whether there can be any, or their schema.
type Others struct {
	Allowed bool
	Schema  *Schema
}

// UnmarshalYAML reads a boolean or a schema.
func (o *Others) UnmarshalYAML(unmarshal func(any) error) error {
	if unmarshal(&o.Allowed) == nil {
		return nil
	}
	o.Allowed, o.Schema = true, &Schema{}
	if err := unmarshal(o.Schema); err != nil {
		return fmt.Errorf("read true, false or a schema: %w", err)
	}
	return nil
}

// YAMLShapes returns the types that describe what a file may contain here.
func (o Others) YAMLShapes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[bool](), reflect.TypeFor[Schema]()}
}

// none is the text in place of a mapping that an action does not have.
const none = "none"

// paginationFields and idempotencyFields are the types as mappings.
type (
	paginationFields  Pagination
	idempotencyFields Idempotency
)

// UnmarshalYAML reads a mapping, or a text.
func (p *Pagination) UnmarshalYAML(unmarshal func(any) error) error {
	return textOr(unmarshal, &p.Text, (*paginationFields)(p))
}

// YAMLShapes returns the types that describe what a file may contain here.
func (p Pagination) YAMLShapes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[paginationFields]()}
}

// UnmarshalYAML reads a mapping, or a text.
func (i *Idempotency) UnmarshalYAML(unmarshal func(any) error) error {
	return textOr(unmarshal, &i.Text, (*idempotencyFields)(i))
}

// YAMLShapes returns the types that describe what a file may contain here.
func (i Idempotency) YAMLShapes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[idempotencyFields]()}
}

// textOr reads a text, or else a mapping.
func textOr(unmarshal func(any) error, text *string, mapping any) error {
	if unmarshal(text) == nil {
		return nil
	}
	if err := unmarshal(mapping); err != nil {
		return fmt.Errorf("read a text or a mapping: %w", err)
	}
	return nil
}
