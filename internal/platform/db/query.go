package db

import (
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Found reports whether scanning one row found it. A missing row is no error; any other error says that the subject
// could not be read.
func Found(subject string, err error) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", subject, err)
	}
	return true, nil
}

// ChangedOne reports whether a statement changed its row.
func ChangedOne(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("store a change: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("store a change: %w", err)
	}
	return n == 1, nil
}

// Select is a query that grows by conditions.
type Select struct {
	Text string
	Args []any
}

// NewSelect returns a query that has a WHERE clause already, with its arguments.
func NewSelect(text string, args ...any) *Select { return &Select{Text: text, Args: args} }

// And adds a condition. Each ? in it becomes the placeholder of one of the arguments.
func (s *Select) And(condition string, args ...any) {
	for _, a := range args {
		s.Args = append(s.Args, a)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(s.Args)), 1)
	}
	s.Text += " AND " + condition
}

// AndAnyOf adds the condition that a column has one of the values. Without values it adds nothing.
func AndAnyOf[T ~string](s *Select, column string, values []T) {
	if len(values) == 0 {
		return
	}
	in := In(len(s.Args)+1, len(values))
	for _, v := range values {
		s.Args = append(s.Args, string(v))
	}
	s.Text += " AND " + column + " IN " + in
}

// Page orders the rows by a key and limits them to those after one key; an empty one begins with the first row.
func (s *Select) Page(key, after string, ascending bool, limit int) {
	compare, direction := "<", "DESC"
	if ascending {
		compare, direction = ">", "ASC"
	}
	if after != "" {
		s.And(key+" "+compare+" ?", after)
	}
	s.Args = append(s.Args, limit)
	s.Text += " ORDER BY " + key + " " + direction + " LIMIT $" + strconv.Itoa(len(s.Args))
}
