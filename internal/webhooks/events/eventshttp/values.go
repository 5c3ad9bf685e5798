package eventshttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/webhooks/events"
)

// included is a part of a list's row that is absent unless it was requested. Its field is tagged omitzero.
type included[T any] struct {
	requested bool
	value     T
}

func newIncluded[T any](v T) included[T] { return included[T]{true, v} }

// IsZero reports whether the part was not requested.
func (i included[T]) IsZero() bool { return !i.requested }

// MarshalJSON writes the value.
func (i included[T]) MarshalJSON() ([]byte, error) { return marshalUnescaped(i.value) }

// Schema returns the schema of T.
func (included[T]) Schema(r oas.Registry) *oas.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// marshalUnescaped is json.Marshal without the escapes for HTML, which would change the content that a provider sent.
func marshalUnescaped(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write a field: %w", err)
	}
	return b.Bytes(), nil
}

// headers is a stored JSON object of header names and values. It is written unchanged.
type headers string

// MarshalJSON writes the object.
func (h headers) MarshalJSON() ([]byte, error) {
	if h == "" {
		return []byte("{}"), nil
	}
	return []byte(h), nil
}

// Schema returns the schema of an object of strings.
func (headers) Schema(oas.Registry) *oas.Schema {
	return &oas.Schema{Type: "object", AdditionalProperties: &oas.Schema{Type: "string"}}
}

// content is a payload's body in the form of its encoding; null without a payload.
type content struct{ payload *events.Payload }

// MarshalJSON writes JSON as it was received, except for blanks between tokens, so that numbers, the order of fields
// and escapes survive. It writes text as a string and anything else in base64.
func (c content) MarshalJSON() ([]byte, error) {
	switch {
	case c.payload == nil:
		return []byte("null"), nil
	case c.payload.Encoding == events.JSON:
		return c.payload.Body, nil
	case c.payload.Encoding == events.Text:
		return marshalUnescaped(string(c.payload.Body))
	default:
		return marshalUnescaped(c.payload.Body)
	}
}

// Schema returns the schema of any JSON value.
func (content) Schema(oas.Registry) *oas.Schema { return &oas.Schema{} }

// encoding is a payload's encoding; null without a payload.
type encoding struct{ payload *events.Payload }

// MarshalJSON writes the encoding's name or null.
func (e encoding) MarshalJSON() ([]byte, error) {
	if e.payload == nil {
		return []byte("null"), nil
	}
	return marshalUnescaped(e.payload.Encoding)
}

// Schema returns the schema of the encodings and null.
func (encoding) Schema(oas.Registry) *oas.Schema {
	return oas.NullableEnum(events.JSON, events.Text, events.Base64)
}

// suspicion is the code of a suspect event, or null.
type suspicion struct{ code *string }

// MarshalJSON writes the code or null.
func (s suspicion) MarshalJSON() ([]byte, error) { return marshalUnescaped(s.code) }

// Schema returns the schema of the codes and null.
func (suspicion) Schema(oas.Registry) *oas.Schema {
	return oas.NullableEnum(events.SuspectSameBody, events.SuspectNewBody)
}
