package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/id"
)

// Bound is a set of an environment's connections by their connection_id: a list, or all connections except a list. One
// connection_id can belong to several connections, one in each provider configuration. The zero Bound is empty. A Bound
// is immutable.
type Bound struct {
	// rest says that the set is every connection except the names. Otherwise the set is the names.
	rest bool
	// names are sorted and distinct.
	names []string
}

// All returns the bound that contains every connection, including future ones, and data without a connection.
func All() Bound { return Bound{rest: true} }

// Only returns the bound that contains the connections with these ids.
func Only(connectionIDs ...string) Bound {
	return Bound{names: slices.Compact(slices.Sorted(slices.Values(connectionIDs)))}
}

// Unrestricted reports whether the bound contains everything.
func (b Bound) Unrestricted() bool { return b.rest && len(b.names) == 0 }

// Empty reports whether the bound contains nothing.
func (b Bound) Empty() bool { return !b.rest && len(b.names) == 0 }

// Contains reports whether the bound contains the connection. Data without a connection has the empty id. It is in All,
// also with exceptions, and in no other bound.
func (b Bound) Contains(connectionID string) bool {
	_, named := slices.BinarySearch(b.names, connectionID)
	return named != b.rest
}

// Covers reports whether the bound contains a whole scope: a connection or, if the id is empty, the environment. Only
// the unrestricted bound covers the environment.
func (b Bound) Covers(connectionID string) bool {
	if connectionID == "" {
		return b.Unrestricted()
	}
	return b.Contains(connectionID)
}

// Equal reports whether two bounds contain the same connections.
func (b Bound) Equal(c Bound) bool { return b.rest == c.rest && slices.Equal(b.names, c.names) }

// Names returns the sorted ids that define the bound, and whether they are exceptions.
func (b Bound) Names() (names []string, except bool) { return slices.Clone(b.names), b.rest }

// Union returns the connections that are in either bound.
func (b Bound) Union(c Bound) Bound {
	switch {
	case b.rest && c.rest:
		return Bound{rest: true, names: common(b.names, c.names)}
	case b.rest:
		return Bound{rest: true, names: subtract(b.names, c.names)}
	case c.rest:
		return Bound{rest: true, names: subtract(c.names, b.names)}
	default:
		return Only(slices.Concat(b.names, c.names)...)
	}
}

// Minus returns the connections that are in b and not in c.
func (b Bound) Minus(c Bound) Bound {
	switch {
	case b.rest && c.rest:
		return Bound{names: subtract(c.names, b.names)}
	case b.rest:
		return Bound{rest: true, names: Only(slices.Concat(b.names, c.names)...).names}
	case c.rest:
		return Bound{names: common(b.names, c.names)}
	default:
		return Bound{names: subtract(b.names, c.names)}
	}
}

// common returns the strings that are in both of two sorted lists.
func common(a, b []string) []string {
	return keep(a, func(s string) bool { _, ok := slices.BinarySearch(b, s); return ok })
}

// subtract returns the strings of a sorted list that are not in another.
func subtract(a, b []string) []string {
	return keep(a, func(s string) bool { _, ok := slices.BinarySearch(b, s); return !ok })
}

func keep(list []string, want func(string) bool) []string {
	var out []string
	for _, s := range list {
		if want(s) {
			out = append(out, s)
		}
	}
	return out
}

// Where returns the SQL condition that a column of connection ids is in the bound, and its arguments, with placeholders
// from next on. The column must not be null. The condition is empty if the bound is unrestricted.
func (b Bound) Where(column string, next int) (condition string, args []any) {
	switch {
	case b.Unrestricted():
		return "", nil
	case b.Empty():
		return "1 = 0", nil
	}
	var list strings.Builder
	for i, name := range b.names {
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString("$" + strconv.Itoa(next+i))
		args = append(args, name)
	}
	if b.rest {
		return column + " NOT IN (" + list.String() + ")", args
	}
	return column + " IN (" + list.String() + ")", args
}

// WhereCovers is Where for a column of scopes, which is null for the whole environment.
func (b Bound) WhereCovers(column string, next int) (condition string, args []any) {
	condition, args = b.Where(column, next)
	if condition == "" {
		return "", nil
	}
	return column + " IS NOT NULL AND " + condition, args
}

// storedBound is the JSON form of a bound.
type storedBound struct {
	Only   *[]string `json:"only,omitempty"`
	Except []string  `json:"except,omitempty"`
}

// Text returns the bound as text: empty for the unrestricted bound, JSON for others. Equal bounds have equal texts.
func (b Bound) Text() (string, error) {
	if b.Unrestricted() {
		return "", nil
	}
	s := storedBound{Except: b.names}
	if !b.rest {
		only := append([]string{}, b.names...)
		s = storedBound{Only: &only}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode a bound: %w", err)
	}
	return string(text), nil
}

// ParseBound parses the result of Text. An unknown text is an error, never a wider bound.
func ParseBound(text string) (Bound, error) {
	if text == "" {
		return All(), nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var s storedBound
	if err := d.Decode(&s); err != nil {
		return Bound{}, fmt.Errorf("decode a bound: %w", err)
	}
	switch {
	case s.Only != nil && len(s.Except) == 0:
		return Only(*s.Only...), nil
	case s.Only == nil && len(s.Except) > 0:
		return All().Minus(Only(s.Except...)), nil
	default:
		return Bound{}, fmt.Errorf("decode a bound: %w", errBound)
	}
}

var errBound = errors.New("it has neither a list of connections nor a list of exceptions")

// View is the part of one environment that a caller may see. Every query for a caller takes it as an argument, so that
// no query can forget the environment or the bound. The zero View shows nothing.
type View struct {
	Environment id.Environment
	Connections Bound
}

// Whole returns the view of everything in an environment, for users and the service itself.
func Whole(env id.Environment) View { return View{Environment: env, Connections: All()} }
