package outbound

import (
	"fmt"
	"regexp"
	"strings"
)

// template is a text with expressions in it. There are no loops, conditions or nested calls: what it renders is bounded
// by its own length and that of the values.
type template struct{ parts []part }

// part is a literal or an expression.
type part struct {
	literal string
	expr    *expression
}

// function is what an expression applies to its arguments.
type function string

const (
	fnValue  function = "" // one name, as it is
	fnNow    function = "now"
	fnUUID   function = "uuid"
	fnBase64 function = "base64" // RFC 4648 section 4
	fnBasic  function = "basic"  // the credentials of RFC 7617: base64 of both arguments with a colon between them
)

// expression is the content of ${…}.
type expression struct {
	fn function
	// args are concatenations.
	args [][]operand
	// form is that of now: unix_s, unix_ms or rfc3339.
	form string
}

// operand is a name or a literal.
type operand struct {
	literal string
	name    name
}

// name is a value: one of cred, config, client and request, and its name there.
type name struct{ space, key string }

func (n name) String() string { return n.space + "." + n.key }

const (
	spaceCred    = "cred"
	spaceConfig  = "config"
	spaceClient  = "client"
	spaceRequest = "request"
)

const exprOpen = "${"

var (
	nameForm     = regexp.MustCompile(`^(cred|config|client|request)\.([a-z][a-z0-9_]{0,39})$`)
	functionForm = regexp.MustCompile(`^([a-z][a-z0-9]*)\((.*)\)$`)
)

// templateError is a clause that says what is wrong with a template.
type templateError string

func (e templateError) Error() string { return string(e) }

// parseTemplate reads a template. It knows no names; scopes check them.
func parseTemplate(text string) (*template, error) {
	if len(text) > maxTemplate {
		return nil, templateError(fmt.Sprintf("is longer than %d bytes", maxTemplate))
	}
	for i := range len(text) {
		if text[i] < ' ' && text[i] != '\n' || text[i] == 0x7f {
			return nil, templateError("contains a control character")
		}
	}
	t := &template{}
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, exprOpen)
		if before != "" {
			t.parts = append(t.parts, part{literal: before})
		}
		if !found {
			break
		}
		end := closingBrace(after)
		if end < 0 {
			return nil, templateError("has ${ without }")
		}
		expr, err := parseExpression(strings.TrimSpace(after[:end]))
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part{expr: expr})
		rest = after[end+1:]
	}
	if len(t.parts) > maxParts {
		return nil, templateError(fmt.Sprintf("has more than %d parts", maxParts))
	}
	return t, nil
}

// closingBrace returns the place of the brace that ends an expression, past those in quotes; -1 without one.
func closingBrace(s string) int {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '}' && !quoted:
			return i
		}
	}
	return -1
}

func parseExpression(s string) (*expression, error) {
	if m := nameForm.FindStringSubmatch(s); m != nil {
		return &expression{args: [][]operand{{{name: name{m[1], m[2]}}}}}, nil
	}
	switch s {
	case "now":
		return &expression{fn: fnNow, form: "unix_s"}, nil
	case "uuid":
		return &expression{fn: fnUUID}, nil
	}
	m := functionForm.FindStringSubmatch(s)
	if m == nil {
		return nil, errExpression
	}
	e := &expression{fn: function(m[1])}
	if e.fn == fnNow {
		e.form = strings.TrimSpace(m[2])
		switch e.form {
		case "unix_s", "unix_ms", "rfc3339":
			return e, nil
		default:
			return nil, templateError("can have now(unix_s), now(unix_ms) and now(rfc3339)")
		}
	}
	want := map[function]int{fnBase64: 1, fnBasic: 2}[e.fn]
	if want == 0 {
		return nil, errExpression
	}
	for _, text := range splitOutsideQuotes(m[2], ',') {
		arg, err := parseArgument(text)
		if err != nil {
			return nil, err
		}
		e.args = append(e.args, arg)
	}
	if len(e.args) != want {
		return nil, templateError(fmt.Sprintf("gives %s another number of values than %d", e.fn, want))
	}
	return e, nil
}

const errExpression = templateError("can have ${cred.name}, ${config.name}, ${client.name}, ${now}, ${uuid}, " +
	"${base64(…)} and ${basic(…, …)} only")

// parseArgument reads names and quoted texts with + between them.
func parseArgument(s string) ([]operand, error) {
	var out []operand
	for _, text := range splitOutsideQuotes(s, '+') {
		text = strings.TrimSpace(text)
		m := nameForm.FindStringSubmatch(text)
		switch {
		case m != nil:
			out = append(out, operand{name: name{m[1], m[2]}})
		case len(text) >= 2 && text[0] == '"' && strings.IndexByte(text[1:], '"') == len(text)-2:
			out = append(out, operand{literal: text[1 : len(text)-1]})
		default:
			return nil, templateError("can have names and quoted texts in brackets, with + between them")
		}
	}
	if len(out) > maxOperands {
		return nil, templateError(fmt.Sprintf("concatenates more than %d values", maxOperands))
	}
	return out, nil
}

func splitOutsideQuotes(s string, sep byte) []string {
	var out []string
	quoted, start := false, 0
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == sep && !quoted:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// names returns every name in the template.
func (t *template) names() []name {
	var out []name
	for _, p := range t.parts {
		if p.expr == nil {
			continue
		}
		for _, arg := range p.expr.args {
			for _, o := range arg {
				if o.name.space != "" {
					out = append(out, o.name)
				}
			}
		}
	}
	return out
}

// literal returns the text of a template without expressions; none of a template that was refused, which is nil.
func (t *template) literal() (string, bool) {
	switch {
	case t == nil:
		return "", false
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].expr == nil:
		return t.parts[0].literal, true
	default:
		return "", false
	}
}

// single returns the name of a template that is one name and nothing else.
func (t *template) single() (name, bool) {
	if len(t.parts) != 1 || t.parts[0].expr == nil {
		return name{}, false
	}
	return t.parts[0].plain()
}

// plain returns the name of an expression that is one.
func (p part) plain() (name, bool) {
	if p.expr == nil || p.expr.fn != fnValue {
		return name{}, false
	}
	return p.expr.args[0][0].name, true
}
