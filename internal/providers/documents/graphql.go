package documents

import (
	"bytes"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// GraphQL is the format of the schemas that OpenGraphQL reads.
const GraphQL Format = "graphql"

// The operations of a GraphQL schema, by the type whose fields they are.
const (
	gqlQuery        = "query"
	gqlMutation     = "mutation"
	gqlSubscription = "subscription"
)

// gqlKind is what a type of a GraphQL schema is.
type gqlKind uint8

const (
	gqlScalar gqlKind = iota + 1
	gqlEnum
	gqlInput
	gqlObject
	gqlInterface
	gqlUnion
)

// isComposite reports whether values of the kind have fields of which a request chooses some.
func (k gqlKind) isComposite() bool { return k >= gqlObject }

// gqlSchema is a GraphQL schema as far as operations need it.
type gqlSchema struct {
	types map[string]*gqlType
	// order has the types in the order of the document.
	order []*gqlType
	roots []gqlRoot
	// definitions are the texts of input types, each written once.
	definitions map[string]*gqlDefinition
}

// gqlRoot is a type whose fields are operations of a kind.
type gqlRoot struct {
	kind string
	of   *gqlType
}

type gqlType struct {
	name, description string
	kind              gqlKind
	// fields are those of objects, interfaces and input objects; and the values of an enumeration.
	fields []gqlField
	index  map[string]int
	// interfaces are those of an object, and members the types of a union.
	interfaces, members []string
	// possible are the objects that a value of an interface or a union can be.
	possible []*gqlType
	// connection is nil for a type that is none.
	connection *gqlConnection
	// oneOf is true of an input object that takes exactly one of its fields.
	oneOf        bool
	place        int
	line, column int
}

// gqlField is a field, an argument, or a value of an enumeration.
type gqlField struct {
	name, description string
	arguments         []gqlField
	ref               *gqlRef
	// of is the type that is in all lists; nil if the schema has none.
	of *gqlType
	// fallback is true of an argument that has a default other than null, which is value as JSON; nil for one that is
	// not shown.
	fallback   bool
	value      []byte
	deprecated bool
	// reason is why it is deprecated.
	reason       string
	line, column int
}

// gqlRef is a type where it is used: the name of one, or a list.
type gqlRef struct {
	name    string
	item    *gqlRef
	nonNull bool
}

// base is the name of the type that is in all lists.
func (r *gqlRef) base() string {
	for r.item != nil {
		r = r.item
	}
	return r.name
}

func (r *gqlRef) String() string {
	text := r.name
	if r.item != nil {
		text = "[" + r.item.String() + "]"
	}
	if r.nonNull {
		text += "!"
	}
	return text
}

// required reports whether an argument, or a field of an input object, cannot be left out.
func (f *gqlField) required() bool { return f.ref.nonNull && !f.fallback }

// field returns a field by its name; nil for none.
func (t *gqlType) field(name string) *gqlField {
	if i, found := t.index[name]; found {
		return &t.fields[i]
	}
	return nil
}

// gqlName is what the specification takes as a name, with a limit of our own. Names that begin with two underscores
// are those of introspection.
var gqlName = regexp.MustCompile(`^(?:[A-Za-z]|_[A-Za-z0-9]|_$)[_A-Za-z0-9]{0,126}$`)

// maxLists is how many lists may be within each other.
const maxLists = 16

// OpenGraphQL reads a GraphQL schema: in the schema definition language, or as the result of an introspection query in
// JSON. Its operations are the fields of the query and the mutation type. Each sends a fixed operation to the base URL
// with the input as its variables, and its Output is the schema of the whole response, with data and errors. Errors are
// *Problem.
func OpenGraphQL(text []byte) (*Document, error) {
	if len(text) > MaxBytes {
		return nil, &Problem{Message: fmt.Sprintf("the document has more than %d MiB", MaxBytes>>20)}
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	s := &gqlSchema{types: map[string]*gqlType{}, definitions: map[string]*gqlDefinition{}}
	read := s.readSDL
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		read = s.readIntrospection
	}
	if problem := read(text); problem != nil {
		return nil, problem
	}
	return &Document{Format: GraphQL, graphql: s}, nil
}

// declare adds a type under a name that is not taken; nil if the name is none.
func (s *gqlSchema) declare(name string, kind gqlKind) *gqlType {
	if !gqlName.MatchString(name) {
		return nil
	}
	t := &gqlType{name: name, kind: kind, place: len(s.order)}
	s.types[name] = t
	s.order = append(s.order, t)
	return t
}

// root makes the fields of a type operations.
func (s *gqlSchema) root(kind string, t *gqlType) {
	s.roots = append(s.roots, gqlRoot{kind, t})
	slices.SortStableFunc(s.roots, func(a, b gqlRoot) int { return a.of.place - b.of.place })
}

// finish leaves out what is declared twice or has no valid name, and notes which types belong together.
func (s *gqlSchema) finish() *Problem {
	for _, name := range []string{"Int", "Float", "String", "Boolean", "ID"} {
		s.types[name] = &gqlType{name: name, kind: gqlScalar}
	}
	for _, t := range s.order {
		t.fields = s.resolve(t.fields)
		t.index = make(map[string]int, len(t.fields))
		for i := range t.fields {
			t.index[t.fields[i].name] = i
			t.fields[i].arguments = s.resolve(t.fields[i].arguments)
		}
		s.relate(t)
	}
	for _, t := range s.order {
		t.connection = t.asConnection()
	}
	if len(s.roots) == 0 {
		return &Problem{Message: "the schema has no type Query or Mutation, so that it has no operations"}
	}
	return nil
}

// relate notes which objects a value of an interface or a union can be.
func (s *gqlSchema) relate(t *gqlType) {
	switch t.kind {
	case gqlObject:
		for _, name := range distinct(t.interfaces) {
			if of := s.types[name]; of != nil && of.kind == gqlInterface {
				of.possible = append(of.possible, t)
			}
		}
	case gqlUnion:
		for _, name := range distinct(t.members) {
			if of := s.types[name]; of != nil && of.kind == gqlObject {
				t.possible = append(t.possible, of)
			}
		}
	default:
	}
}

// resolve finds the types of fields, and leaves out those whose name is none or is taken.
func (s *gqlSchema) resolve(fields []gqlField) []gqlField {
	seen := make(map[string]bool, len(fields))
	fields = slices.DeleteFunc(fields, func(f gqlField) bool {
		out := seen[f.name] || !gqlName.MatchString(f.name)
		seen[f.name] = true
		return out
	})
	for i := range fields {
		if fields[i].ref != nil {
			fields[i].of = s.types[fields[i].ref.base()]
		}
	}
	return fields
}

func distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		out := seen[name]
		seen[name] = true
		return out
	})
}

// gqlOperation is a field of a root with the name of its action.
type gqlOperation struct {
	kind, name string
	field      *gqlField
}

// operations is Operations of a GraphQL schema.
func (s *gqlSchema) operations() (iter.Seq[Result], error) {
	var list []gqlOperation
	count := map[string]int{}
	for _, root := range s.roots {
		if len(list)+len(root.of.fields) > MaxOperations {
			return nil, &Problem{root.of.line, root.of.column,
				fmt.Sprintf("the document has more than %d operations", MaxOperations)}
		}
		for i := range root.of.fields {
			f := &root.of.fields[i]
			name := actions.Name(f.name, root.kind, f.name)
			count[name]++
			list = append(list, gqlOperation{root.kind, name, f})
		}
	}
	for i := range list {
		if o := &list[i]; count[o.name] > 1 {
			o.name = actions.Distinct(o.name, o.kind, o.field.name)
		}
	}
	return func(yield func(Result) bool) {
		for i := range list {
			if !yield(s.operation(&list[i])) {
				return
			}
		}
	}, nil
}

// operation makes the action of a field.
func (s *gqlSchema) operation(o *gqlOperation) Result {
	r := Result{Method: o.kind, Path: o.field.name}
	leave := func(message string) Result {
		r.Left = &Problem{o.field.line, o.field.column, message}
		return r
	}
	if o.kind == gqlSubscription {
		return leave("a subscription has no single response")
	}
	if o.field.of == nil || o.field.of.kind == gqlInput {
		return leave("the type of the field is not one that a field can have")
	}
	arguments, notes, message := o.field.variables()
	if message != "" {
		return leave(message)
	}
	text, selected, more, message := o.text(arguments)
	if message != "" {
		return leave(message)
	}
	fields := make([]field, len(arguments))
	for i, a := range arguments {
		fields[i].parameter = actions.Parameter{Name: a.name, Place: actions.InBody}
	}
	nameFields(fields)
	a := &actions.Action{Name: o.name, Description: describe(o.field), Tags: []string{o.kind},
		Deprecated: o.field.deprecated, Method: "POST",
		Body:       actions.Body{ContentType: "application/json", Required: true, GraphQL: text},
		Pagination: o.field.pagination(fields)}
	for i := range fields {
		a.Parameters = append(a.Parameters, fields[i].parameter)
	}
	w := gqlWriter{s: s, notes: append(notes, more...)}
	a.Input = w.input(arguments, fields)
	a.Output = w.output(o.field, selected)
	a.Call = risk.Call{Method: "GET", Name: o.field.name}
	if o.kind == gqlMutation {
		a.Call.Method, a.Call.Writes = "POST", true
	}
	r.Action, r.Notes = a, w.notes
	return r
}

// describe is the description of an operation, with the reason for its deprecation.
func describe(f *gqlField) string {
	text := proseOf(f.description, maxDescription)
	if reason := proseOf(f.reason, maxInSchema); f.deprecated && reason != "" {
		text = strings.TrimSpace(short(text, maxDescription-maxInSchema-20) + "\n\nDeprecated: " + reason)
	}
	return text
}

// proseOf is prose for a text.
func proseOf(text string, limit int) string {
	return short(strings.TrimSpace(printable(strings.ReplaceAll(text, "\r\n", "\n"))), limit)
}

// variables returns the arguments that become variables, notes of those that do not, and why the field cannot be
// requested; empty if it can.
func (f *gqlField) variables() (list []*gqlField, notes []string, message string) {
	for i := range f.arguments {
		a := &f.arguments[i]
		switch {
		case a.of != nil && !a.of.kind.isComposite():
			list = append(list, a)
		case a.ref == nil || a.required():
			return nil, nil, "the type of the argument " + a.name + " is not one that an argument can have"
		case len(notes) < 20:
			notes = append(notes, "the argument "+a.name+" has a type that an argument cannot have")
		}
	}
	if len(list) > maxParameters {
		return nil, nil, fmt.Sprintf("it has more than %d arguments", maxParameters)
	}
	return list, notes, ""
}
