// Package rendering makes the request of an action from an input, and the output of an action from a response. It sends
// nothing and knows no credentials. See README.md.
package rendering

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/outbound"
)

// InputError is an input of which no request can be made, although the schema accepts it.
type InputError struct {
	// Property is the property of the input, and Message says what is wrong with it. Neither has a value.
	Property, Message string
}

// Error implements error.
func (e *InputError) Error() string { return e.Property + " " + e.Message }

// Input is the input of an action: a JSON object.
type Input struct{ value jsonindex.Value }

// maxDepth is how deep an input may be nested.
const maxDepth = 100

// ParseInput reads an input. It refuses what is not one JSON object (RFC 8259), names that occur twice in an object,
// nesting over 100 levels, and numbers with exponents of more than three digits, which take readers very long.
//
// The error is an *InputError, without a property where it is about the input as a whole.
func ParseInput(text []byte) (Input, error) {
	index, err := jsonindex.Parse(text, maxDepth)
	if err != nil {
		return Input{}, &InputError{Message: "must be valid JSON: " + err.Error()}
	}
	root := index.Root()
	if root.Kind() != jsonindex.Object {
		return Input{}, &InputError{Message: "must be an object"}
	}
	left := maxValues
	if problem := check(root, "", &left); problem != nil {
		return Input{}, problem
	}
	return Input{root}, nil
}

// maxValues is how many values an input may have: each takes much more memory where it is checked than in JSON.
const maxValues = 200_000

// check looks for what programs read in different ways, and counts values down.
func check(v jsonindex.Value, at string, left *int) *InputError {
	if *left--; *left < 0 {
		return &InputError{"", "must have at most " + strconv.Itoa(maxValues) + " values"}
	}
	switch v.Kind() {
	case jsonindex.Object:
		seen := map[string]bool{}
		for name, member := range v.Members() {
			place := join(at, name)
			if seen[name] {
				return &InputError{place, "is given twice"}
			}
			seen[name] = true
			if problem := check(member, place, left); problem != nil {
				return problem
			}
		}
	case jsonindex.Array:
		n := 0
		for item := range v.Items() {
			if problem := check(item, fmt.Sprintf("%s[%d]", at, n), left); problem != nil {
				return problem
			}
			n++
		}
	case jsonindex.Number:
		if !plainNumber(v.Raw()) {
			return &InputError{at, "is a number with too many digits"}
		}
	default:
	}
	return nil
}

// maxDigits is how long a number may be written, and maxExponent how long its exponent.
const maxDigits, maxExponent = 1000, 3

func plainNumber(text []byte) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(string(text)), "e")
	return len(text) <= maxDigits && len(strings.TrimLeft(exponent, "+-0")) <= maxExponent
}

// join returns the location of a member, as validation errors name it.
func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// Value returns the whole input.
func (in Input) Value() jsonindex.Value { return in.value }

// Raw returns the input as it was given.
func (in Input) Raw() []byte { return in.value.Raw() }

// Render makes the request of an action from an input that the action's schema accepts: without credentials, and for a
// connection's base URL. The error is an *InputError.
func Render(a *actions.Action, in Input) (outbound.Outgoing, error) {
	r := renderer{action: a, query: url.Values{}, header: http.Header{}, path: map[string]string{}}
	for i := range a.Parameters {
		p := &a.Parameters[i]
		if value := in.value.Get(p.Property); value.Exists() {
			if err := r.place(p, value); err != nil {
				return outbound.Outgoing{}, err
			}
		}
	}
	out := outbound.Outgoing{Method: a.Method, Query: r.query, Header: r.header, BaseURL: a.BaseURL}
	var err error
	if out.Path, err = r.fillPath(); err != nil {
		return outbound.Outgoing{}, err
	}
	if out.Body, err = r.writeBody(); err != nil {
		return outbound.Outgoing{}, err
	}
	if r.contentType != "" {
		r.header.Set("Content-Type", r.contentType)
	}
	return out, nil
}

// renderer collects the parts of a request.
type renderer struct {
	action *actions.Action
	query  url.Values
	header http.Header
	// path has the texts of the names in the path.
	path map[string]string
	// members are those of the body, in the order of the parameters, and whole is the body as a whole.
	members     []member
	whole       jsonindex.Value
	contentType string
}

// member is a member of a body.
type member struct {
	parameter *actions.Parameter
	value     jsonindex.Value
}

// place puts a value where its parameter says.
func (r *renderer) place(p *actions.Parameter, v jsonindex.Value) error {
	switch p.Place {
	case actions.InPath:
		text, err := pathText(p, v)
		if err != nil {
			return err
		}
		r.path[p.Name] = text
	case actions.InQuery:
		return addPairs(p, v, func(name, value string) { r.query.Add(name, value) })
	case actions.InHeader:
		return r.addHeader(p, v)
	case actions.InBody:
		r.members = append(r.members, member{p, v})
	case actions.AsBody:
		r.whole = v
	default:
		return &InputError{p.Property, "has a place in the request that this release does not know"}
	}
	return nil
}

// addHeader adds a header; an object whose members are headers adds each.
func (r *renderer) addHeader(p *actions.Parameter, v jsonindex.Value) error {
	if v.Kind() == jsonindex.Object && p.Explode && p.Style == "form" {
		for name, one := range v.Members() {
			text, err := scalar(p, one)
			if err != nil {
				return err
			}
			r.header.Add(name, text)
		}
		return nil
	}
	text, err := joined(p, v, ",", p.Explode)
	if err != nil {
		return err
	}
	r.header.Add(p.Name, text)
	return nil
}

// fillPath returns the path of the request, with the texts of its names.
func (r *renderer) fillPath() (string, error) {
	var out strings.Builder
	rest, _, _ := strings.Cut(r.action.Path, "#") // it only distinguishes operations of a document
	rest, query, _ := strings.Cut(rest, "?")
	for {
		literal, after, found := strings.Cut(rest, "{")
		out.WriteString(literal)
		if !found {
			break
		}
		name, behind, ended := strings.Cut(after, "}")
		if !ended {
			return "", &InputError{"", "belongs to an action whose path is not valid"}
		}
		text, given := r.path[name]
		if !given {
			return "", &InputError{r.propertyOf(name), "must be given, because it is in the path"}
		}
		out.WriteString(text)
		rest = behind
	}
	if fixed, err := url.ParseQuery(query); err == nil {
		for name, values := range fixed {
			r.query[name] = values // an input that names it must not make another operation of this one
		}
	}
	path := out.String()
	if path != "" && path[0] != '/' {
		path = "/" + path
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if segment == "." || segment == ".." {
			return "", &InputError{r.firstInPath(), "must not make a segment of the path that is . or .."}
		}
	}
	return path, nil
}

func (r *renderer) propertyOf(name string) string {
	for i := range r.action.Parameters {
		if p := &r.action.Parameters[i]; p.Place == actions.InPath && p.Name == name {
			return p.Property
		}
	}
	return name
}

// firstInPath names a property whose value is in the path.
func (r *renderer) firstInPath() string {
	for i := range r.action.Parameters {
		if p := &r.action.Parameters[i]; p.Place == actions.InPath {
			return p.Property
		}
	}
	return ""
}
