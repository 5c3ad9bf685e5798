package eventshttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/events"
)

// included is a part of a list's row that is absent unless it was asked for; tag it omitzero.
type included[T any] struct {
	asked bool
	value T
}

func include[T any](v T) included[T] { return included[T]{true, v} }

// IsZero reports whether the part was not asked for.
func (i included[T]) IsZero() bool { return !i.asked }

// MarshalJSON writes the value.
func (i included[T]) MarshalJSON() ([]byte, error) { return marshal(i.value) }

// Schema is the schema of T.
func (included[T]) Schema(r httpapi.Registry) *httpapi.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// marshal is json.Marshal without the escapes for HTML, which would change what a provider sent.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write a field: %w", err)
	}
	return b.Bytes(), nil
}

// headers is a stored JSON object of header names and values, written as it is.
type headers string

// MarshalJSON writes the object.
func (h headers) MarshalJSON() ([]byte, error) {
	if h == "" {
		return []byte("{}"), nil
	}
	return []byte(h), nil
}

// Schema is an object of strings.
func (headers) Schema(httpapi.Registry) *httpapi.Schema {
	return &httpapi.Schema{Type: "object", AdditionalProperties: &httpapi.Schema{Type: "string"}}
}

// content is a payload's body as its encoding shows it; without a payload it is null.
type content struct{ payload *events.Payload }

// MarshalJSON writes JSON as it came, but for blanks between its tokens, so that numbers, the order of fields and
// escapes survive; text as a string; anything else in base64.
func (c content) MarshalJSON() ([]byte, error) {
	switch {
	case c.payload == nil:
		return []byte("null"), nil
	case c.payload.Encoding == events.JSON:
		return c.payload.Body, nil
	case c.payload.Encoding == events.Text:
		return marshal(string(c.payload.Body))
	default:
		return marshal(c.payload.Body)
	}
}

// Schema allows every JSON value.
func (content) Schema(httpapi.Registry) *httpapi.Schema { return &httpapi.Schema{} }

// encoding is a payload's encoding; without a payload it is null.
type encoding struct{ payload *events.Payload }

// MarshalJSON writes the encoding's name or null.
func (e encoding) MarshalJSON() ([]byte, error) {
	if e.payload == nil {
		return []byte("null"), nil
	}
	return marshal(e.payload.Encoding)
}

// Schema is the set of encodings, or null.
func (encoding) Schema(httpapi.Registry) *httpapi.Schema {
	return &httpapi.Schema{Type: "string", Nullable: true,
		Enum: []any{string(events.JSON), string(events.Text), string(events.Base64), nil}}
}

// suspicion is what is odd about an event, or null.
type suspicion struct{ code *string }

// MarshalJSON writes the code or null.
func (s suspicion) MarshalJSON() ([]byte, error) { return marshal(s.code) }

// Schema is the set of codes, or null. A tag could not say so: an enum that leaves null out forbids it.
func (suspicion) Schema(httpapi.Registry) *httpapi.Schema {
	return &httpapi.Schema{Type: "string", Nullable: true, Enum: []any{events.SuspectSameBody, nil}}
}
