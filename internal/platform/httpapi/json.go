package httpapi

import "github.com/danielgtaylor/huma/v2"

// JSON is any JSON value in a body, byte for byte as it was sent.
type JSON []byte

// UnmarshalJSON stores the bytes.
func (v *JSON) UnmarshalJSON(b []byte) error {
	*v = append((*v)[:0], b...)
	return nil
}

// Bytes returns the value, or nil if the body had none.
func (v JSON) Bytes() []byte { return v }

// Schema returns the schema of any JSON value.
func (JSON) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }
