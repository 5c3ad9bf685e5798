package documents

import (
	"slices"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// lists is what a response shows of the list in it.
type lists struct {
	// found is true if it is clear which array has the items; items is its pointer and item the schema of one.
	found bool
	items string
	item  jsonindex.Value
	// scalars are members outside the list, the nearest ones first.
	scalars []member
}

// member is a member of a response that is neither an array nor an object.
type member struct {
	pointer string
	// name is as bare has it, and parent that of the object; empty for that of the response itself.
	name, parent string
	// inPaging is true within an object that is about pages.
	inPaging bool
	kind     string
	schema   jsonindex.Value
}

func (m *member) words() string { return strings.ToLower(m.schema.Get("description").String()) }

// isURL reports whether the member is a URL.
func (m *member) isURL() bool {
	format := m.schema.Get("format").String()
	if strings.HasPrefix(format, "uri") || format == "url" {
		return true
	}
	example := m.schema.Get("example").String()
	if strings.HasPrefix(example, "http") || strings.HasPrefix(example, "/") {
		return true
	}
	words := m.words()
	return strings.Contains(words, "url") || strings.Contains(words, "uri") || strings.Contains(words, "link")
}

// Limits of what is read of a response.
const (
	maxListMembers = 400
	maxWithin      = 4
	// maxSteps is how many parts of schemas are looked at in a document: some 20 times those of the largest known one.
	maxSteps = 3_000_000
)

// step counts a part of a schema. It reports false if there were too many, so that a document whose operations share
// enormous schemas takes no longer.
func (d *Document) step() bool {
	d.steps++
	return d.steps <= maxSteps
}

// kind returns the type of a schema; of one that may be null the other type, and empty for any value.
func (d *Document) kind(v jsonindex.Value) string {
	v = d.plainSchema(v)
	if kind, ok := v.Get("type").Text(); ok {
		return kind
	}
	found := ""
	for t := range v.Get("type").Items() {
		if kind := t.String(); kind != "null" {
			if found != "" {
				return ""
			}
			found = kind
		}
	}
	switch {
	case found != "":
		return found
	case v.Get("items").Exists():
		return "array"
	case v.Get("properties").Exists(), v.Get("allOf").Exists():
		return "object"
	default:
		return ""
	}
}

// plainSchema follows references, and alternatives of which all but one are null.
func (d *Document) plainSchema(v jsonindex.Value) jsonindex.Value {
	for range maxReferences {
		v = d.resolve(v)
		var only jsonindex.Value
		count := 0
		for _, name := range []string{"anyOf", "oneOf"} {
			for part := range v.Get(name).Items() {
				if !d.step() {
					return jsonindex.Value{}
				}
				if d.resolve(part).Get("type").String() != "null" {
					only = part
					count++
				}
			}
		}
		for part := range v.Get("allOf").Items() {
			if !d.step() {
				return jsonindex.Value{}
			}
			if shape := d.resolve(part); hasShape(shape) { // others describe the one that has
				only = part
				count++
			}
		}
		if count != 1 || v.Get("properties").Exists() || v.Get("type").Exists() {
			return v
		}
		v = only
	}
	return jsonindex.Value{}
}

// hasShape reports whether a schema says what values it is of.
func hasShape(v jsonindex.Value) bool {
	for _, name := range []string{"type", "properties", "items", "allOf", "anyOf", "oneOf"} {
		if v.Get(name).Exists() {
			return true
		}
	}
	return false
}

// eachMember calls a function with the members of an object's schema, and those of what it is made of. It stops where
// the function returns false.
func (d *Document) eachMember(v jsonindex.Value, depth int, visit func(name string, schema jsonindex.Value) bool) bool {
	v = d.plainSchema(v)
	if depth > maxWithin || !d.step() {
		return true
	}
	for part := range v.Get("allOf").Items() {
		if !d.eachMember(part, depth+1, visit) {
			return false
		}
	}
	for name, schema := range v.Get("properties").Members() {
		if !d.step() || !visit(name, schema) {
			return false
		}
	}
	return true
}

// hasMember reports whether an object has a member.
func (d *Document) hasMember(v jsonindex.Value, want string) bool {
	found := false
	d.eachMember(v, 0, func(name string, _ jsonindex.Value) bool {
		found = found || name == want
		return !found
	})
	return found
}

// mayLink reports whether the nearest members of a response suggest a URL of the next page.
func (d *Document) mayLink(v jsonindex.Value) bool {
	found := false
	d.eachMember(v, 0, func(name string, _ jsonindex.Value) bool {
		name = bare(name)
		found = found || name == "next" || name == "links" || name == "paging" || name == "pagination" || name == "meta" ||
			slices.Contains(linkNames, name)
		return !found
	})
	return found
}

// The names of objects that are about pages, and of those around the data.
func isPaging(name string) bool {
	return slices.Contains([]string{"meta", "metadata", "pagination", "paging", "page", "pageinfo", "responsemetadata",
		"links", "cursors", "pages", "paginginfo", "pagingmetadata", "pageinformation", "nextpage", "next", "paginationinfo",
		"paginationmetadata", "pagingdetails", "pagedata", "listmetadata", "resultinfo"}, name)
}

func isWrapper(name string) bool {
	return slices.Contains([]string{"data", "result", "results", "response", "embedded", "payload", "d"}, name)
}

// list is an array of a response.
type list struct {
	pointer, name string
	depth         int
	item          jsonindex.Value
	objects       bool
}

// listsOf reads the schema of a response.
func (d *Document) listsOf(schema jsonindex.Value, path string) lists {
	if d.kind(schema) == "array" {
		return lists{found: true, item: d.plainSchema(schema).Get("items")}
	}
	var out lists
	var arrays []list
	type object struct {
		schema                jsonindex.Value
		pointer, name, parent string
		depth                 int
		inPaging              bool
	}
	queue := []object{{schema: schema}}
	for count := 0; len(queue) > 0; queue = queue[1:] {
		o := queue[0]
		d.eachMember(o.schema, 0, func(name string, value jsonindex.Value) bool {
			if count++; count > maxListMembers || len(name) > maxTag {
				return count <= maxListMembers
			}
			plain, pointer := bare(name), o.pointer+"/"+escapePointer(name)
			switch kind := d.kind(value); {
			case kind == "array" && !o.inPaging:
				item := d.plainSchema(value).Get("items")
				arrays = append(arrays, list{pointer, plain, o.depth, item, d.kind(item) == "object"})
			case kind == "object" && o.depth < maxWithin-1 && (isPaging(plain) || isWrapper(plain)):
				queue = append(queue, object{value, pointer, plain, o.name, o.depth + 1, o.inPaging || isPaging(plain)})
			case kind == "string", kind == "integer", kind == "number", kind == "boolean":
				parent := o.name
				out.scalars = append(out.scalars, member{pointer, plain, parent, o.inPaging, kind, d.plainSchema(value)})
			}
			return true
		})
	}
	out.choose(arrays, path)
	return out
}

// choose chooses the array with the items.
func (l *lists) choose(arrays []list, path string) {
	if len(arrays) == 0 {
		return
	}
	depth := arrays[0].depth // the nearest ones are first
	far := slices.IndexFunc(arrays, func(a list) bool { return a.depth > depth })
	if far > 0 {
		arrays = arrays[:far]
	}
	resource := resourceOf(path)
	arrays = slices.DeleteFunc(arrays, func(a list) bool {
		return a.name != resource && slices.Contains([]string{"errors", "messages", "warnings", "links", "included",
			"errordetails", "notifications", "validationerrors"}, a.name)
	})
	take := func(a list) { l.found, l.items, l.item = true, a.pointer, a.item }
	if len(arrays) == 1 {
		take(arrays[0])
		return
	}
	for _, name := range append([]string{resource}, "data", "items", "results", "values", "value", "records",
		"entries", "list", "rows") {
		for _, a := range arrays {
			if a.name == name && name != "" {
				take(a)
				return
			}
		}
	}
	var objects []list
	for _, a := range arrays {
		if a.objects {
			objects = append(objects, a)
		}
	}
	if len(objects) == 1 {
		take(objects[0])
	}
}

// resourceOf returns the last word of a path that is no parameter.
func resourceOf(path string) string {
	segments := strings.Split(requested(path), "/")
	for _, s := range slices.Backward(segments) {
		if s != "" && !strings.Contains(s, "{") {
			name, _, _ := strings.Cut(s, ".")
			return bare(name)
		}
	}
	return ""
}
