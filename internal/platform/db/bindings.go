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

// binding is a field that is stored in another form than its own.
type binding struct {
	scan  func(src any) error
	value func() (driver.Value, error)
}

// Scan implements sql.Scanner.
func (b binding) Scan(src any) error { return b.scan(src) }

// Value implements driver.Valuer.
func (b binding) Value() (driver.Value, error) { return b.value() }

// Null binds a text whose empty value is stored as NULL.
func Null[T ~string](field *T) any {
	return binding{
		scan: func(src any) error {
			*field = ""
			if src == nil {
				return nil
			}
			text, err := asText(src)
			*field = T(text)
			return err
		},
		value: func() (driver.Value, error) {
			if *field == "" {
				return nil, nil
			}
			return string(*field), nil
		},
	}
}

// Millis binds a time that is stored in Unix milliseconds.
func Millis(field *time.Time) any {
	return binding{
		scan: func(src any) error {
			ms, err := asInt(src)
			*field = clock.FromMillis(ms)
			return err
		},
		value: func() (driver.Value, error) { return clock.Millis(*field), nil },
	}
}

// NullMillis is Millis for a time that is NULL where it is nil.
func NullMillis(field **time.Time) any {
	return binding{
		scan: func(src any) error {
			*field = nil
			if src == nil {
				return nil
			}
			ms, err := asInt(src)
			at := clock.FromMillis(ms)
			*field = &at
			return err
		},
		value: func() (driver.Value, error) {
			if *field == nil {
				return nil, nil
			}
			return clock.Millis(**field), nil
		},
	}
}

// Duration binds a length of time that is stored as a number of units.
func Duration(field *time.Duration, unit time.Duration) any {
	return binding{
		scan: func(src any) error {
			n, err := asInt(src)
			*field = time.Duration(n) * unit
			return err
		},
		value: func() (driver.Value, error) { return int64(*field / unit), nil },
	}
}

// Text binds a field that is stored as the text that encode returns and decode reads.
func Text(encode func() (string, error), decode func(text string) error) any {
	return binding{
		scan: func(src any) error {
			text, err := asText(src)
			if err != nil {
				return err
			}
			return decode(text)
		},
		value: func() (driver.Value, error) { return encode() },
	}
}

// JSON binds a field that is stored as JSON text, as EncodeJSON writes it.
func JSON(field any) any {
	return Text(
		func() (string, error) { return EncodeJSON(reflect.ValueOf(field).Elem().Interface()) },
		func(text string) error { return DecodeJSON(text, field) },
	)
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
