package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Optional is a field of a body, or a query parameter, that can be absent and not null.
type Optional[T any] struct {
	// Set says that there was a value.
	Set   bool
	Value T
}

// UnmarshalJSON records the value. Null, which is refused before, leaves the field absent.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	o.Set = true
	return unmarshal(b, &o.Value)
}

// Receiver is where Huma puts the value of a parameter.
func (o *Optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Value") }

// OnParamSet is told by Huma that the parameter has a value.
func (o *Optional[T]) OnParamSet(set bool, _ any) { o.Set = set }

// Schema is the schema of T.
func (o Optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
}

// Pointer returns nil when the field was absent.
func (o Optional[T]) Pointer() *T {
	if !o.Set {
		return nil
	}
	return &o.Value
}

// Nullable is a field of a merge-patch body that can be absent (keep) or null (clear).
type Nullable[T any] struct {
	Set   bool
	Null  bool
	Value T
}

// UnmarshalJSON records the value or the null.
func (n *Nullable[T]) UnmarshalJSON(b []byte) error {
	n.Set = true
	if bytes.Equal(b, []byte("null")) {
		n.Null = true
		return nil
	}
	return unmarshal(b, &n.Value)
}

// maxExactInteger is the greatest integer up to which every one has a float64 of its own.
const maxExactInteger = 1 << 53

// unmarshal is json.Unmarshal, but reads 2000.0 and 2e3 as the integers that they are to JSON Schema.
func unmarshal(b []byte, v any) error {
	err := json.Unmarshal(b, v)
	integer, ok := v.(*int64)
	if err == nil || !ok {
		return err
	}
	var f float64
	if json.Unmarshal(b, &f) != nil || f != math.Trunc(f) || math.Abs(f) > maxExactInteger {
		return err
	}
	*integer = int64(f)
	return nil
}

// Schema is the schema of T, or null.
func (n Nullable[T]) Schema(r huma.Registry) *huma.Schema {
	s := huma.SchemaFromType(r, reflect.TypeFor[T]())
	s.Nullable = true
	return s
}

// Object is a JSON object whose numbers are kept as they were written.
type Object map[string]any

// UnmarshalJSON reads an object; null leaves it nil.
func (o *Object) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var members map[string]any
	if err := d.Decode(&members); err != nil {
		return fmt.Errorf("read a JSON object: %w", err)
	}
	*o = members
	return nil
}

// OrNull is an object of an answer that can be null. (Huma's nullable tag does not reach objects.)
type OrNull[T any] struct{ Value *T }

// MarshalJSON writes the object or null.
func (n OrNull[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.Value) }

// UnmarshalJSON reads the object or null.
func (n *OrNull[T]) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &n.Value) }

// Schema is the schema of T, or null.
func (OrNull[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{r.Schema(reflect.TypeFor[T](), true, ""), {Type: "null"}}}
}
