package filters

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

const (
	// maxPattern bounds a pattern after it is compiled, in instructions.
	maxPattern = 1000
	// maxPatterns bounds the patterns of a filter together, when it is stored. Compiling so many takes milliseconds.
	maxPatterns = 10_000
	// maxMatch bounds one match: the bytes of the text times the instructions of the pattern, the worst cost of matching
	// (RE2 never goes back).
	maxMatch = 4 << 20
)

var errMatchTooLarge = errors.New("the text is too long for the pattern of matches")

// pattern is a compiled regular expression.
type pattern struct {
	*regexp.Regexp
	// size is the number of its instructions.
	size int
}

const patternInvalid = "the pattern is not a regular expression (RE2)"

// compilePattern compiles a pattern in the syntax of RE2; violation is empty where it can be used, and the size is set
// where the pattern is one. A pattern of a few
// characters can have millions of instructions, so its size is estimated before it is compiled.
func compilePattern(text string) (p pattern, violation string) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return p, patternInvalid
	}
	if p.size = estimateSize(parsed); p.size > 4*maxPattern {
		return p, patternTooLarge()
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return p, patternInvalid
	}
	if p.size = len(program.Inst); p.size > maxPattern {
		return p, patternTooLarge()
	}
	if p.Regexp, err = regexp.Compile(text); err != nil {
		return p, patternInvalid
	}
	return p, ""
}

func patternTooLarge() string {
	return fmt.Sprintf("the pattern is too large: it compiles to more than %d instructions", maxPattern)
}

// estimateSize returns about how many instructions an expression compiles to, at most a few more than it does, or some
// number above the bound.
func estimateSize(e *syntax.Regexp) int {
	size := 1
	if e.Op == syntax.OpLiteral {
		size = len(e.Rune)
	}
	for _, sub := range e.Sub {
		size += estimateSize(sub)
	}
	if e.Op == syntax.OpRepeat {
		size *= max(e.Max, e.Min, 1)
	}
	return min(size, 1<<20)
}

// regexes has the compiled patterns used by every evaluation, each within its bound.
func (c *checker) regexes() *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{Function: overloads.Matches, RegexIndex: 1,
		Factory: func(call interpreter.InterpretableCall, text string) (interpreter.InterpretableCall, error) {
			p := c.patterns[text]
			return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), p.match), nil
		}}
}

func (p pattern) match(args ...ref.Val) ref.Val {
	text, ok := args[0].(types.String)
	switch {
	case !ok:
		return types.MaybeNoSuchOverloadErr(args[0])
	case len(text)*p.size > maxMatch:
		return types.WrapErr(errMatchTooLarge)
	default:
		return types.Bool(p.MatchString(string(text)))
	}
}
