// Package filters compiles and evaluates the filters of subscriptions: boolean expressions over an event, in the Common
// Expression Language, at a bounded cost. See README.md.
package filters

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"sallyport/internal/platform/httpapi/oas"
)

const (
	// MaxLength limits a filter's text, in characters.
	MaxLength = 4096
	// MaxCost limits the cost of one evaluation. A unit is a step of the expression, or 10 bytes of text or one value that
	// a step reads; 100,000 units take about 30 ms.
	MaxCost = 100_000
	// maxMessage limits the message of an error, in bytes.
	maxMessage = 240
)

// Code is the kind of a failed evaluation.
type Code string

// The kinds.
const (
	// CodeEvaluation: the filter reads a value that the event does not have, or that has another type.
	CodeEvaluation Code = "evaluation_failed"
	// CodeCost: the evaluation would cost more than MaxCost.
	CodeCost Code = "cost_exceeded"
	// CodeTooLarge: the filter reads more of the body than it may.
	CodeTooLarge Code = "body_too_large"
	// CodeExpired: the filter reads a payload that was removed.
	CodeExpired Code = "payload_expired"
	// CodeInvalid: the stored text is not a filter in this release.
	CodeInvalid Code = "filter_invalid"
)

// codes returns every kind.
func codes() []Code { return []Code{CodeEvaluation, CodeCost, CodeTooLarge, CodeExpired, CodeInvalid} }

// Schema returns the schema with the kinds, for the API.
func (Code) Schema(oas.Registry) *oas.Schema { return oas.Enum(codes()) }

// Failure says why an evaluation has no value.
type Failure struct {
	Code    Code
	Message string
}

// Result is the result of an evaluation.
type Result struct {
	// Matches is true if the filter is true for the event. A failed evaluation does not match.
	Matches bool
	// Failure is nil if the filter has a value.
	Failure *Failure
	// Cost is the cost of the evaluation, up to its end or failure.
	Cost uint64
	// NotEvaluated is set by a Screen whose limit was used up by other filters.
	NotEvaluated bool
}

const (
	outcomeMatched      = "matched"
	outcomeNotMatched   = "not_matched"
	outcomeNotEvaluated = "not_evaluated"
)

// outcomes are the outcomes that a result can have.
func outcomes() []string {
	all := []string{outcomeMatched, outcomeNotMatched, outcomeNotEvaluated}
	for _, code := range codes() {
		all = append(all, string(code))
	}
	return all
}

// Outcome returns the result's name in metrics: matched, not_matched, not_evaluated, or the code of the failure.
func (r Result) Outcome() string {
	switch {
	case r.NotEvaluated:
		return outcomeNotEvaluated
	case r.Failure != nil:
		return string(r.Failure.Code)
	case r.Matches:
		return outcomeMatched
	default:
		return outcomeNotMatched
	}
}

var (
	errNotEvent = errors.New("not an event")
	errNoJSON   = errors.New("the event's body is not JSON")
	errExpired  = errors.New("the event's headers and body are no longer kept")
)

// Filter is a stored filter. It is compiled at its first evaluation, and safe for concurrent use.
type Filter struct {
	text     string
	compiled func() *program
}

// program is a compiled filter; nil stands for a text that is none.
type program struct {
	cel.Program
	info *ast.SourceInfo
	// estimate is the cost on an event of ordinary size at most.
	estimate uint64
}

// String returns the filter's text.
func (f *Filter) String() string { return f.text }

// New returns the filter of a stored text. A text that Check refuses, because an earlier release accepted it, returns a
// filter that fails on every event.
func New(text string) *Filter {
	return &Filter{text: text, compiled: sync.OnceValue(func() *program {
		p, _ := compile(text, math.MaxInt) // it was checked when it was stored
		return p
	})}
}

// Eval evaluates the filter on an event. Errors are in the result.
func (f *Filter) Eval(e *Event) Result {
	p := f.compiled()
	if p == nil {
		return Result{Failure: &Failure{CodeInvalid, "The filter was stored by another release and cannot be evaluated by " +
			"this one. Write it again."}}
	}
	e.begin()
	value, details, err := p.Eval(scope{e})
	r := Result{}
	if cost := details.ActualCost(); cost != nil {
		r.Cost = *cost
	}
	switch {
	case e.failed() != nil:
		r.Failure = p.failure(CodeTooLarge, e.failed())
	case err != nil:
		r.Failure = p.failure(codeOf(err), err)
	default:
		r.Matches = value == types.True
	}
	return r
}

// Evaluate evaluates the filter of a text on the event.
func (e *Event) Evaluate(text string) Result { return New(text).Eval(e) }

// scope is where a filter finds the event. It implements cel.Activation.
type scope struct{ event *Event }

// ResolveName returns the event, which is all there is.
func (s scope) ResolveName(name string) (any, bool) { return s.event, name == variable }

// Parent returns nil: there is no outer scope.
func (scope) Parent() cel.Activation { return nil }

func codeOf(err error) Code {
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled), errors.Is(err, errMatchTooLarge):
		return CodeCost
	case errors.Is(err, errExpired):
		return CodeExpired
	default:
		return CodeEvaluation
	}
}

// failure describes an error to the owner of the filter.
func (p *program) failure(code Code, err error) *Failure {
	if code == CodeCost {
		return &Failure{code, fmt.Sprintf("The evaluation would cost more than %d", MaxCost)}
	}
	message := err.Error()
	if message == "no such overload" {
		message += ": the values are of types that do not go together here; convert one, as with double(…) or string(…)"
	}
	var at *types.Err
	if errors.As(err, &at) {
		if _, known := p.info.GetOffsetRange(at.NodeID()); known {
			message = position(p.info.GetStartLocation(at.NodeID())) + message
		}
	}
	return &Failure{code, shorten(message)}
}

// shorten returns the message as text of a bounded length that any database and client can hold.
func shorten(message string) string {
	message = strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError {
			return ' '
		}
		return r
	}, message)
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return message
}
