package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

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
	return Query(ctx, q, bind, "SELECT "+bind(&none).Names()+" "+from+w.Text()+" "+tail, w.args...)
}

// Query reads the rows of a query that All cannot express. Its columns are those of bind. The result is not nil.
func Query[T any](ctx context.Context, q Querier, bind func(*T) Columns, text string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	var row, zero T
	destinations := bind(&row).destinations()
	list := []T{}
	err = Each(rows, func(r *sql.Rows) error {
		row = zero // a binding may add to what its field holds
		err := r.Scan(destinations...)
		list = append(list, row)
		return err
	})
	return list, err
}

// Each calls scan for every row and closes rows.
func Each(rows *sql.Rows, scan func(*sql.Rows) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Found reports whether scanning one row found it, where a statement returns other values than One does. A missing row
// is no error; any other error says that the subject could not be read.
func Found(subject string, err error) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", subject, err)
	}
	return true, nil
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
