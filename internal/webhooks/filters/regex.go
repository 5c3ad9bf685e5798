package filters

import (
	"errors"
	"fmt"
	"regexp"

	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

const (
	// maxPattern bounds a pattern after it is compiled, in instructions.
	maxPattern = 1000
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

// compilePattern compiles a pattern in the syntax of RE2; violation is empty where it can be used.
func compilePattern(text string) (p pattern, violation string) {
	compiled, err := regexp.Compile(text)
	if err != nil {
		return p, "the pattern is not a regular expression (RE2)"
	}
	size, err := types.RegexProgramSize(text)
	if err != nil || size > maxPattern {
		return p, fmt.Sprintf("the pattern is too large: it compiles to more than %d instructions", maxPattern)
	}
	return pattern{compiled, size}, ""
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
