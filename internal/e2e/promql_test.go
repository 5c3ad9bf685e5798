package e2e_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/scanner"
)

// A selector names the series that an expression reads: a metric, narrowed by its labels.
type selector struct {
	metric   string
	matchers []matcher
	// over is the function that a range of it is given to; empty for its present value.
	over string
}

type matcher struct{ label, op, value string }

func (m matcher) matches(value string) bool {
	switch m.op {
	case "=":
		return value == m.value
	case "!=":
		return value != m.value
	default:
		return regexp.MustCompile("^(?:"+m.value+")$").MatchString(value) == (m.op == "=~")
	}
}

// query is what an expression of PromQL reads and by which labels it groups.
type query struct {
	selectors []selector
	grouped   []string
}

// parsePromQL reads the part of PromQL that the shipped rules and panels use. Prometheus's own parser comes with the
// whole of Prometheus, hundreds of modules; and to refuse what this one does not know keeps the expressions simple.
func parsePromQL(text string) (q query, err error) {
	p := &promParser{q: &q}
	p.s.Init(strings.NewReader(text))
	p.s.Mode = scanner.ScanIdents | scanner.ScanFloats | scanner.ScanInts | scanner.ScanStrings
	p.s.Error = func(*scanner.Scanner, string) {} // what it cannot read is a token that nothing takes
	defer func() {
		if r := recover(); r != nil {
			var broken promError
			if e, ok := r.(error); !ok || !errors.As(e, &broken) {
				panic(r)
			}
			err = fmt.Errorf("%s: %w", text, broken)
		}
	}()
	p.next()
	p.expression()
	p.need(p.tok == scanner.EOF, "an operator or the end")
	return q, nil
}

type promError string

func (f promError) Error() string { return string(f) }

type promParser struct {
	s   scanner.Scanner
	tok rune
	q   *query
	// over is the function whose argument is read.
	over string
}

func (p *promParser) next() { p.tok = p.s.Scan() }

func (p *promParser) need(ok bool, what string) {
	if !ok {
		panic(promError(fmt.Sprintf("%s: %q where %s is needed", p.s.Position, p.s.TokenText(), what)))
	}
}

func (p *promParser) take(tok rune) string {
	text := p.s.TokenText()
	p.need(p.tok == tok, scanner.TokenString(tok))
	p.next()
	return text
}

func (p *promParser) expression() {
	p.operand()
	for strings.ContainsRune("+-*/<>", p.tok) {
		p.next()
		p.operand()
	}
	if p.tok == '=' { // ==
		p.next()
		p.take('=')
		p.operand()
	}
}

func (p *promParser) operand() {
	switch p.tok {
	case scanner.Int, scanner.Float:
		p.next()
	case '(':
		p.next()
		p.expression()
		p.take(')')
	default:
		name := p.take(scanner.Ident)
		switch {
		case slices.Contains([]string{"sum", "max", "min"}, name):
			if p.tok == scanner.Ident {
				p.need(p.s.TokenText() == "by", "by")
				p.next()
				p.labels()
			}
			p.arguments("", 1)
		case slices.Contains([]string{"rate", "increase", "changes"}, name):
			p.arguments(name, 1)
		case name == "histogram_quantile":
			p.q.grouped = append(p.q.grouped, "le")
			p.arguments("", 2)
		default:
			p.selector(name)
		}
	}
}

func (p *promParser) arguments(over string, n int) {
	before := p.over
	p.over = over
	p.take('(')
	for i := range n {
		if i > 0 {
			p.take(',')
		}
		p.expression()
	}
	p.take(')')
	p.over = before
}

func (p *promParser) labels() {
	p.take('(')
	for {
		p.q.grouped = append(p.q.grouped, p.take(scanner.Ident))
		if p.tok != ',' {
			break
		}
		p.next()
	}
	p.take(')')
}

func (p *promParser) selector(metric string) {
	s := selector{metric: metric, over: p.over}
	if p.tok == '{' {
		p.next()
		for p.tok != '}' {
			m := matcher{label: p.take(scanner.Ident)}
			m.op = string(p.tok)
			p.need(p.tok == '=' || p.tok == '!', "= or !")
			p.next()
			if m.op == "!" || p.tok == '~' {
				m.op += string(p.tok)
				p.need(p.tok == '=' || p.tok == '~', "= or ~")
				p.next()
			}
			var err error
			m.value, err = strconv.Unquote(p.take(scanner.String))
			p.need(err == nil, "a string")
			s.matchers = append(s.matchers, m)
			if p.tok == ',' {
				p.next()
			}
		}
		p.take('}')
	}
	p.need((p.tok == '[') == (p.over != ""), "a range in rate, increase and changes, and nowhere else,")
	if p.tok == '[' {
		p.next()
		p.take(scanner.Int)
		p.need(slices.Contains([]string{"s", "m", "h", "d"}, p.s.TokenText()), "a unit")
		p.next()
		p.take(']')
	}
	p.q.selectors = append(p.q.selectors, s)
}
