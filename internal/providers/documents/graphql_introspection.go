package documents

import (
	"errors"
	"fmt"

	"sallyport/internal/platform/jsonindex"
)

// readIntrospection reads the result of an introspection query.
func (s *gqlSchema) readIntrospection(text []byte) *Problem {
	x, err := jsonindex.Parse(text, maxDepth)
	if err != nil {
		var syntax *jsonindex.SyntaxError
		if errors.As(err, &syntax) {
			return &Problem{syntax.Line, syntax.Column, syntax.Message}
		}
		return &Problem{Message: err.Error()}
	}
	schema := x.Root().Get("__schema")
	if !schema.Exists() {
		schema = x.Root().Path("data", "__schema")
	}
	if schema.Kind() != jsonindex.Object {
		return problemAt(x.Root(), "expected the result of an introspection query, with __schema in data")
	}
	roots := map[string][]string{}
	for _, kind := range []string{gqlQuery, gqlMutation, gqlSubscription} {
		if name, ok := schema.Path(kind+"Type", "name").Text(); ok {
			roots[name] = append(roots[name], kind)
		}
	}
	count := 0
	for v := range schema.Get("types").Items() {
		kind, known := kindNamed(v.Get("kind").String())
		name := v.Get("name").String()
		if !known || !gqlName.MatchString(name) {
			continue
		}
		if t := s.types[name]; t != nil {
			return problemAt(v, "the type "+nameIn(name)+" is there twice")
		}
		t := s.declare(name, kind)
		if count += t.read(v, maxMembers-count); count > maxMembers {
			return problemAt(v, fmt.Sprintf("the schema has more than %d fields, arguments and values", maxMembers))
		}
		if len(roots[name]) == 0 {
			continue
		}
		// The fields get the place of their type: to find a place is to go through the text.
		t.line, t.column = v.Place()
		for i := range t.fields {
			t.fields[i].line, t.fields[i].column = t.line, t.column
		}
		if kind != gqlObject {
			return problemAt(v, "the type "+nameIn(name)+" has operations, and is no object")
		}
		for _, of := range roots[name] {
			s.root(of, t)
		}
	}
	return s.finish()
}

func kindNamed(name string) (gqlKind, bool) {
	kind, known := map[string]gqlKind{"SCALAR": gqlScalar, "OBJECT": gqlObject, "INTERFACE": gqlInterface,
		"UNION": gqlUnion, "ENUM": gqlEnum, "INPUT_OBJECT": gqlInput}[name]
	return kind, known
}

// maxMembers is how many fields, arguments and values a schema has at most. Each takes some 250 bytes.
const maxMembers = 300_000

// read reads what an introspection result says about a type, and returns how many fields, arguments and values it has.
// It stops after limit of them.
func (t *gqlType) read(v jsonindex.Value, limit int) (count int) {
	t.description = v.Get("description").String()
	t.oneOf = v.Get("isOneOf").Bool()
	for of := range v.Get("interfaces").Items() {
		t.interfaces = append(t.interfaces, of.Get("name").String())
	}
	if t.kind == gqlUnion {
		for of := range v.Get("possibleTypes").Items() {
			t.members = append(t.members, of.Get("name").String())
		}
	}
	members := map[gqlKind]string{gqlObject: "fields", gqlInterface: "fields", gqlInput: "inputFields",
		gqlEnum: "enumValues"}[t.kind]
	for f := range v.Get(members).Items() {
		if count++; count > limit {
			return count
		}
		own := describedField(f)
		if t.kind != gqlEnum {
			own.ref = describedRef(f.Get("type"), 0)
		}
		for a := range f.Get("args").Items() {
			if count++; count > limit {
				return count
			}
			argument := describedField(a)
			argument.ref = describedRef(a.Get("type"), 0)
			own.arguments = append(own.arguments, argument)
		}
		t.fields = append(t.fields, own)
	}
	return count
}

func describedField(v jsonindex.Value) gqlField {
	f := gqlField{name: v.Get("name").String(), description: v.Get("description").String(),
		deprecated: v.Get("isDeprecated").Bool(), reason: v.Get("deprecationReason").String()}
	if text, ok := v.Get("defaultValue").Text(); ok {
		if constant, ok := parseConstant(text); ok {
			f.takeDefault(constant)
		} else {
			f.fallback = true // there is one, which is not shown
		}
	}
	return f
}

// describedRef is nil for a type that is not used: one that is in too many lists, or that the query did not reach.
func describedRef(v jsonindex.Value, depth int) *gqlRef {
	if depth > maxLists {
		return nil
	}
	switch v.Get("kind").String() {
	case "NON_NULL":
		of := v.Get("ofType")
		if of.Get("kind").String() == "NON_NULL" {
			return nil
		}
		r := describedRef(of, depth)
		if r != nil {
			r.nonNull = true
		}
		return r
	case "LIST":
		item := describedRef(v.Get("ofType"), depth+1)
		if item == nil {
			return nil
		}
		return &gqlRef{item: item}
	default:
		name, ok := v.Get("name").Text()
		if !ok {
			return nil
		}
		return &gqlRef{name: name}
	}
}
