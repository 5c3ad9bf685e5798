package toolformat

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"sallyport/internal/platform/jsonindex"
)

// types is a set of types of values.
type types uint8

const (
	tNull types = 1 << iota
	tBoolean
	tInteger
	// tFraction are numbers that are no integers.
	tFraction
	tString
	tArray
	tObject
	tNumber = tInteger | tFraction
	tAny    = tNull | tBoolean | tNumber | tString | tArray | tObject
)

// kinds are the types that are written apart, in the order in which they are written.
func kinds() []types { return []types{tObject, tArray, tString, tNumber, tBoolean} }

func typeOf(name string) types {
	switch name {
	case "null":
		return tNull
	case "boolean":
		return tBoolean
	case "integer":
		return tInteger
	case "number":
		return tNumber
	case "string":
		return tString
	case "array":
		return tArray
	case "object":
		return tObject
	default:
		return 0
	}
}

// names returns the names of the types, as JSON Schema has them.
func (t types) names() (names []string) {
	for _, kind := range append(kinds(), tNull) {
		if t&kind != 0 {
			names = append(names, (t & kind).name())
		}
	}
	return names
}

func (t types) name() string {
	switch {
	case t&tObject != 0:
		return "object"
	case t&tArray != 0:
		return "array"
	case t&tString != 0:
		return "string"
	case t&tFraction != 0:
		return "number"
	case t&tInteger != 0:
		return "integer"
	case t&tBoolean != 0:
		return "boolean"
	default:
		return "null"
	}
}

// typesOfValue returns the type of a value.
func typesOfValue(v jsonindex.Value) types {
	switch v.Kind() {
	case jsonindex.Null:
		return tNull
	case jsonindex.Bool:
		return tBoolean
	case jsonindex.Number:
		if f, ok := number(v); ok && f == math.Trunc(f) {
			return tInteger
		}
		return tFraction
	case jsonindex.String:
		return tString
	case jsonindex.Array:
		return tArray
	case jsonindex.Object:
		return tObject
	case jsonindex.Absent:
	}
	return 0
}

func number(v jsonindex.Value) (float64, bool) {
	if v.Kind() != jsonindex.Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw()), 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// bound is a limit of numbers as it stands in the text.
type bound struct {
	raw   []byte
	value float64
}

// property is a member of an object.
type property struct {
	name     string
	schema   schema
	required bool
}

// group are alternatives, of which a value fits at least one, or exactly one.
type group struct {
	exact    bool
	branches []jsonindex.Value
}

// node is what a value must be, with all parts of its schema put together.
type node struct {
	parts       schema
	types       types
	description string
	format      string
	pattern     string
	// enum are the values, each once; nil for no such list.
	enum    []jsonindex.Value
	initial jsonindex.Value
	// minimum and the others are nil where there is none.
	minimum, maximum, above, below *bound
	multipleOf                     jsonindex.Value
	minLength, maxLength           *int64
	minItems, maxItems             *int64
	minProperties, maxProperties   *int64
	unique, deprecated             bool
	items                          schema
	prefix                         []jsonindex.Value
	properties                     []property
	required                       []string
	// more is what other members must fit: nil for any value. closed is true if there are none.
	more   schema
	closed bool
	// stated is true if other members were mentioned.
	stated bool
	groups []group
	nots   []jsonindex.Value
	// others are keywords that restrict a value in addition to one of the same name.
	others []other
	// lost is true if something could not be read.
	lost bool
	// named are the properties by name, once they were asked for.
	named map[string]*property
}

// byName returns the properties by name.
func (n *node) byName() map[string]*property {
	if n.named == nil {
		n.named = make(map[string]*property, len(n.properties))
		for i := range n.properties {
			n.named[n.properties[i].name] = &n.properties[i]
		}
	}
	return n.named
}

// other is a keyword with its value.
type other struct {
	name string
	v    jsonindex.Value
}

func newNode() *node { return &node{types: tAny} }

// never reports whether no value fits.
func (n *node) never() bool { return n.types == 0 }

// any reports whether all values may fit, so that nothing can be said about them.
func (n *node) any() bool { return n.types == tAny && n.enum == nil && len(n.groups) == 0 }

// keywords adds what one schema says about a value itself.
func (n *node) keywords(v jsonindex.Value) {
	if n.description == "" {
		n.description = describe(v)
	}
	n.types &= declaredTypes(v)
	n.values(v)
	if format := v.Get("format").String(); n.format == "" {
		n.format = format
	}
	if pattern := v.Get("pattern"); pattern.Kind() == jsonindex.String {
		if n.pattern != "" && n.pattern != pattern.String() {
			n.others = append(n.others, other{"pattern", pattern})
		} else {
			n.pattern = pattern.String()
		}
	}
	if of := v.Get("multipleOf"); of.Kind() == jsonindex.Number {
		if n.multipleOf.Exists() && !bytes.Equal(n.multipleOf.Raw(), of.Raw()) {
			n.others = append(n.others, other{"multipleOf", of})
		} else if f, ok := number(of); ok && f > 0 {
			n.multipleOf = of
		}
	}
	n.minimum = tighter(n.minimum, v.Get("minimum"), true)
	n.above = tighter(n.above, v.Get("exclusiveMinimum"), true)
	n.maximum = tighter(n.maximum, v.Get("maximum"), false)
	n.below = tighter(n.below, v.Get("exclusiveMaximum"), false)
	n.minLength, n.maxLength = most(n.minLength, v.Get("minLength")), least(n.maxLength, v.Get("maxLength"))
	n.minItems, n.maxItems = most(n.minItems, v.Get("minItems")), least(n.maxItems, v.Get("maxItems"))
	n.minProperties = most(n.minProperties, v.Get("minProperties"))
	n.maxProperties = least(n.maxProperties, v.Get("maxProperties"))
	n.unique = n.unique || v.Get("uniqueItems").Bool()
	n.deprecated = n.deprecated || v.Get("deprecated").Bool()
	if initial := v.Get("default"); initial.Exists() && !n.initial.Exists() {
		n.initial = initial
	}
	n.elements(v)
	if not := v.Get("not"); not.Kind() == jsonindex.Object || not.Kind() == jsonindex.Bool {
		n.nots = append(n.nots, not)
	}
}

func declaredTypes(v jsonindex.Value) types {
	declared := v.Get("type")
	set := typeOf(declared.String())
	for t := range declared.Items() {
		set |= typeOf(t.String())
	}
	if set == 0 {
		return tAny
	}
	return set
}

// maxEnum is how many values of an enum are read.
const maxEnum = 2000

// values adds enum and const.
func (n *node) values(v jsonindex.Value) {
	if enum := v.Get("enum"); enum.Kind() == jsonindex.Array {
		var values []jsonindex.Value
		seen := map[string]bool{}
		for value := range enum.Items() {
			if key := compact(value); !seen[key] && len(values) < maxEnum {
				seen[key] = true
				values = append(values, value)
			}
		}
		n.restrict(values)
	}
	if constant := v.Get("const"); constant.Exists() {
		n.restrict([]jsonindex.Value{constant})
	}
}

// restrict leaves those of the values that are also in a list.
func (n *node) restrict(values []jsonindex.Value) {
	if n.enum == nil {
		n.enum = append([]jsonindex.Value{}, values...)
		return
	}
	in := map[string]bool{}
	for _, v := range values {
		in[compact(v)] = true
	}
	n.enum = slices.DeleteFunc(n.enum, func(v jsonindex.Value) bool { return !in[compact(v)] })
}

// compact returns the text of a value without white space.
func compact(v jsonindex.Value) string {
	var out bytes.Buffer
	if err := json.Compact(&out, v.Raw()); err != nil {
		return "null" // the syntax was checked
	}
	return out.String()
}

func tighter(have *bound, v jsonindex.Value, lower bool) *bound {
	f, ok := number(v)
	if !ok || have != nil && (lower && f <= have.value || !lower && f >= have.value) {
		return have
	}
	return &bound{v.Raw(), f}
}

func most(have *int64, v jsonindex.Value) *int64 {
	if n, ok := v.Int(); ok && n >= 0 && (have == nil || n > *have) {
		return &n
	}
	return have
}

func least(have *int64, v jsonindex.Value) *int64 {
	if n, ok := v.Int(); ok && n >= 0 && (have == nil || n < *have) {
		return &n
	}
	return have
}

// elements adds what a schema says about the items of an array.
func (n *node) elements(v jsonindex.Value) {
	items, first := v.Get("items"), v.Get("prefixItems")
	if first.Kind() == jsonindex.Array {
		if n.prefix != nil || n.items != nil {
			n.lost = true
		} else {
			for item := range first.Items() {
				n.prefix = append(n.prefix, item)
			}
		}
	} else if n.prefix != nil && items.Exists() {
		n.lost = true
	}
	if items.Kind() == jsonindex.Object || items.Kind() == jsonindex.Bool {
		n.items = n.items.with(part{v: items})
	}
}

// alternatives adds anyOf and oneOf.
func (n *node) alternatives(v jsonindex.Value) {
	for _, name := range []string{"anyOf", "oneOf"} {
		list := v.Get(name)
		if list.Kind() != jsonindex.Array {
			continue
		}
		g := group{exact: name == "oneOf"}
		for branch := range list.Items() {
			g.branches = append(g.branches, branch)
		}
		if len(g.branches) > 0 {
			n.groups = append(n.groups, g)
		}
	}
}

// members puts the members of an object together, from all parts, and completes what follows from the values.
func (n *node) members() {
	at := map[string]int{}
	needed := map[string]bool{}
	for _, p := range n.parts {
		for name := range p.v.Get("properties").Members() {
			if _, known := at[name]; !known {
				at[name] = len(n.properties)
				n.properties = append(n.properties, property{name: name})
			}
		}
		for item := range p.v.Get("required").Items() {
			if name, ok := item.Text(); ok && !needed[name] {
				needed[name] = true
				n.required = append(n.required, name)
			}
		}
	}
	for _, name := range n.required {
		if _, known := at[name]; !known {
			at[name] = len(n.properties)
			n.properties = append(n.properties, property{name: name})
		}
	}
	for _, p := range n.parts {
		n.partMembers(p.v)
	}
	kept := n.properties[:0]
	for _, p := range n.properties {
		p.required = needed[p.name]
		if !forbidden(p.schema) {
			kept = append(kept, p)
		} else if p.required {
			n.types &^= tObject
		}
	}
	n.properties = kept
	if n.enum != nil {
		n.enum = slices.DeleteFunc(n.enum, func(v jsonindex.Value) bool { return typesOfValue(v)&n.types == 0 })
		var of types
		for _, v := range n.enum {
			if of |= typesOfValue(v); typesOfValue(v) == tInteger {
				of |= n.types & tNumber
			}
		}
		n.types &= of
	}
}

// partMembers adds what one schema says about members: those that it does not name fit its additionalProperties.
func (n *node) partMembers(v jsonindex.Value) {
	if v.Kind() != jsonindex.Object {
		return
	}
	own, more := v.Get("properties"), v.Get("additionalProperties")
	limited := more.Kind() == jsonindex.Object || more.Kind() == jsonindex.Bool
	for i := range n.properties {
		p := &n.properties[i]
		if named := own.Get(p.name); named.Exists() {
			p.schema = p.schema.with(part{v: named})
		} else if limited {
			p.schema = p.schema.with(part{v: more})
		}
	}
	if limited {
		n.stated = true
		n.more = n.more.with(part{v: more})
		n.closed = n.closed || more.Kind() == jsonindex.Bool && !more.Bool()
	}
}

// forbidden reports whether a schema has the part false.
func forbidden(s schema) bool {
	for _, p := range s {
		if p.v.Kind() == jsonindex.Bool && !p.v.Bool() {
			return true
		}
	}
	return false
}
