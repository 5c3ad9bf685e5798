package httpapi

import "github.com/danielgtaylor/huma/v2"

// JSON is any JSON value of a body, kept as it was sent.
type JSON []byte

// UnmarshalJSON keeps the bytes.
func (v *JSON) UnmarshalJSON(b []byte) error {
	*v = append((*v)[:0], b...)
	return nil
}

// Bytes returns the value; nil where the body had none.
func (v JSON) Bytes() []byte { return v }

// Schema is any JSON value.
func (JSON) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }
