package declared

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limits of schemas.
const (
	maxDepth   = 12
	maxEnum    = 500
	maxValue   = 1000
	maxPattern = 1000
	maxText    = 1000
	maxMember  = 100
)

// schemaSet checks schemas and knows those to which others refer.
type schemaSet struct {
	shared *Ordered[Schema]
	// used are those of them that anything needs.
	used map[string]bool
	add  func(field, format string, args ...any)
}

func types() []string {
	return []string{"string", "integer", "number", "boolean", "array", "object", "null"}
}

// formats are those of JSON Schema that say something to people, and those of numbers that OpenAPI has.
func formats() []string {
	return []string{"binary", "date", "date-time", "duration", "email", "hostname", "int32", "int64", "ipv4", "ipv6",
		"time", "unix-time", "uri", "uuid"}
}

// check checks a schema. Schemas to which it refers are checked where they stand.
func (c *schemaSet) check(field string, s *Schema, depth int) {
	if depth > maxDepth {
		c.add(field, "is deeper than %d levels", maxDepth)
		return
	}
	if s.Ref != "" {
		c.checkRef(field, s)
		return
	}
	for i, t := range s.Type {
		if !slices.Contains(types(), t) || slices.Index(s.Type, t) != i {
			c.add(field+".type", "must be one or several of %s", strings.Join(types(), ", "))
		}
	}
	if s.Type != nil && len(s.Type) == 0 {
		c.add(field+".type", "is empty")
	}
	if s.Title != "" && !isLine(s.Title, maxTitle) {
		c.add(field+".title", "must be one line of at most %d characters without spaces around it", maxTitle)
	}
	if !isProse(s.Description, maxText) {
		c.add(field+".description", "must be text of at most %d bytes", maxText)
	}
	if s.Format != "" && !slices.Contains(formats(), s.Format) {
		c.add(field+".format", "must be one of %s", strings.Join(formats(), ", "))
	}
	c.checkRelevant(field, s)
	c.checkValues(field, s)
	c.checkStrings(field, s)
	c.checkNumbers(field, s)
	c.checkSizes(field, s)
	c.checkParts(field, s, depth)
}

// checkRef checks a schema that stands for another one.
func (c *schemaSet) checkRef(field string, s *Schema) {
	if _, found := c.shared.byName[s.Ref]; !found {
		c.add(field+".ref", "is not one of actions.schemas")
		return
	}
	c.used[s.Ref] = true
	rest := *s
	rest.Ref, rest.Description = "", ""
	if !reflect.DeepEqual(rest, Schema{}) {
		c.add(field+".ref", "can have only a description next to it")
	}
	if !isProse(s.Description, maxText) {
		c.add(field+".description", "must be text of at most %d bytes", maxText)
	}
}

// reaches adds the names of the schemas that a schema contains.
func (c *schemaSet) reaches(s *Schema, names map[string]bool) {
	if s.Ref != "" {
		if target, found := c.shared.byName[s.Ref]; found && !names[s.Ref] {
			names[s.Ref] = true
			c.reaches(&target, names)
		}
		return
	}
	for _, part := range parts(s) {
		c.reaches(part, names)
	}
}

// resolve follows references; nil for one that leads to nothing.
func (c *schemaSet) resolve(s *Schema) *Schema {
	for range maxDepth {
		if s == nil || s.Ref == "" {
			return s
		}
		target, found := c.shared.byName[s.Ref]
		if !found {
			return nil
		}
		s = &target
	}
	return nil
}

// hasType reports whether a value may have one of the types; a schema without a type permits all.
func hasType(s *Schema, types ...string) bool {
	return len(s.Type) == 0 || slices.ContainsFunc(types, func(t string) bool { return slices.Contains(s.Type, t) })
}

// checkRelevant finds keywords that mean nothing for the type.
func (c *schemaSet) checkRelevant(field string, s *Schema) {
	for _, k := range []struct {
		name  string
		given bool
		types []string
	}{
		{"minLength", s.MinLength != nil, []string{"string"}},
		{"maxLength", s.MaxLength != nil, []string{"string"}},
		{"pattern", s.Pattern != "", []string{"string"}},
		{"format", s.Format != "", []string{"string", "integer", "number"}},
		{"minimum", s.Minimum != nil, []string{"integer", "number"}},
		{"maximum", s.Maximum != nil, []string{"integer", "number"}},
		{"exclusiveMinimum", s.ExclusiveMinimum != nil, []string{"integer", "number"}},
		{"exclusiveMaximum", s.ExclusiveMaximum != nil, []string{"integer", "number"}},
		{"multipleOf", s.MultipleOf != nil, []string{"integer", "number"}},
		{"items", s.Items != nil, []string{"array"}},
		{"minItems", s.MinItems != nil, []string{"array"}},
		{"maxItems", s.MaxItems != nil, []string{"array"}},
		{"uniqueItems", s.UniqueItems, []string{"array"}},
		{"properties", s.Properties.names != nil, []string{"object"}},
		{"required", s.Required != nil, []string{"object"}},
		{"additionalProperties", s.AdditionalProperties != nil, []string{"object"}},
		{"minProperties", s.MinProperties != nil, []string{"object"}},
		{"maxProperties", s.MaxProperties != nil, []string{"object"}},
	} {
		if k.given && !hasType(s, k.types...) {
			c.add(field+"."+k.name, "has no meaning for a value of type %s", strings.Join(s.Type, ", "))
		}
	}
}

// checkValues checks enum, const, default and examples.
func (c *schemaSet) checkValues(field string, s *Schema) {
	if s.Enum != nil && (len(s.Enum) == 0 || len(s.Enum) > maxEnum) {
		c.add(field+".enum", "needs 1 to %d values", maxEnum)
	}
	for i, v := range s.Enum {
		if slices.ContainsFunc(s.Enum[:i], func(other Value) bool { return bytes.Equal(other, v) }) {
			c.add(at(field+".enum", i), "is listed twice")
		}
		c.checkValue(at(field+".enum", i), s, v)
	}
	for i, v := range s.Examples {
		c.checkValue(at(field+".examples", i), s, v)
		c.checkListed(at(field+".examples", i), s, v)
	}
	if s.Const != nil {
		c.checkValue(field+".const", s, s.Const)
	}
	if s.Default != nil {
		c.checkValue(field+".default", s, s.Default)
		c.checkListed(field+".default", s, s.Default)
	}
}

func (c *schemaSet) checkListed(field string, s *Schema, v Value) {
	if s.Enum != nil && !slices.ContainsFunc(s.Enum, func(other Value) bool { return bytes.Equal(other, v) }) {
		c.add(field, "is not one of enum")
	}
}

func (c *schemaSet) checkValue(field string, s *Schema, v Value) {
	switch kind := typeOf(v); {
	case len(v) > maxValue:
		c.add(field, "is larger than %d bytes", maxValue)
	case !hasType(s, kind) && (kind != "integer" || !hasType(s, "number")):
		c.add(field, "is of another type: %s, not %s", kind, strings.Join(s.Type, ", "))
	}
}

// typeOf returns the type of a value.
func typeOf(v Value) string {
	switch {
	case len(v) == 0 || v[0] == 'n':
		return "null"
	case v[0] == '"':
		return "string"
	case v[0] == '[':
		return "array"
	case v[0] == '{':
		return "object"
	case v[0] == 't' || v[0] == 'f':
		return "boolean"
	case bytes.ContainsAny(v, ".eE"):
		return "number"
	default:
		return "integer"
	}
}

// ownSyntax is what RE2 and ECMAScript do not read alike: flags, lookaround, names of groups and classes.
var ownSyntax = regexp.MustCompile(`\(\?[^:]|\\[AzQEC]|\[\[:|\\[pP][^{]`)

func (c *schemaSet) checkStrings(field string, s *Schema) {
	if s.Pattern == "" {
		return
	}
	if _, err := regexp.Compile(s.Pattern); err != nil || len(s.Pattern) > maxPattern || ownSyntax.MatchString(s.Pattern) {
		c.add(field+".pattern", "must be an expression of at most %d bytes that RE2 and ECMAScript read alike", maxPattern)
	}
}

func (c *schemaSet) checkNumbers(field string, s *Schema) {
	var limits [4]*float64
	for i, k := range []struct {
		name  string
		value Value
	}{{"minimum", s.Minimum}, {"maximum", s.Maximum}, {"exclusiveMinimum", s.ExclusiveMinimum},
		{"exclusiveMaximum", s.ExclusiveMaximum}} {
		if k.value == nil {
			continue
		}
		n, ok := number(k.value)
		if !ok {
			c.add(field+"."+k.name, "must be a number")
			continue
		}
		limits[i] = &n
	}
	if s.MultipleOf != nil {
		if n, ok := number(s.MultipleOf); !ok || n <= 0 {
			c.add(field+".multipleOf", "must be a number above 0")
		}
	}
	if limits[0] != nil && limits[1] != nil && *limits[0] > *limits[1] {
		c.add(field+".minimum", "is above maximum")
	}
}

// number reads a number.
func number(v Value) (float64, bool) {
	if kind := typeOf(v); kind != "integer" && kind != "number" {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(v), 64)
	return n, err == nil
}

func (c *schemaSet) checkSizes(field string, s *Schema) {
	for _, k := range []struct {
		name     string
		min, max *int
	}{{"Length", s.MinLength, s.MaxLength}, {"Items", s.MinItems, s.MaxItems},
		{"Properties", s.MinProperties, s.MaxProperties}} {
		if k.min != nil && *k.min < 0 {
			c.add(field+".min"+k.name, "must not be negative")
		}
		if k.max != nil && *k.max < 0 {
			c.add(field+".max"+k.name, "must not be negative")
		}
		if k.min != nil && k.max != nil && *k.min > *k.max {
			c.add(field+".min"+k.name, "is above max%s", k.name)
		}
	}
}

// checkParts checks the schemas within a schema.
func (c *schemaSet) checkParts(field string, s *Schema, depth int) {
	if s.Items != nil {
		c.check(field+".items", s.Items, depth+1)
	} else if slices.Contains(s.Type, "array") {
		c.add(field+".items", "is missing for an array")
	}
	for name, property := range s.Properties.all() {
		if !isLine(name, maxMember) {
			c.add(field+".properties", "has a name that is no line of at most %d characters", maxMember)
			continue
		}
		c.check(field+".properties."+name, &property, depth+1)
	}
	for i, name := range s.Required {
		if _, found := s.Properties.byName[name]; !found || slices.Index(s.Required, name) != i {
			c.add(at(field+".required", i), "is not one of properties, or listed twice")
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		c.check(field+".additionalProperties", s.AdditionalProperties.Schema, depth+1)
	}
	if s.AnyOf != nil && len(s.AnyOf) < 2 {
		c.add(field+".anyOf", "needs two entries")
	}
	for i := range s.AnyOf {
		c.check(at(field+".anyOf", i), &s.AnyOf[i], depth+1)
	}
}

// parts returns the schemas within a schema.
func parts(s *Schema) []*Schema {
	var list []*Schema
	if s.Items != nil {
		list = append(list, s.Items)
	}
	for _, property := range s.Properties.all() {
		list = append(list, &property)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		list = append(list, s.AdditionalProperties.Schema)
	}
	for i := range s.AnyOf {
		list = append(list, &s.AnyOf[i])
	}
	return list
}

// find follows a pointer through the properties of a schema; nil if it leads to nothing.
func (c *schemaSet) find(s *Schema, pointer string) *Schema {
	s = c.resolve(s)
	if pointer == "" || s == nil {
		return s
	}
	for name := range strings.SplitSeq(pointer[1:], "/") {
		property, found := s.Properties.byName[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		if !found {
			return nil
		}
		if s = c.resolve(&property); s == nil {
			return nil
		}
	}
	return s
}

// isCompound reports whether a value may be an array or an object.
func (c *schemaSet) isCompound(s *Schema) bool {
	return c.mayBe(s, map[string]bool{}, "array", "object")
}

// isObject reports whether a value may be an object.
func (c *schemaSet) isObject(s *Schema) bool { return c.mayBe(s, map[string]bool{}, "object") }

// mayBe reports whether a value may have one of the types. The schemas that were seen were none of them.
func (c *schemaSet) mayBe(s *Schema, seen map[string]bool, types ...string) bool {
	if s.Ref != "" {
		target, found := c.shared.byName[s.Ref]
		if !found || seen[s.Ref] {
			return false
		}
		seen[s.Ref] = true
		return c.mayBe(&target, seen, types...)
	}
	return slices.ContainsFunc(types, func(t string) bool { return slices.Contains(s.Type, t) }) ||
		slices.ContainsFunc(s.AnyOf, func(part Schema) bool { return c.mayBe(&part, seen, types...) })
}

// isFile reports whether a value is a file.
func isFile(s *Schema) bool {
	return s.Format == "binary" && len(s.Type) == 1 && s.Type[0] == "string"
}

// raw returns a value as JSON.
func raw(v Value) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return json.RawMessage(v)
}
