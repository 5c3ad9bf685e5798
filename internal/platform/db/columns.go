package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
)

// Column binds a column to a field of a row.
type Column struct {
	// Name is the column's name; in a SELECT it can be an expression.
	Name string
	// Field is a pointer to the field, if the column holds the field's value as it is: text, an integer, a boolean, or
	// bytes, of which nil is NULL. Null, Millis, JSON and the like bind fields that are stored in another form.
	Field any
}

// Col returns a Column.
func Col(name string, field any) Column { return Column{name, field} }

// Columns binds the columns of a table to the fields of one row. A store has one function that returns the Columns of a
// row, and all its statements take names, values and destinations from it, so that they cannot disagree.
type Columns []Column

// Names returns the names for a SELECT.
func (c Columns) Names() string {
	var b strings.Builder
	for i, column := range c {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(column.Name)
	}
	return b.String()
}

// Only returns the columns with these names, in their order here. It panics on a name that is not there.
func (c Columns) Only(names ...string) Columns {
	out := make(Columns, 0, len(names))
	for _, name := range names {
		i := c.index(name)
		if i < 0 {
			panic("no column " + name)
		}
		out = append(out, c[i])
	}
	return out
}

func (c Columns) index(name string) int {
	for i := range c {
		if c[i].Name == name {
			return i
		}
	}
	return -1
}

// Changed returns the columns whose values differ from those in before, which has the same columns in the same order.
func (c Columns) Changed(before Columns) (Columns, error) {
	var out Columns
	for i, column := range c {
		now, err := value(column.Field)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", column.Name, err)
		}
		then, err := value(before[i].Field)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", column.Name, err)
		}
		if !reflect.DeepEqual(now, then) {
			out = append(out, column)
		}
	}
	return out, nil
}

// Args returns the values of the fields, for a statement.
func (c Columns) Args() ([]any, error) {
	args := make([]any, len(c))
	for i, column := range c {
		var err error
		if args[i], err = value(column.Field); err != nil {
			return nil, fmt.Errorf("column %s: %w", column.Name, err)
		}
	}
	return args, nil
}

// Scan sets the fields from a row of a SELECT of Names.
func (c Columns) Scan(row interface{ Scan(dest ...any) error }) error {
	dest := make([]any, len(c))
	for i, column := range c {
		dest[i] = column.Field
	}
	return row.Scan(dest...)
}

// value returns a field's value as the drivers take it.
func value(field any) (any, error) {
	if v, ok := field.(driver.Valuer); ok {
		return v.Value()
	}
	v := reflect.ValueOf(field).Elem()
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int64:
		return v.Int(), nil
	default:
		b, ok := v.Interface().([]byte)
		switch {
		case !ok:
			return nil, fmt.Errorf("a %s needs a binding", v.Type())
		case b == nil:
			return nil, nil
		default:
			return b, nil
		}
	}
}

// Insert runs an INSERT of the columns and reports whether it stored a row. Into is "INSERT INTO" and the table; tail
// follows the values, such as an ON CONFLICT.
func Insert(ctx context.Context, q Querier, into string, c Columns, tail string) (stored bool, err error) {
	args, err := c.Args()
	if err != nil {
		return false, err
	}
	return Changed(q.ExecContext(ctx, into+" ("+c.Names()+") VALUES "+In(1, len(c))+" "+tail, args...))
}

// Update runs an UPDATE that sets the columns in the rows of w, and reports whether there was one: with the version of
// a row among the conditions it is a compare-and-set. Table is "UPDATE" and the table.
func Update(ctx context.Context, q Querier, table string, c Columns, w *Where) (changed bool, err error) {
	args, err := c.Args()
	if err != nil {
		return false, err
	}
	var set strings.Builder
	for i, column := range c {
		if i > 0 {
			set.WriteString(", ")
		}
		// The placeholders of the conditions come first.
		set.WriteString(column.Name + " = $" + strconv.Itoa(len(w.args)+i+1))
	}
	return Changed(q.ExecContext(ctx, table+" SET "+set.String()+w.Text(), append(w.Args(), args...)...))
}

// One reads the first of the rows that meet the conditions, and reports whether there was one. From is "FROM" and the
// table; tail follows the conditions, such as an ORDER BY. Bind returns the columns of a row.
func One[T any](ctx context.Context, q Querier, bind func(*T) Columns, from string, w *Where,
	tail string) (row T, found bool, err error) {
	c := bind(&row)
	err = c.Scan(q.QueryRowContext(ctx, "SELECT "+c.Names()+" "+from+w.Text()+" "+tail, w.args...))
	if errors.Is(err, sql.ErrNoRows) {
		return row, false, nil
	}
	return row, err == nil, err
}

// All reads the rows that meet the conditions; see One. The result is not nil.
func All[T any](ctx context.Context, q Querier, bind func(*T) Columns, from string, w *Where,
	tail string) ([]T, error) {
	var none T
	rows, err := q.QueryContext(ctx, "SELECT "+bind(&none).Names()+" "+from+w.Text()+" "+tail, w.args...)
	if err != nil {
		return nil, err
	}
	list := []T{}
	err = Each(rows, func(r *sql.Rows) error {
		var row T
		err := bind(&row).Scan(r)
		list = append(list, row)
		return err
	})
	return list, err
}

// Changed reports whether a statement changed a row. It takes what ExecContext returns.
func Changed(r sql.Result, err error) (bool, error) {
	n, err := Affected(r, err)
	return n > 0, err
}

// Affected returns how many rows a statement changed. It takes what ExecContext returns.
func Affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

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
