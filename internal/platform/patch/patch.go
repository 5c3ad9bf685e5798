// Package patch has the fields of a JSON merge patch (RFC 7396): absent keeps a value, null clears it, and anything
// else replaces it. The types are for bodies on the wire and for the changes that services take, so that a body needs
// no translation.
package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"sallyport/internal/platform/httpapi/oas"
)

// Field is a field that can be absent, null or have a value. The zero Field is absent.
type Field[T any] struct {
	// Set is false where the field is absent.
	Set bool
	// Null is true where the field is null; Value is the zero value then.
	Null  bool
	Value T
}

// To returns a Field with a value.
func To[T any](v T) Field[T] { return Field[T]{Set: true, Value: v} }

// Clear returns a Field that is null.
func Clear[T any]() Field[T] { return Field[T]{Set: true, Null: true} }

// Given reports whether the field has a value.
func (f Field[T]) Given() bool { return f.Set && !f.Null }

// Or returns the value that a patch of kept leads to, where null stands for cleared.
func (f Field[T]) Or(kept, cleared T) T {
	switch {
	case !f.Set:
		return kept
	case f.Null:
		return cleared
	default:
		return f.Value
	}
}

// Pointer is Or for a value that is nil where it is cleared.
func (f Field[T]) Pointer(kept *T) *T {
	switch {
	case !f.Set:
		return kept
	case f.Null:
		return nil
	default:
		return &f.Value
	}
}

// UnmarshalJSON records the value or the null.
func (f *Field[T]) UnmarshalJSON(b []byte) error {
	*f = Field[T]{Set: true, Null: isNull(b)}
	if f.Null {
		return nil
	}
	return unmarshal(b, &f.Value)
}

// Schema returns the schema of T or null.
func (Field[T]) Schema(r oas.Registry) *oas.Schema {
	s := oas.Of[T](r)
	s.Nullable = true
	return s
}

// Optional is a field, or a parameter, that can be absent and not null: a value that has no cleared state. The zero
// Optional is absent.
type Optional[T any] struct {
	// Set is false where the field is absent.
	Set   bool
	Value T
}

// Some returns an Optional with a value.
func Some[T any](v T) Optional[T] { return Optional[T]{Set: true, Value: v} }

// Or returns the value, or kept where there is none.
func (o Optional[T]) Or(kept T) T {
	if o.Set {
		return o.Value
	}
	return kept
}

// Pointer returns nil where the field is absent.
func (o Optional[T]) Pointer() *T {
	if !o.Set {
		return nil
	}
	return &o.Value
}

// UnmarshalJSON records the value. A null, which the schema refuses, leaves the field absent.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	if isNull(b) {
		return nil
	}
	o.Set = true
	return unmarshal(b, &o.Value)
}

// Schema returns the schema of T.
func (Optional[T]) Schema(r oas.Registry) *oas.Schema { return oas.Of[T](r) }

// Receiver returns the place for the value of a parameter.
func (o *Optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Value") }

// OnParamSet records whether the parameter has a value.
func (o *Optional[T]) OnParamSet(set bool, _ any) { o.Set = set }

func isNull(b []byte) bool { return bytes.Equal(b, []byte("null")) }

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

// Object is a JSON object whose numbers are kept as they were written. Its values are strings, booleans, json.Number,
// nil, []any and map[string]any.
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
