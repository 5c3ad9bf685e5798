// Package schemas checks inputs of actions against their JSON Schemas (draft 2020-12). See README.md.
package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"sallyport/internal/platform/apperr"
)

// Schema is a compiled schema. It is safe for concurrent use; checks of one schema take turns.
type Schema struct {
	compiled *jsonschema.Schema
	mu       sync.Mutex
	budget   *budget
}

// maxSteps is how many subschemas are evaluated in a check. A small schema can ask for any number: with two references
// to the next one at each of forty levels, or at each level of a value.
const maxSteps = 1_000_000

// budget counts the evaluations of a check down. It is part of the compiled schema.
type budget struct{ left int }

// spent is what a check ends with that has no budget left.
type spent struct{}

func (b *budget) spend(n int) {
	if b.left -= n; b.left < 0 {
		panic(spent{}) // the library has no other way out
	}
}

// Validate implements jsonschema.SchemaExt.
func (b *budget) Validate(*jsonschema.ValidatorContext, any) { b.spend(1) }

// resource is the address of a schema; nothing is read from it.
const resource = "https://schema.invalid/input.json"

// Compile compiles a schema. It follows no reference to another document. Formats are checked, and patterns as far as
// RE2 knows them: a pattern with lookaround or a back reference accepts every text.
func Compile(text []byte) (*Schema, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	b := &budget{left: maxSteps}
	c.UseRegexpEngine(b.compilePattern)
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "https://schema.invalid/budget",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return b, nil }})
	c.AssertVocabs()
	if err := c.AddResource(resource, value); err != nil {
		return nil, fmt.Errorf("compile a schema: %w", err)
	}
	compiled, err := c.Compile(resource)
	if err != nil {
		return nil, fmt.Errorf("compile a schema: %w", err)
	}
	return &Schema{compiled: compiled, budget: b}, nil
}

// noLoader loads no schemas.
type noLoader struct{}

var errElsewhere = errors.New("a schema refers to another document")

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) { return nil, errElsewhere }

// anyText is a pattern that accepts every text.
type anyText string

// MatchString implements jsonschema.Regexp.
func (anyText) MatchString(string) bool { return true }

// String implements jsonschema.Regexp.
func (p anyText) String() string { return string(p) }

// maxPattern is how long a pattern may be that is compiled.
const maxPattern = 1000

// maxMatched is how long a text may be that is matched with a pattern; longer ones are accepted.
const maxMatched = 8 << 10

// pattern is a pattern whose use costs.
type pattern struct {
	*regexp.Regexp

	budget *budget
}

// MatchString implements jsonschema.Regexp.
func (p pattern) MatchString(text string) bool {
	p.budget.spend(1 + len(text)/8)
	return len(text) > maxMatched || p.Regexp.MatchString(text)
}

func (b *budget) compilePattern(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPattern {
		return anyText(text), nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return anyText(text), nil //nolint:nilerr // schemas have patterns of ECMA-262, of which RE2 knows most
	}
	return pattern{re, b}, nil
}

// maxErrors is how many errors Check returns.
const maxErrors = 100

// Check returns all errors of a value, at most 100, at locations that begin with at; none for a value that the schema
// accepts. No message has a part of the value. The text must be valid JSON without numbers that are hard to read, as
// rendering.ParseInput checks.
func (s *Schema) Check(at string, text []byte) ([]apperr.Detail, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read a value: %w", err)
	}
	err = s.validate(value)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil, nil
	case !errors.As(err, &invalid):
		return nil, fmt.Errorf("validate a value: %w", err)
	}
	c := collector{at: at, seen: map[apperr.Detail]bool{}}
	c.add(invalid)
	return c.found, nil
}

// ErrTooComplex says that a value needs more steps to be checked than are made.
var ErrTooComplex = errors.New("the input and its schema are too complex to be checked")

// validate validates a value within the budget.
func (s *Schema) validate(value any) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget.left = maxSteps
	defer func() {
		switch r := recover(); r.(type) {
		case nil:
		case spent:
			err = ErrTooComplex
		default:
			panic(r)
		}
	}()
	return s.compiled.Validate(value) //nolint:wrapcheck // Check reads it
}

// collector collects errors, each once.
type collector struct {
	at    string
	found []apperr.Detail
	seen  map[apperr.Detail]bool
}

// add adds the parts of an error: those that it has, or itself.
func (c *collector) add(e *jsonschema.ValidationError) {
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			c.put(e, name, "required", "is required")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			c.put(e, name, "additional_properties", "is not an input of this action")
		}
	case *kind.DependentRequired:
		for _, name := range k.Missing {
			c.put(e, name, "dependent_required", "is required together with "+strconv.Quote(k.Prop))
		}
	case *kind.AnyOf, *kind.OneOf:
		c.put(e, "", ruleOf(e), alternatives(e))
	case *kind.Not:
		c.put(e, "", "not", "has a form that is excluded")
	default:
		if len(e.Causes) == 0 {
			c.put(e, "", ruleOf(e), describe(e.ErrorKind))
		}
		for _, cause := range e.Causes {
			c.add(cause)
		}
	}
}

// put adds an error at the place of an error or, if name is given, at a member there.
func (c *collector) put(e *jsonschema.ValidationError, name, rule, text string) {
	d := apperr.Detail{Location: c.at + location(e.InstanceLocation), Message: text, Rule: rule}
	if name != "" {
		d.Location += "." + printable(name)
	}
	if c.seen[d] || len(c.found) == maxErrors {
		return
	}
	c.seen[d] = true
	c.found = append(c.found, d)
}

// location writes a place in a value.
func location(tokens []string) string {
	var out strings.Builder
	for _, token := range tokens {
		if _, err := strconv.Atoi(token); err == nil {
			out.WriteString("[" + token + "]")
			continue
		}
		out.WriteString("." + printable(token))
	}
	return out.String()
}

// maxName is how much of a caller's name is shown.
const maxName = 64

// printable returns a name that a caller made, bounded and without characters that are not seen.
func printable(name string) string {
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName]) + "…"
	}
	return strings.Trim(strconv.Quote(name), `"`)
}

// alternatives says which forms a value may have, if they differ by their types.
func alternatives(e *jsonschema.ValidationError) string {
	if k, ok := e.ErrorKind.(*kind.OneOf); ok && len(k.Subschemas) > 1 {
		return "must have exactly one of several forms, and has more than one"
	}
	var types []string
	for _, cause := range e.Causes {
		for _, leaf := range leaves(cause) {
			if k, ok := leaf.ErrorKind.(*kind.Type); ok && len(leaf.InstanceLocation) == len(e.InstanceLocation) {
				types = append(types, k.Want...)
			}
		}
	}
	slices.Sort(types)
	types = slices.Compact(types)
	if len(types) == 0 {
		return "must have one of several forms, and has none of them"
	}
	return "must have one of several forms: " + strings.Join(types, ", ")
}

func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		out = append(out, leaves(cause)...)
	}
	return out
}

// ruleOf returns the keyword that a value breaks, in snake case.
func ruleOf(e *jsonschema.ValidationError) string {
	path := e.ErrorKind.KeywordPath()
	if len(path) == 0 {
		return "schema"
	}
	var out strings.Builder
	for _, r := range path[len(path)-1] {
		if r >= 'A' && r <= 'Z' {
			out.WriteByte('_')
			r += 'a' - 'A'
		}
		out.WriteRune(r)
	}
	return out.String()
}

// describe says what a value must be. It never says what it is.
func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		return "must be one of " + list(k.Want)
	case *kind.Const:
		return "must be " + list([]any{k.Want})
	case *kind.Format:
		return "must have the format " + k.Want
	case *kind.MinProperties:
		return "must have at least " + count(k.Want, "member")
	case *kind.MaxProperties:
		return "must have at most " + count(k.Want, "member")
	case *kind.MinItems:
		return "must have at least " + count(k.Want, "item")
	case *kind.MaxItems:
		return "must have at most " + count(k.Want, "item")
	case *kind.MinLength:
		return "must have at least " + count(k.Want, "character")
	case *kind.MaxLength:
		return "must have at most " + count(k.Want, "character")
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	case *kind.UniqueItems:
		return fmt.Sprintf("must have different items, and those at %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "must be greater than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "must be less than " + k.Want.RatString()
	case *kind.MultipleOf:
		return "must be a multiple of " + k.Want.RatString()
	case *kind.ContentEncoding:
		return "must be encoded as " + k.Want
	case *kind.FalseSchema:
		return "must not be given"
	case *kind.PropertyNames:
		return "has a member whose name is not allowed"
	case *kind.AdditionalItems:
		return "has more items than it may"
	default:
		return "does not fit the schema of the action"
	}
}

// maxListed is how many values of an enumeration a message has.
const maxListed = 20

// list writes values of a schema.
func list(values []any) string {
	more := ""
	if len(values) > maxListed {
		more = fmt.Sprintf(" and %d others", len(values)-maxListed)
		values = values[:maxListed]
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ", ") + more
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
