package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/suggest"
)

// Limits of parameters that declare none of their own.
const (
	maxParameterLength = 255 // in characters
	maxParameterItems  = 50
)

// limitParameters documents a limit for every parameter and enforces the limits of the query and the headers. A longer
// path is not found. A longer cookie is ignored and not an error, because a browser would send it again and its user
// could not fix that.
func limitParameters(op *huma.Operation) {
	for _, p := range op.Parameters {
		s := p.Schema
		if p.In == "path" || p.In == "cookie" {
			if s.Type == huma.TypeString && s.MaxLength == nil {
				s.Extensions = map[string]any{"maxLength": maxParameterLength}
			}
			continue
		}
		switch s.Type {
		case huma.TypeArray:
			setDefault(&s.MaxItems, maxParameterItems)
			s.PrecomputeMessages()
			s = s.Items
		case huma.TypeObject:
			setDefault(&s.MaxProperties, maxParameterItems)
			s.PrecomputeMessages()
			s = memberOf(s)
		}
		if s.Type == huma.TypeString && len(s.Enum) == 0 {
			setDefault(&s.MinLength, 1)
			setDefault(&s.MaxLength, maxParameterLength)
			s.PrecomputeMessages()
		}
	}
}

// memberOf returns the schema of the members of an object.
func memberOf(s *huma.Schema) *huma.Schema {
	member, ok := s.AdditionalProperties.(*huma.Schema)
	if !ok {
		panic("the members of a parameter are declared by the type of a map")
	}
	return member
}

func setDefault(limit **int, n int) {
	if *limit == nil {
		*limit = &n
	}
}

// queryParameters holds the query parameters of an operation by name.
type queryParameters map[string]*huma.Schema

func queryOf(op *huma.Operation) queryParameters {
	q := queryParameters{}
	for _, p := range op.Parameters {
		if p.In == "query" {
			q[p.Name] = p.Schema
		}
	}
	return q
}

// name returns the name of a parameter as it is declared, or, of a member of an object, the object's name, a dot and
// the member's. OpenAPI's style deepObject writes the member in brackets instead.
func (q queryParameters) name(written string) string {
	object, member, found := strings.Cut(written, "[")
	member, closed := strings.CutSuffix(member, "]")
	if s := q[object]; found && closed && s != nil && s.Type == huma.TypeObject {
		return object + "." + member
	}
	return written
}

// member returns the schema of a member of an object, and how Huma reads it.
func (q queryParameters) member(name string) (schema *huma.Schema, forHuma string) {
	object, member, _ := strings.Cut(name, ".")
	s := q[object]
	if s == nil || s.Type != huma.TypeObject || member == "" || strings.ContainsAny(member, "[]") {
		return nil, ""
	}
	return memberOf(s), object + "[" + member + "]"
}

// read returns the errors of a query that Huma accepts: Huma takes an empty value for none, uses the first of several
// values, and ignores parts that it cannot decode. read rewrites the query for Huma, so that ?a=1,2&a=3 equals
// ?a=1&a=2&a=3 for list parameters, and ?a.b=1 equals ?a[b]=1 for objects.
func (q queryParameters) read(r *http.Request) []apperr.Detail {
	if r.URL.RawQuery == "" {
		return nil
	}
	var violations []apperr.Detail
	values := url.Values{}
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		one, err := url.ParseQuery(pair)
		if err != nil {
			violations = append(violations, apperr.Detail{Location: locateUndecodable(pair), Rule: "encoding",
				Message: "the query is not percent-encoded"})
		}
		for name, v := range one {
			name = q.name(name)
			values[name] = append(values[name], v...)
		}
	}
	guesses := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		schema, read := q[name], name
		if schema == nil {
			schema, read = q.member(name)
		}
		switch {
		case schema == nil:
			d := unknownParameter(name)
			if guesses++; guesses <= maxSuggestions {
				d.Message += suggest.Question(name, slices.Sorted(maps.Keys(q)), nil)
			}
			violations = append(violations, d)
			continue
		case schema.Type == huma.TypeObject:
			violations = append(violations, apperr.Detail{Location: "query." + name, Rule: "type",
				Message: "expected " + name + ".NAME=VALUE"})
			delete(values, name)
			continue
		}
		given, found := readParameter("query."+name, schema, values[name])
		violations = append(violations, found...)
		delete(values, name)
		values[read] = given
	}
	r.URL.RawQuery = values.Encode()
	return violations
}

// locateUndecodable returns the location of a part of the query that cannot be decoded: its parameter, if the name can
// be decoded.
func locateUndecodable(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	if name, err := url.QueryUnescape(name); err == nil && name != "" && !strings.Contains(name, ";") {
		return "query." + name
	}
	return "query"
}

// readParameter returns the values of a parameter, split if it is a list, and their errors. No parameter accepts the
// empty string. It returns no values if integers have errors, because Huma would report one of them again.
func readParameter(location string, schema *huma.Schema, values []string) ([]string, []apperr.Detail) {
	if schema.Type != huma.TypeArray {
		if len(values) > 1 {
			return values, []apperr.Detail{{Location: location, Rule: "single", Message: "send the parameter once"}}
		}
		return readValues(schema, values, func(int) string { return location })
	}
	var all []string
	for _, v := range values {
		all = append(all, strings.Split(v, ",")...)
	}
	return readValues(schema.Items, all, func(i int) string { return fmt.Sprintf("%s[%d]", location, i) })
}

func readValues(schema *huma.Schema, values []string, location func(int) string) ([]string, []apperr.Detail) {
	var violations []apperr.Detail
	for i, v := range values {
		if rule, message := checkText(schema, v); rule != "" && len(violations) < maxDetails {
			violations = append(violations, apperr.Detail{Location: location(i), Rule: rule, Message: message})
		}
	}
	if len(violations) > 0 && schema.Type == huma.TypeInteger {
		return nil, violations
	}
	return values, violations
}

// checkText returns the rule that a value breaks as text, and a message.
func checkText(schema *huma.Schema, v string) (rule, message string) {
	switch {
	case v == "":
		return "empty", "the parameter has no value"
	case !utf8.ValidString(v) || strings.ContainsRune(v, 0):
		return "text", "must be UTF-8 text without U+0000" // no stored text contains it
	case schema.Type == huma.TypeInteger && !isInteger(v):
		return "type", "expected integer"
	default:
		return "", ""
	}
}

// isInteger reports whether v is an integer in the form of JSON, without an exponent.
func isInteger(v string) bool {
	n, err := strconv.ParseInt(v, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == v
}
