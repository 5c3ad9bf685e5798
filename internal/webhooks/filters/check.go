package filters

import (
	"fmt"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"sallyport/internal/platform/db"
)

// The rules that a filter can break.
const (
	ruleMinLength = "min_length"
	ruleMaxLength = "max_length"
	ruleText      = "text"
	ruleSyntax    = "syntax"
	ruleReference = "reference"
	ruleType      = "type"
	rulePattern   = "pattern"
	ruleCost      = "cost"
)

// Violation is an error in a filter.
type Violation struct {
	// Rule is the name of the broken rule, as in apperr.Detail.
	Rule string
	// Message begins with line and column if there are any, both counted from 1. It contains no part of the filter.
	Message string
}

// Check returns the violations of a filter; none if it can be stored.
func Check(text string) []Violation {
	_, violations := compile(text, maxPatterns)
	return violations
}

// compile compiles a filter whose patterns have at most so many instructions together.
func compile(text string, mostPatterns int) (*program, []Violation) {
	switch {
	case text == "":
		return nil, []Violation{{ruleMinLength, "must not be empty; use null for no filter"}}
	case utf8.RuneCountInString(text) > MaxLength:
		return nil, []Violation{{ruleMaxLength, fmt.Sprintf("must be at most %d characters", MaxLength)}}
	case !db.Storable(text):
		return nil, []Violation{{ruleText, "must be Unicode text without the character U+0000"}}
	}
	checked, issues := environment().Compile(text)
	if issues.Err() != nil {
		return nil, explain(issues.Errors())
	}
	c := checker{ast: checked.NativeRep(), patterns: map[string]pattern{}, room: mostPatterns}
	c.check()
	if len(c.violations) > 0 {
		return nil, c.violations
	}
	model := model{patterns: c.patterns}
	estimate, err := environment().EstimateCost(checked, model)
	if err != nil || estimate.Max > MaxCost {
		return nil, []Violation{{ruleCost, fmt.Sprintf("costs more than %d on an event whose lists, objects and texts "+
			"have %d "+
			"elements each: "+
			"loop over fewer lists inside one another", MaxCost, assumedSize)}}
	}
	planned, err := environment().Program(checked, cel.CostTracking(model), cel.CostLimit(MaxCost),
		cel.OptimizeRegex(c.regexes()))
	if err != nil {
		return nil, []Violation{{ruleSyntax, "is not a filter"}} // cannot be: everything was checked
	}
	return &program{planned, c.ast.SourceInfo(), estimate.Max}, nil
}

// checker looks in a filter that is well typed for what filters may not do.
type checker struct {
	ast      *ast.AST
	patterns map[string]pattern
	// room is how many more instructions the patterns may have; negative once they have too many.
	room       int
	violations []Violation
}

func (c *checker) violation(e ast.Expr, rule, message string) {
	c.violations = append(c.violations, Violation{rule, position(c.ast.SourceInfo().GetStartLocation(e.ID())) + message})
}

func (c *checker) check() {
	root := ast.NavigateAST(c.ast)
	if t := c.ast.GetType(root.ID()); t.Kind() != types.BoolKind {
		c.violation(root, ruleType, "the filter must be a bool and not "+cel.FormatCELType(t)+
			"; compare the field, as in event.body.active == true")
	}
	ast.MatchDescendants(root, func(e ast.NavigableExpr) bool {
		switch e.Kind() {
		case ast.IdentKind:
			if c.ast.GetType(e.ID()).Kind() == types.StructKind && !isSelected(e) {
				c.violation(e, ruleReference, "the event can only be used by its fields, such as event.type")
			}
		case ast.StructKind:
			c.violation(e, ruleType, "objects of a type cannot be made here")
		case ast.CallKind:
			if e.AsCall().FunctionName() == overloads.Matches {
				c.matches(e)
			}
		default:
		}
		return false
	})
}

// isSelected reports whether the expression stands before the name of a field.
func isSelected(e ast.NavigableExpr) bool {
	parent, ok := e.Parent()
	switch {
	case !ok:
		return false
	case parent.Kind() == ast.SelectKind:
		return true
	default:
		return parent.Kind() == ast.CallKind && parent.AsCall().FunctionName() == operators.OptSelect &&
			parent.AsCall().Args()[0].ID() == e.ID()
	}
}

// matches compiles the pattern of a call of matches, which must stand in the filter: one that comes with an event could
// cost anything.
func (c *checker) matches(e ast.NavigableExpr) {
	args := e.AsCall().Args()
	literal := args[len(args)-1]
	text, ok := "", false
	if literal.Kind() == ast.LiteralKind {
		text, ok = literal.AsLiteral().Value().(string)
	}
	if !ok {
		c.violation(literal, rulePattern, "the pattern of matches must be written out as a text")
		return
	}
	if _, ok := c.patterns[text]; ok || c.room < 0 {
		return
	}
	p, violation := compilePattern(text)
	if c.room -= p.size; violation == "" && c.room < 0 {
		violation = fmt.Sprintf("the patterns of the filter are too large together: they compile to more than %d "+
			"instructions", maxPatterns)
	}
	if violation != "" {
		c.violation(literal, rulePattern, violation)
		return
	}
	c.patterns[text] = p
}

// position is how messages begin that speak of a place in a filter.
func position(at common.Location) string {
	if at == nil || at.Line() < 1 {
		return ""
	}
	return fmt.Sprintf("line %d, column %d: ", at.Line(), max(at.Column(), 0)+1)
}
