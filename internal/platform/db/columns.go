package db

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"strings"
)

// Column binds a column to a field of a row.
type Column struct {
	// Name is the column's name; in a SELECT it can be an expression.
	Name string
	// Field is a pointer to the field, if the column holds the field's value as it is: text, an integer, a boolean, a
	// pointer to one of these, or bytes; nil is NULL. Null, Millis, JSON and the like bind fields that are stored in
	// another form.
	Field any
}

// Col returns a Column.
func Col(name string, field any) Column { return Column{name, field} }

// Columns binds the columns of a table to the fields of one row. A store has one function that returns the Columns of a
// row, and all its statements take names, values and destinations from it, so that they cannot disagree.
type Columns []Column

// Names returns the names for a SELECT.
func (c Columns) Names() string {
	size := 0
	for _, column := range c {
		size += len(column.Name) + len(", ")
	}
	var b strings.Builder
	b.Grow(size)
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
	return row.Scan(c.destinations()...)
}

func (c Columns) destinations() []any {
	dest := make([]any, len(c))
	for i, column := range c {
		dest[i] = column.Field
	}
	return dest
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
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return value(v.Interface())
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
