package outbound

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/providers/verification"
)

// Response is what a provider returned. It is foreign: nothing in it is believed.
type Response struct {
	Status int
	Header http.Header
	// Body may be cut; of a body over 1 MiB nothing is read.
	Body []byte
}

// Test is a compiled Condition.
type Test struct {
	status   statusSet
	header   string
	body     *verification.Pointer
	in       []string
	contains string
	absent   bool
	// bodyContains is a text in lower case; empty for none.
	bodyContains []byte
}

// statusSet is a set of statuses, by number and by class.
type statusSet map[int]bool

func (s statusSet) has(status int) bool { return s[status] || s[-status/100] }

var statusForm = regexp.MustCompile(`^([1-5]xx|[1-5][0-9][0-9])$`)

func compileStatuses(field string, texts Texts, ps *problems) statusSet {
	if len(texts) > maxEntries {
		ps.add(field, "has more than %d entries", maxEntries)
	}
	s := statusSet{}
	for i, text := range texts {
		text = strings.ToLower(text)
		if !statusForm.MatchString(text) {
			ps.add(at(field, i), "must be a status such as 403, or a class such as 4xx")
			continue
		}
		if class, ok := strings.CutSuffix(text, "xx"); ok {
			s[-int(class[0]-'0')] = true
			continue
		}
		s[int(text[0]-'0')*100+int(text[1]-'0')*10+int(text[2]-'0')] = true
	}
	return s
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,128}$`)

func compileConditions(field string, list []Condition, ps *problems) []Test {
	if len(list) > maxEntries {
		ps.add(field, "has more than %d entries", maxEntries)
	}
	var out []Test
	for i := range list {
		out = append(out, *compileCondition(at(field, i), &list[i], ps))
	}
	return out
}

func compileCondition(field string, c *Condition, ps *problems) *Test {
	if c == nil {
		return nil
	}
	t := &Test{header: http.CanonicalHeaderKey(c.Header), contains: strings.ToLower(c.Contains), absent: c.Absent,
		in: slices.Clone(c.In), status: compileStatuses(field+".status", c.Status, ps),
		bodyContains: bytes.ToLower([]byte(c.BodyContains))}
	if c.Equals != "" {
		t.in = append(t.in, c.Equals)
	}
	place := c.Header != "" || c.Body != ""
	forms := 0
	for _, given := range []bool{c.Equals != "", c.In != nil, c.Contains != "", c.Absent} {
		if given {
			forms++
		}
	}
	switch {
	case c.Header != "" && c.Body != "":
		ps.add(field, "can have one of header and body")
	case c.BodyContains != "" && (place || forms > 0):
		ps.add(field+".body_contains", "stands alone, or with status")
	case len(c.BodyContains) > maxText:
		ps.add(field+".body_contains", "has more than %d bytes", maxText)
	case c.BodyContains != "":
	case !place && len(c.Status) == 0:
		ps.add(field, "needs a status, a header, a pointer into the body or body_contains")
	case !place && forms > 0:
		ps.add(field, "compares a value, but names no header or body")
	case forms > 1:
		ps.add(field, "can have one of equals, in, contains and absent")
	case len(c.In) > maxEntries || slices.Contains(c.In, "") || c.In != nil && len(c.In) == 0:
		ps.add(field+".in", "needs 1 to %d values", maxEntries)
	}
	if c.Header != "" && !headerName.MatchString(c.Header) {
		ps.add(field+".header", "must be the name of a header")
	}
	if c.Body != "" {
		t.body = compilePointer(field+".body", c.Body, ps)
	}
	return t
}

// compilePointer checks a JSON pointer. It returns nil for an empty one.
func compilePointer(field, text string, ps *problems) *verification.Pointer {
	if text == "" {
		return nil
	}
	p, err := verification.ParsePointer(text)
	if err != nil {
		ps.add(field, "%s", err)
		return nil
	}
	return &p
}

// Holds reports whether a response passes the test.
func (t *Test) Holds(r *Response) bool {
	if len(t.status) > 0 && !t.status.has(r.Status) {
		return false
	}
	var value string
	var found bool
	switch {
	case len(t.bodyContains) > 0:
		return bytes.Contains(bytes.ToLower(r.Body[:min(len(r.Body), maxSearched)]), t.bodyContains)
	case t.header != "":
		value = r.Header.Get(t.header)
		found = value != ""
	case t.body != nil:
		value, found = r.text(t.body)
	default:
		return true
	}
	switch {
	case t.absent:
		return !found
	case !found:
		return false
	case t.in != nil:
		return slices.Contains(t.in, value)
	case t.contains != "":
		return strings.Contains(strings.ToLower(value), t.contains)
	default:
		return true
	}
}

// text returns the text at a pointer into the body.
func (r *Response) text(p *verification.Pointer) (string, bool) {
	if p == nil || len(r.Body) > maxJudged {
		return "", false
	}
	return p.Text(r.Body)
}

func holdsAny(tests []Test, r *Response) bool {
	return slices.ContainsFunc(tests, func(t Test) bool { return t.Holds(r) })
}
