package documents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/lexer"
	"github.com/vektah/gqlparser/v2/parser"
)

// Limits of schemas as text. Large published ones have some 60,000 tokens. Half a million takes 200 MB at most.
const (
	maxTokens = 500_000
	maxLines  = 4_000_000
)

// readSDL reads a schema in the schema definition language. It is not validated as a whole: that takes time by the
// square of the length of a type, and refuses schemas for mistakes that do not matter to a request.
func (s *gqlSchema) readSDL(text []byte) *Problem {
	if problem := checkSDL(text); problem != nil {
		return problem
	}
	doc, err := parser.ParseSchemaWithLimit(&ast.Source{Input: string(text)}, maxTokens)
	if err != nil {
		return problemOf(err)
	}
	for _, def := range doc.Definitions {
		kind := kindOf(def.Kind)
		if t := s.types[def.Name]; t != nil {
			if kind == gqlScalar && t.kind == gqlScalar {
				continue // parts of a schema that were put together often declare the same scalars
			}
			return &Problem{def.Position.Line, def.Position.Column, "the type " + nameIn(def.Name) +
				" is defined twice"}
		}
		if t := s.declare(def.Name, kind); t != nil {
			t.line, t.column = def.Position.Line, def.Position.Column
			t.description = def.Description
			t.extend(def)
		}
	}
	for _, def := range doc.Extensions {
		t := s.types[def.Name]
		if t == nil { // it extends a type of another service
			if t = s.declare(def.Name, kindOf(def.Kind)); t == nil {
				continue
			}
			t.line, t.column = def.Position.Line, def.Position.Column
		}
		if t.kind != kindOf(def.Kind) {
			return &Problem{def.Position.Line, def.Position.Column, "the type " + nameIn(def.Name) +
				" is extended as another kind of type"}
		}
		t.extend(def)
	}
	if problem := s.sdlRoots(doc); problem != nil {
		return problem
	}
	return s.finish()
}

// nameIn is a name of a document in a message.
func nameIn(name string) string { return short(printable(name), maxTag) }

// checkSDL goes through the tokens of a text, so that the parser, which calls itself for what is in brackets and keeps
// much for each token, gets none that is too deep or too long.
func checkSDL(text []byte) *Problem {
	if !utf8.Valid(text) {
		at := 0
		for r, size := utf8.DecodeRune(text); r != utf8.RuneError || size != 1; r, size = utf8.DecodeRune(text[at:]) {
			at += size
		}
		return &Problem{1 + bytes.Count(text[:at], []byte{'\n'}), at - bytes.LastIndexByte(text[:at], '\n'),
			"the text is not UTF-8"}
	}
	if bytes.Count(text, []byte{'\n'}) > maxLines {
		return &Problem{Message: fmt.Sprintf("the schema has more than %d lines", maxLines)}
	}
	l := lexer.New(&ast.Source{Input: string(text)})
	depth := 0
	for count := 0; ; count++ {
		token, err := l.ReadToken()
		switch {
		case err != nil:
			return problemOf(err)
		case count == maxTokens:
			return &Problem{token.Pos.Line, token.Pos.Column,
				fmt.Sprintf("the schema has more than %d names, values and signs", maxTokens)}
		}
		switch token.Kind {
		case lexer.EOF:
			return nil
		case lexer.BraceL, lexer.BracketL, lexer.ParenL:
			if depth++; depth > maxDepth {
				return &Problem{token.Pos.Line, token.Pos.Column,
					fmt.Sprintf("more than %d brackets within each other", maxDepth)}
			}
		case lexer.BraceR, lexer.BracketR, lexer.ParenR:
			depth--
		default:
		}
	}
}

// problemOf is the error of the parser with its place. It may quote the document.
func problemOf(err error) *Problem {
	p := &Problem{Message: short(printable(err.Error()), maxTitle)}
	var of *gqlerror.Error
	if errors.As(err, &of) {
		p.Message = short(printable(of.Message), maxTitle)
		if len(of.Locations) > 0 {
			p.Line, p.Column = of.Locations[0].Line, of.Locations[0].Column
		}
	}
	return p
}

func kindOf(kind ast.DefinitionKind) gqlKind {
	switch kind {
	case ast.Object:
		return gqlObject
	case ast.Interface:
		return gqlInterface
	case ast.Union:
		return gqlUnion
	case ast.Enum:
		return gqlEnum
	case ast.InputObject:
		return gqlInput
	default:
		return gqlScalar
	}
}

// sdlRoots finds the types whose fields are operations: by the definition of the schema, or by their names.
func (s *gqlSchema) sdlRoots(doc *ast.SchemaDocument) *Problem {
	roots := map[string]bool{}
	for _, def := range append(doc.Schema, doc.SchemaExtension...) {
		for _, o := range def.OperationTypes {
			t := s.types[o.Type]
			if t == nil || t.kind != gqlObject {
				return &Problem{o.Position.Line, o.Position.Column, "the type " + nameIn(o.Type) + " is no object of the schema"}
			}
			if roots[string(o.Operation)] {
				return &Problem{o.Position.Line, o.Position.Column, "the schema names its type of a " + string(o.Operation) +
					" twice"}
			}
			roots[string(o.Operation)] = true
			s.root(string(o.Operation), t)
		}
	}
	if len(doc.Schema) > 0 {
		return nil
	}
	for _, kind := range [][2]string{{gqlQuery, "Query"}, {gqlMutation, "Mutation"}, {gqlSubscription, "Subscription"}} {
		if t := s.types[kind[1]]; t != nil && t.kind == gqlObject && !roots[kind[0]] {
			s.root(kind[0], t)
		}
	}
	return nil
}

// extend adds what a definition, or an extension, says about a type.
func (t *gqlType) extend(def *ast.Definition) {
	t.interfaces = append(t.interfaces, def.Interfaces...)
	t.members = append(t.members, def.Types...)
	t.oneOf = t.oneOf || def.Directives.ForName("oneOf") != nil
	for _, f := range def.Fields {
		own := sdlField(f.Name, f.Description, f.Type, f.DefaultValue, f.Directives, f.Position)
		for _, a := range f.Arguments {
			own.arguments = append(own.arguments, sdlField(a.Name, a.Description, a.Type, a.DefaultValue, a.Directives,
				a.Position))
		}
		t.fields = append(t.fields, own)
	}
	for _, v := range def.EnumValues {
		t.fields = append(t.fields, sdlField(v.Name, v.Description, nil, nil, v.Directives, v.Position))
	}
}

func sdlField(name, description string, of *ast.Type, fallback *ast.Value, directives ast.DirectiveList,
	at *ast.Position,
) gqlField {
	f := gqlField{name: name, description: description, ref: sdlRef(of, 0), line: at.Line, column: at.Column}
	f.takeDefault(fallback)
	if d := directives.ForName("deprecated"); d != nil {
		f.deprecated = true
		if reason := d.Arguments.ForName("reason"); reason != nil && reason.Value != nil {
			f.reason = reason.Value.Raw
		}
	}
	return f
}

// sdlRef is nil for a type that is not used: one that is in too many lists.
func sdlRef(of *ast.Type, depth int) *gqlRef {
	if of == nil || depth > maxLists {
		return nil
	}
	r := &gqlRef{name: of.NamedType, nonNull: of.NonNull}
	if of.Elem != nil {
		if r.item = sdlRef(of.Elem, depth+1); r.item == nil {
			return nil
		}
	}
	return r
}

// takeDefault notes the default of an argument.
func (f *gqlField) takeDefault(v *ast.Value) {
	if v == nil {
		return
	}
	f.fallback = v.Kind != ast.NullValue
	var out bytes.Buffer
	if writeConstant(&out, v) && out.Len() <= maxValue {
		f.value = out.Bytes()
	}
}

// writeConstant writes a value as JSON. It reports false if it is too long.
func writeConstant(out *bytes.Buffer, v *ast.Value) bool {
	text := v.Raw
	switch v.Kind {
	case ast.ListValue, ast.ObjectValue:
		signs := map[ast.ValueKind]string{ast.ListValue: "[]", ast.ObjectValue: "{}"}[v.Kind]
		out.WriteByte(signs[0])
		for i, item := range v.Children {
			if i > 0 {
				out.WriteByte(',')
			}
			if v.Kind == ast.ObjectValue {
				out.WriteString(`"` + item.Name + `":`)
			}
			if !writeConstant(out, item.Value) {
				return false
			}
		}
		out.WriteByte(signs[1])
		return true
	case ast.StringValue, ast.BlockValue, ast.EnumValue:
		b, err := json.Marshal(text)
		if err != nil {
			return false
		}
		out.Write(b)
	case ast.NullValue:
		out.WriteString("null")
	default: // numbers and booleans have the same form in JSON
		out.WriteString(text)
	}
	return out.Len() <= maxValue
}

// parseConstant reads a value in the form of GraphQL.
func parseConstant(text string) (*ast.Value, bool) {
	source := "input A{a:A=" + text + "\n}"
	if len(text) > maxValue || checkSDL([]byte(source)) != nil {
		return nil, false
	}
	doc, err := parser.ParseSchemaWithLimit(&ast.Source{Input: source}, maxValue)
	if err != nil || len(doc.Definitions) != 1 || len(doc.Definitions[0].Fields) != 1 ||
		len(doc.Definitions[0].Fields[0].Directives) > 0 {
		return nil, false
	}
	return doc.Definitions[0].Fields[0].DefaultValue, true
}
