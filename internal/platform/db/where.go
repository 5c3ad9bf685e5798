package db

import (
	"strconv"
	"strings"

	"sallyport/internal/platform/page"
)

// Where collects the conditions of a statement, all of which must be met, and the statement's arguments. The zero Where
// has none.
type Where struct {
	conditions []string
	args       []any
}

// And adds a condition, in which each ? stands for the next of the arguments. It returns w.
func (w *Where) And(condition string, args ...any) *Where {
	for _, arg := range args {
		condition = strings.Replace(condition, "?", w.Arg(arg), 1)
	}
	w.conditions = append(w.conditions, condition)
	return w
}

// Numbered adds a condition that has its placeholders already, beginning with Next. An empty condition adds nothing.
// It returns w.
func (w *Where) Numbered(condition string, args []any) *Where {
	if condition != "" {
		w.conditions = append(w.conditions, condition)
		w.args = append(w.args, args...)
	}
	return w
}

// Arg adds an argument that a part of the statement other than a condition needs, and returns its placeholder.
func (w *Where) Arg(value any) string {
	w.args = append(w.args, value)
	return "$" + strconv.Itoa(len(w.args))
}

// Next returns the number of the next placeholder.
func (w *Where) Next() int { return len(w.args) + 1 }

// List adds the values as arguments and returns their placeholders, such as "($2,$3)".
func List[T ~string | ~int | ~int64 | ~bool](w *Where, values []T) string {
	list := In(w.Next(), len(values))
	for i := range values {
		arg, _ := value(&values[i]) // every one of these types has a value
		w.args = append(w.args, arg)
	}
	return list
}

// AnyOf adds that a column has one of the values. Without values it adds nothing. It returns w.
func AnyOf[T ~string | ~int | ~int64 | ~bool](w *Where, column string, values []T) *Where {
	if len(values) > 0 {
		w.conditions = append(w.conditions, column+" IN "+List(w, values))
	}
	return w
}

// Page adds that the key of a row lies after that of the last row of the page before, and returns the ORDER BY and
// LIMIT of the page.
func (w *Where) Page(key string, p page.Request) (tail string) {
	if p.After != "" {
		w.And(key+" "+p.Compare()+" ?", p.After)
	}
	return "ORDER BY " + key + " " + p.Direction() + " LIMIT " + strconv.Itoa(p.Fetch())
}

// Text returns " WHERE" and the conditions; without conditions it is empty.
func (w *Where) Text() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// Embed returns the conditions that add collects for another part of the statement, without "WHERE". Their arguments
// belong to those of w.
func (w *Where) Embed(add func(own *Where)) string {
	own := &Where{args: w.args}
	add(own)
	w.args = own.args
	return strings.Join(own.conditions, " AND ")
}

// Args returns the arguments of Text.
func (w *Where) Args() []any { return w.args[:len(w.args):len(w.args)] }
