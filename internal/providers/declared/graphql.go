package declared

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// maxGraphQL is the size of the largest text of a GraphQL operation, in bytes.
const maxGraphQL = 16 << 10

// graphQL is the operation of an action, and what was found in its text so far.
type graphQL struct {
	*ast.OperationDefinition
	fragments ast.FragmentDefinitionList
	add       func(at *ast.Position, format string, args ...any)
	// variables are those that are declared; true of one that is used.
	variables map[string]bool
	// seen are the fragments that are used.
	seen map[string]bool
}

// graphQL reads the operation of an action; nil for an action without one, or with one that cannot be read.
func (c *compiler) graphQL(field string, a *Action, list []input) *graphQL {
	if a.GraphQL == "" {
		return nil
	}
	if a.Method != http.MethodPost {
		c.add(field+".method", "must be POST for a GraphQL operation")
	}
	if a.Body != "" && a.Body != BodyJSON {
		c.add(field+".body", "must be json for a GraphQL operation")
	}
	field += ".graphql"
	if len(a.GraphQL) > maxGraphQL {
		c.add(field, "has more than %d KiB", maxGraphQL>>10)
		return nil
	}
	doc, err := parser.ParseQuery(&ast.Source{Input: a.GraphQL})
	if err != nil {
		c.add(field, "%s", parseError(err))
		return nil
	}
	if len(doc.Operations) != 1 || doc.Operations[0].Operation == ast.Subscription {
		c.add(field, "must have one operation, a query or a mutation")
		return nil
	}
	g := &graphQL{doc.Operations[0], doc.Fragments, func(at *ast.Position, format string, args ...any) {
		c.add(field, "line %d, column %d: %s", at.Line, at.Column, fmt.Sprintf(format, args...))
	}, map[string]bool{}, map[string]bool{}}
	for _, v := range g.VariableDefinitions {
		if _, found := g.variables[v.Variable]; found {
			g.add(v.Position, "declares $%s twice", v.Variable)
		}
		g.variables[v.Variable] = false
	}
	g.directives(g.Directives)
	g.selection(g.SelectionSet)
	for _, v := range g.VariableDefinitions {
		if !g.variables[v.Variable] {
			g.add(v.Position, "does not use $%s", v.Variable)
		}
	}
	for _, f := range g.fragments {
		if !g.seen[f.Name] {
			g.add(f.Position, "does not use the fragment %s", f.Name)
		}
	}
	c.checkVariables(strings.TrimSuffix(field, ".graphql"), g, list)
	return g
}

// parseError is the error of the parser with its place.
func parseError(err error) string {
	var of *gqlerror.Error
	if errors.As(err, &of) && len(of.Locations) > 0 {
		return fmt.Sprintf("line %d, column %d: %s", of.Locations[0].Line, of.Locations[0].Column, of.Message)
	}
	return err.Error()
}

// selection notes what a selection uses.
func (g *graphQL) selection(set ast.SelectionSet) {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			g.arguments(s.Arguments)
			g.directives(s.Directives)
			g.selection(s.SelectionSet)
		case *ast.InlineFragment:
			g.directives(s.Directives)
			g.selection(s.SelectionSet)
		case *ast.FragmentSpread:
			g.directives(s.Directives)
			f := g.fragments.ForName(s.Name)
			switch {
			case f == nil:
				g.add(s.Position, "has no fragment %s", s.Name)
			case !g.seen[s.Name]:
				g.seen[s.Name] = true
				g.directives(f.Directives)
				g.selection(f.SelectionSet)
			}
		}
	}
}

func (g *graphQL) directives(list ast.DirectiveList) {
	for _, d := range list {
		g.arguments(d.Arguments)
	}
}

func (g *graphQL) arguments(list ast.ArgumentList) {
	for _, a := range list {
		g.value(a.Value)
	}
}

func (g *graphQL) value(v *ast.Value) {
	if v.Kind == ast.Variable {
		if _, found := g.variables[v.Raw]; !found {
			g.add(v.Position, "does not declare $%s", v.Raw)
		}
		g.variables[v.Raw] = true
	}
	for _, child := range v.Children {
		g.value(child.Value)
	}
}

// checkVariables checks that the variables of an operation are the inputs of the action.
func (c *compiler) checkVariables(field string, g *graphQL, list []input) {
	for i := range list {
		p := &list[i].parameter
		at := field + ".input." + p.Property
		v := g.VariableDefinitions.ForName(p.Name)
		switch {
		case p.Place != actions.InBody:
			c.add(at, "is not in the body, where all inputs of a GraphQL operation are")
		case v == nil:
			c.add(at, "is no variable of the GraphQL operation")
		case v.Type.NonNull && v.DefaultValue == nil && !list[i].required:
			c.add(at, "must be required: its variable is %s", v.Type)
		case !c.fits(list[i].schema, v.Type):
			c.add(at, "has a type that its variable, %s, does not take", v.Type)
		}
	}
	for _, v := range g.VariableDefinitions {
		if !slices.ContainsFunc(list, func(in input) bool { return in.parameter.Name == v.Variable }) {
			g.add(v.Position, "has the variable $%s, which is no input", v.Variable)
		}
	}
}

// fits reports whether a variable takes the values of a schema, as far as their types say. Types that the schema of the
// provider defines take any value.
func (c *compiler) fits(s *Schema, of *ast.Type) bool {
	if s = c.schemas.resolve(s); s == nil {
		return true
	}
	kinds := map[string][]string{"Int": {"integer"}, "Float": {"number", "integer"}, "String": {"string"},
		"ID": {"string", "integer"}, "Boolean": {"boolean"}}[of.NamedType]
	if of.Elem != nil {
		kinds = []string{"array"}
	}
	for _, t := range s.Type {
		if t == "null" && of.NonNull || t != "null" && kinds != nil && !slices.Contains(kinds, t) {
			return false
		}
	}
	return of.Elem == nil || s.Items == nil || c.fits(s.Items, of.Elem)
}

// body is that of the requests of an operation.
func (g *graphQL) body(a *Action) actions.Body {
	return actions.Body{ContentType: "application/json", Required: true, GraphQL: strings.TrimSpace(a.GraphQL)}
}

// call is what the risk of an operation is assessed from: a query reads although it is sent by POST. The path is that
// of all operations.
func (g *graphQL) call(call risk.Call) risk.Call {
	call.Path = ""
	if g.Operation == ast.Query {
		call.Method = http.MethodGet
	} else {
		call.Writes = true
	}
	return call
}

// pages says how the list of an operation continues whose only field is a connection of Relay; nil for another one.
func (g *graphQL) pages(list []input) *actions.Pagination {
	if g == nil || len(g.SelectionSet) != 1 {
		return nil
	}
	root, isField := g.SelectionSet[0].(*ast.Field)
	if !isField {
		return nil
	}
	property := func(argument string) string {
		a := root.Arguments.ForName(argument)
		for i := range list {
			if a != nil && a.Value.Kind == ast.Variable && a.Value.Raw == list[i].parameter.Name {
				return list[i].parameter.Property
			}
		}
		return ""
	}
	info, items := selected(root.SelectionSet, "pageInfo"), selected(root.SelectionSet, "nodes", "edges")
	if info == nil || items == nil {
		return nil
	}
	next, more := selected(info.SelectionSet, "endCursor"), selected(info.SelectionSet, "hasNextPage")
	after, first := property("after"), property("first")
	if next == nil || more == nil || after == "" || first == "" {
		return nil
	}
	at := "/data/" + root.Alias + "/"
	return &actions.Pagination{Type: actions.PagesByCursor, Items: at + items.Alias, Parameter: after, Size: first,
		Next: at + info.Alias + "/" + next.Alias, More: at + info.Alias + "/" + more.Alias}
}

// selected returns the field of a selection with the first of the names that there is; nil if there is none.
func selected(set ast.SelectionSet, names ...string) *ast.Field {
	for _, name := range names {
		for _, s := range set {
			if f, isField := s.(*ast.Field); isField && f.Name == name {
				return f
			}
		}
	}
	return nil
}
