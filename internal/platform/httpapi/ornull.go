package httpapi

import (
	"encoding/json"

	"sallyport/internal/platform/httpapi/oas"
)

// OrNull is an object in a response that can be null. Huma's nullable tag does not support objects.
type OrNull[T any] struct{ Value *T }

// MarshalJSON writes the object or null.
func (n OrNull[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.Value) }

// UnmarshalJSON reads the object or null.
func (n *OrNull[T]) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &n.Value) }

// Schema returns the schema of T or null.
func (OrNull[T]) Schema(r oas.Registry) *oas.Schema {
	return &oas.Schema{AnyOf: []*oas.Schema{oas.Ref[T](r), {Type: "null"}}}
}

// NullIfEmpty returns what a response shows of a text: null if it is empty.
func NullIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
