package db

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
)

// A binding is a field that is stored in another form than its own: it implements sql.Scanner and driver.Valuer. Those
// that hold one pointer cost no allocation.

// Null binds a text whose empty value is stored as NULL.
func Null[T ~string](field *T) any { return nullText[T]{field} }

type nullText[T ~string] struct{ field *T }

func (b nullText[T]) Scan(src any) error {
	*b.field = ""
	if src == nil {
		return nil
	}
	text, err := asText(src)
	*b.field = T(text)
	return err
}

func (b nullText[T]) Value() (driver.Value, error) {
	if *b.field == "" {
		return nil, nil
	}
	return string(*b.field), nil
}

// Millis binds a time that is stored in Unix milliseconds.
func Millis(field *time.Time) any { return millis{field} }

type millis struct{ field *time.Time }

func (b millis) Scan(src any) error {
	ms, err := asInt(src)
	*b.field = clock.FromMillis(ms)
	return err
}

func (b millis) Value() (driver.Value, error) { return clock.Millis(*b.field), nil }

// NullMillis is Millis for a time that is NULL where it is nil.
func NullMillis(field **time.Time) any { return nullMillis{field} }

type nullMillis struct{ field **time.Time }

func (b nullMillis) Scan(src any) error {
	*b.field = nil
	if src == nil {
		return nil
	}
	ms, err := asInt(src)
	at := clock.FromMillis(ms)
	*b.field = &at
	return err
}

func (b nullMillis) Value() (driver.Value, error) {
	if *b.field == nil {
		return nil, nil
	}
	return clock.Millis(**b.field), nil
}

// Duration binds a length of time that is stored as a number of units.
func Duration(field *time.Duration, unit time.Duration) any { return duration{field, unit} }

type duration struct {
	field *time.Duration
	unit  time.Duration
}

func (b duration) Scan(src any) error {
	n, err := asInt(src)
	*b.field = time.Duration(n) * b.unit
	return err
}

func (b duration) Value() (driver.Value, error) { return int64(*b.field / b.unit), nil }

// Text binds a field that is stored as the text that encode returns and decode reads.
func Text(encode func() (string, error), decode func(text string) error) any {
	return textBinding{encode, decode}
}

type textBinding struct {
	encode func() (string, error)
	decode func(text string) error
}

func (b textBinding) Scan(src any) error {
	text, err := asText(src)
	if err != nil {
		return err
	}
	return b.decode(text)
}

func (b textBinding) Value() (driver.Value, error) { return b.encode() }

// JSON binds a field that is stored as JSON text, as EncodeJSON writes it. Field is a pointer.
func JSON(field any) any { return jsonBinding{field} }

type jsonBinding struct{ field any }

func (b jsonBinding) Scan(src any) error {
	text, err := asText(src)
	if err != nil {
		return err
	}
	return DecodeJSON(text, b.field)
}

func (b jsonBinding) Value() (driver.Value, error) {
	return EncodeJSON(reflect.ValueOf(b.field).Elem().Interface())
}

// EncodeJSON returns v as compact JSON without escapes for HTML: the form that is stored, and whose length is measured.
func EncodeJSON(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// DecodeJSON reads stored JSON. Numbers in values of any type are json.Number, so that they stay as they were written.
func DecodeJSON(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

func asText(src any) (string, error) {
	switch v := src.(type) {
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	default:
		return "", fmt.Errorf("expected text, got %T", src)
	}
}

func asInt(src any) (int64, error) {
	if n, ok := src.(int64); ok {
		return n, nil
	}
	return 0, fmt.Errorf("expected an integer, got %T", src)
}
