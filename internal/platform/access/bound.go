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

// Bound is a set of connections, named by their connection_id: some of an environment's, or all of them with
// exceptions. A connection_id is of one environment and may be that of several connections, one under each provider
// configuration. The zero Bound holds none. A Bound is never changed.
type Bound struct {
	// rest says that the set is what the names leave, else it is the names.
	rest bool
	// names are sorted, each once.
	names []string
}

// All returns the bound that holds every connection, those yet to come included, and what is about none.
func All() Bound { return Bound{rest: true} }

// Only returns the bound that holds the connections of these ids.
func Only(connectionIDs ...string) Bound {
	return Bound{names: slices.Compact(slices.Sorted(slices.Values(connectionIDs)))}
}

// Unrestricted reports whether the bound holds everything.
func (b Bound) Unrestricted() bool { return b.rest && len(b.names) == 0 }

// Empty reports whether the bound holds nothing.
func (b Bound) Empty() bool { return !b.rest && len(b.names) == 0 }

// Contains reports whether the bound holds the connection. What is about no connection has the empty id: it is in All,
// also with exceptions, and in no other bound.
func (b Bound) Contains(connectionID string) bool {
	_, named := slices.BinarySearch(b.names, connectionID)
	return named != b.rest
}

// Covers reports whether the bound holds all that a scope holds: that of one connection, or, where the id is empty,
// that of the whole environment, which only the unrestricted bound covers.
func (b Bound) Covers(connectionID string) bool {
	if connectionID == "" {
		return b.Unrestricted()
	}
	return b.Contains(connectionID)
}

// Equal reports whether two bounds hold the same.
func (b Bound) Equal(c Bound) bool { return b.rest == c.rest && slices.Equal(b.names, c.names) }

// Names returns the ids that the bound is written with, sorted, and whether they are the exceptions.
func (b Bound) Names() (names []string, except bool) { return slices.Clone(b.names), b.rest }

// Union returns what is in either bound.
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

// Minus returns what is in b and not in c.
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

// common and subtract are of sorted lists.
func common(a, b []string) []string {
	return keep(a, func(s string) bool { _, ok := slices.BinarySearch(b, s); return ok })
}

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

// Where returns the condition of SQL that a column of connection ids, which is never null, is in the bound, and its
// arguments, for placeholders from next on. It is empty where the bound is unrestricted.
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

// WhereCovers is Where for scopes: a column that is null for the whole environment.
func (b Bound) WhereCovers(column string, next int) (condition string, args []any) {
	condition, args = b.Where(column, next)
	if condition == "" {
		return "", nil
	}
	return column + " IS NOT NULL AND " + condition, args
}

// storedBound is the text of a bound.
type storedBound struct {
	Only   *[]string `json:"only,omitempty"`
	Except []string  `json:"except,omitempty"`
}

// Text returns the bound as text, the same for equal bounds: empty for the unrestricted one, JSON for others.
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

// ParseBound is the inverse of Text. A text that it does not understand is an error, never a wider bound.
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

var errBound = errors.New("it names neither what it holds nor what it leaves out")

// View is what of one environment a caller may see: the typed argument of every query for a caller, so that none can
// forget the environment or the bound. The zero View shows nothing.
type View struct {
	Environment id.Environment
	Connections Bound
}

// Whole returns the view of everything in an environment: of users, and of the service itself.
func Whole(env id.Environment) View { return View{Environment: env, Connections: All()} }
