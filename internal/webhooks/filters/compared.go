package filters

import (
	"cel.dev/cel-go/common/ast"
)

// ComparedWith returns the texts in a filter with which a field of the event is compared or searched, such as "push" in
// event.type == "push" for the field type. It returns nil for a filter that cannot be compiled.
func ComparedWith(text, field string) (list []string) {
	checked, issues := environment().Compile(text)
	if issues.Err() != nil {
		return nil
	}
	ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), func(e ast.NavigableExpr) bool {
		if e.Kind() != ast.CallKind {
			return false
		}
		call := e.AsCall()
		operands := call.Args()
		if call.IsMemberFunction() {
			operands = append([]ast.Expr{call.Target()}, operands...)
		}
		var texts []string
		has := false
		for _, o := range operands {
			has = has || isField(o, field)
			texts = append(texts, literals(o)...)
		}
		if has {
			list = append(list, texts...)
		}
		return false
	})
	return list
}

// isField reports whether an expression is a field of the event.
func isField(e ast.Expr, field string) bool {
	if e.Kind() != ast.SelectKind {
		return false
	}
	of := e.AsSelect()
	return of.FieldName() == field && of.Operand().Kind() == ast.IdentKind && of.Operand().AsIdent() == variable
}

// literals returns the text that an expression is, or the texts in the list that it is.
func literals(e ast.Expr) (list []string) {
	switch e.Kind() {
	case ast.LiteralKind:
		if text, ok := e.AsLiteral().Value().(string); ok {
			list = append(list, text)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			list = append(list, literals(element)...)
		}
	default:
	}
	return list
}
