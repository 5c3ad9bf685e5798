package registry

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"sallyport/internal/platform/suggest"
)

// shapes reports every field of a file that the format does not have, and every value of another kind than its field's,
// so that one mistake does not hide the next as it does where decoding stops at the first.
type shapes struct {
	wrong report
	// fields are those of structures that were seen: a file has many schemas.
	fields map[reflect.Type]map[string]reflect.Type
}

func newShapes(wrong report) *shapes {
	return &shapes{wrong: wrong, fields: map[reflect.Type]map[string]reflect.Type{}}
}

// check checks a value for a type.
func (s *shapes) check(node ast.Node, t reflect.Type, field string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if node == nil || node.Type() == ast.NullType {
		return
	}
	if several, ok := reflect.Zero(t).Interface().(shaped); ok {
		s.check(node, shapeFor(node, several.YAMLShapes()), field)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		entries, ok := pairs(node)
		if !ok {
			s.wrong(field, "must be a mapping")
			return
		}
		s.checkFields(entries, t, field)
	case reflect.Slice:
		list, ok := node.(*ast.SequenceNode)
		if !ok {
			s.wrong(field, "must be a list")
			return
		}
		for i, value := range list.Values {
			s.check(value, t.Elem(), field+"["+strconv.Itoa(i)+"]")
		}
	case reflect.Map:
		entries, ok := pairs(node)
		if !ok {
			s.wrong(field, "must be a mapping")
			return
		}
		for _, entry := range entries {
			s.check(entry.Value, t.Elem(), join(field, entry.Key.GetToken().Value))
		}
	default:
		if message := checkScalar(node, t.Kind()); message != "" {
			s.wrong(field, message)
		}
	}
}

// shaped is a type that reads itself from YAML. It returns the types that describe what a file may have there.
type shaped interface{ YAMLShapes() []reflect.Type }

// shapeFor returns the first of the types that a node may be, or the last.
func shapeFor(node ast.Node, types []reflect.Type) reflect.Type {
	_, mapping := pairs(node)
	_, list := node.(*ast.SequenceNode)
	for _, t := range types {
		switch t.Kind() {
		case reflect.Struct, reflect.Map:
			if mapping {
				return t
			}
		case reflect.Slice:
			if list {
				return t
			}
		default:
			if !mapping && !list {
				return t
			}
		}
	}
	return types[len(types)-1]
}

func (s *shapes) checkFields(entries []*ast.MappingValueNode, t reflect.Type, field string) {
	known := s.fields[t]
	if known == nil {
		known = fieldsOf(t)
		s.fields[t] = known
	}
	for _, entry := range entries {
		name := entry.Key.GetToken().Value
		inner, ok := known[name]
		if !ok {
			names := make([]string, 0, len(known))
			for n := range known {
				names = append(names, n)
			}
			s.wrong(join(field, name), "is not a field of the format"+instead(name, names))
			continue
		}
		s.check(entry.Value, inner, join(field, name))
	}
}

// maxListed is how many names are listed although the one that is probably meant is known.
const maxListed = 8

// instead ends a sentence about a name that does not exist: with the one that is probably meant, or with all.
func instead(name string, known []string) string {
	slices.Sort(known)
	question := suggest.Question(name, known, nil)
	switch {
	case question == "":
		return "; here it has " + strings.Join(known, ", ")
	case len(known) <= maxListed:
		return question + " Here it has " + strings.Join(known, ", ")
	default:
		return question
	}
}

// fieldsOf returns the fields of a structure by the name that they have in a file.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous || strings.HasSuffix(f.Tag.Get("yaml"), ",inline") {
			for name, inner := range fieldsOf(f.Type) {
				out[name] = inner
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name != "" && name != "-" {
			out[name] = f.Type
		}
	}
	return out
}

func checkScalar(node ast.Node, kind reflect.Kind) string {
	switch kind {
	case reflect.Bool:
		if _, ok := node.(*ast.BoolNode); !ok {
			return "must be true or false"
		}
	case reflect.Int, reflect.Int64:
		if _, ok := node.(*ast.IntegerNode); !ok {
			return "must be a whole number"
		}
	default:
		switch node.(type) {
		case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		default:
			return "must be text; braces and brackets at its start need quotes"
		}
	}
	return ""
}

// pairs returns the entries of a mapping; a mapping of one entry has a node of its own kind.
func pairs(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	default:
		return nil, false
	}
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// lineOf returns the line of a field, or of the nearest one around it that the file has; 0 where there is none.
func lineOf(node ast.Node, field string) int {
	line := 0
	for field != "" {
		var name string
		if strings.HasPrefix(field, "[") {
			name, field, _ = strings.Cut(field[1:], "]")
			field = strings.TrimPrefix(field, ".")
			list, ok := node.(*ast.SequenceNode)
			n, err := strconv.Atoi(name)
			if !ok || err != nil || n >= len(list.Values) {
				return line
			}
			node = list.Values[n]
			line = node.GetToken().Position.Line
			continue
		}
		end := strings.IndexAny(field, ".[")
		if end < 0 {
			end = len(field)
		}
		name, field = field[:end], strings.TrimPrefix(field[end:], ".")
		entries, _ := pairs(node)
		at := slices.IndexFunc(entries, func(e *ast.MappingValueNode) bool { return e.Key.GetToken().Value == name })
		if at < 0 {
			return line
		}
		node = entries[at].Value
		line = entries[at].Key.GetToken().Position.Line
	}
	return line
}
