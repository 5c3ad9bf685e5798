package documents

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/internal/providers/risk"
)

// Limits of the operations of GraphQL schemas.
const (
	// maxGraphQL is the length of the longest operation, and maxVariables that of its part before the selection.
	maxGraphQL   = 16 << 10
	maxVariables = maxGraphQL / 2
	// maxSelected is how many fields an operation requests, and maxSelectedDepth how many objects are within each other.
	// A connection and its nodes are one.
	maxSelected      = 150
	maxSelectedDepth = 3
	// maxFragments is how many types of an interface or a union get fields of their own.
	maxFragments = 12
	// maxScanned is how many fields of a type are looked at, and maxChildren how many of them may be objects.
	maxScanned, maxChildren = 250, 40
	// minShare is how many fields are requested of an object at least, as long as there are any left.
	minShare = 4
	// nestedItems is how many items are requested of a list that is not the result itself. Providers limit how many
	// objects a request can reach.
	nestedItems = 10
	// maxNestedLists is how many lists may be within each other.
	maxNestedLists = 2
)

// gqlSelector chooses the fields that an operation requests: all of the result first, then those of the objects in it,
// each of which gets a share.
type gqlSelector struct {
	// fields and bytes are what is left of the limits.
	fields, bytes int
	// secrets is true if secrets are requested: of an operation whose name says so, and whose risk shows it.
	secrets bool
	notes   []string
}

// gqlSelection is what is requested of an object.
type gqlSelection struct {
	on     *gqlType
	within *gqlSelection
	// level is how many objects are around it, with itself, and indent the same of lines of text. lists is how many lists
	// are around it.
	level, indent, lists int
	// lines is the length of the lines that begin and end it.
	lines int
	// fragment is true of the fields of one type among those of an interface or a union.
	fragment  bool
	typename  bool
	chosen    []*gqlChosen
	fragments []*gqlSelection
}

// gqlChosen is a field that is requested, and key its name in the response.
type gqlChosen struct {
	key       string
	field     *gqlField
	arguments string
	// of is nil for a scalar.
	of *gqlSelection
}

// text writes the operation of a field and returns what it selects; nil for a scalar. message is why there is none.
func (o *gqlOperation) text(arguments []*gqlField) (text string, selected *gqlSelection, notes []string,
	message string,
) {
	var out strings.Builder
	out.WriteString(o.kind + " " + o.field.name)
	passed := make([]string, len(arguments))
	for i, a := range arguments {
		out.WriteString([]string{"(", ", "}[min(i, 1)] + "$" + a.name + ": " + variableType(a))
		passed[i] = a.name + ": $" + a.name
	}
	if len(arguments) > 0 {
		out.WriteByte(')')
	}
	out.WriteString(" {\n  " + o.field.name)
	if len(arguments) > 0 {
		out.WriteString("(" + strings.Join(passed, ", ") + ")")
	}
	if out.Len() > maxVariables {
		return "", nil, nil, fmt.Sprintf("its arguments have more than %d bytes", maxVariables)
	}
	if o.field.of.kind.isComposite() {
		c := &gqlSelector{fields: maxSelected, bytes: maxGraphQL - out.Len() - 100,
			secrets: risk.NamesSecret(o.field.name)}
		selected = c.choose(o.field)
		notes = c.notes
		out.WriteString(" {\n")
		selected.write(&out)
		out.WriteString("  }")
	}
	out.WriteString("\n}\n")
	return out.String(), selected, notes, ""
}

// variableType is the type of the variable of an argument. One with a default need not be sent, so that it is not
// required.
func variableType(a *gqlField) string {
	if a.ref.nonNull && a.fallback {
		return strings.TrimSuffix(a.ref.String(), "!")
	}
	return a.ref.String()
}

// choose returns what is requested of the result of a field, which is no scalar.
func (c *gqlSelector) choose(f *gqlField) *gqlSelection {
	root := &gqlSelection{on: f.of, level: 1, indent: 2}
	if f.connection() != nil || f.ref.item != nil {
		root.lists = 1
	}
	level := []*gqlSelection{root}
	for depth := 1; depth <= maxSelectedDepth && len(level) > 0; depth++ {
		left, budget := c.fields, c.fields
		if depth < maxSelectedDepth {
			budget = budget * 2 / 3 // the rest is for the objects within
		}
		var next []*gqlSelection
		for i, sel := range level {
			share := max(minShare, (budget-(left-c.fields))/(len(level)-i))
			next = append(next, c.fill(sel, share)...)
		}
		// Single objects come first: each item of a list costs as much as one of them.
		slices.SortStableFunc(next, func(a, b *gqlSelection) int { return a.lists - b.lists })
		level = next
	}
	if root.prune() {
		root.typename = true
	}
	return root
}

// take reports whether there is room for a field with its text, and takes it.
func (c *gqlSelector) take(bytes int) bool {
	if c.fields == 0 || c.bytes < bytes {
		return false
	}
	c.fields--
	c.bytes -= bytes
	return true
}

// fill chooses the fields of an object, and returns the objects in it that may be requested, too.
func (c *gqlSelector) fill(sel *gqlSelection, share int) []*gqlSelection {
	if sel.within != nil && !c.take(sel.lines) {
		return nil
	}
	if sel.on.connection != nil {
		return c.fillConnection(sel, sel.on.connection, share)
	}
	return c.members(sel, share)
}

// fillConnection chooses the items of a connection, and whether there are more. The result itself also gets the cursor
// of the next page.
func (c *gqlSelector) fillConnection(sel *gqlSelection, connection *gqlConnection, share int) []*gqlSelection {
	page := c.child(sel, connection.pageInfo, connection.pageInfo.name)
	if !c.take(page.lines) {
		return nil
	}
	c.leaf(page, page.on.field("hasNextPage"), "hasNextPage")
	if sel.within == nil {
		c.leaf(page, page.on.field("endCursor"), "endCursor")
	}
	c.leaves(sel, 3, nil)
	node := c.child(sel, connection.list, connection.items)
	if connection.node != nil {
		if !c.take(node.lines) {
			return nil
		}
		c.leaves(node, 3, func(f *gqlField) bool { return f.name != "cursor" })
		node = c.child(node, connection.node, connection.node.name)
	}
	if !c.take(node.lines) {
		return nil
	}
	next := c.members(node, max(minShare, share-4))
	if !slices.ContainsFunc(node.chosen, func(f *gqlChosen) bool { return f.of == nil }) {
		c.typename(node)
	}
	return next
}

// child adds an object to a selection.
func (c *gqlSelector) child(sel *gqlSelection, f *gqlField, key string) *gqlSelection {
	child := &gqlSelection{on: f.of, within: sel, level: sel.level, indent: sel.indent + 1, lists: sel.lists}
	child.lines = 4*sel.indent + aliased(f, key) + len("(first: 10) {\n}\n")
	sel.chosen = append(sel.chosen, &gqlChosen{key: key, field: f, of: child})
	return child
}

// typename requests the name of the type of an object.
func (c *gqlSelector) typename(sel *gqlSelection) {
	if !sel.typename && c.take(len("__typename\n")+2*sel.indent) {
		sel.typename = true
	}
}

// members chooses fields of an object that is no connection.
func (c *gqlSelector) members(sel *gqlSelection, share int) []*gqlSelection {
	before := c.fields
	if sel.on.kind != gqlObject {
		c.typename(sel)
	}
	c.leaves(sel, share, nil)
	next := c.children(sel)
	fragments := c.fragments(sel)
	for i, of := range fragments {
		part := &gqlSelection{on: of, within: sel, level: sel.level, indent: sel.indent + 1, lists: sel.lists,
			fragment: true}
		if !c.take(4*sel.indent + len(of.name) + len("... on  {\n}\n")) {
			break
		}
		sel.fragments = append(sel.fragments, part)
		c.leaves(part, max(minShare, (share-(before-c.fields))/(len(fragments)-i)), nil)
		next = append(next, c.children(part)...)
	}
	return next
}

// fragments returns the types that get fields of their own.
func (c *gqlSelector) fragments(sel *gqlSelection) []*gqlType {
	of, many := sel.on, len(sel.on.possible) > maxFragments
	switch {
	case of.kind == gqlObject, of.kind == gqlInterface && sel.level > 1 && len(sel.chosen) > 0:
		return nil
	case many && (of.kind == gqlInterface || sel.level > 1):
		c.note(fmt.Sprintf("%s has %d types, so that the response has only the fields that all of them have", of.name,
			len(of.possible)))
		return nil
	case many:
		c.note(fmt.Sprintf("%s has %d types, of which only the first %d have fields in the response", of.name,
			len(of.possible), maxFragments))
	}
	return of.possible[:min(len(of.possible), maxFragments)]
}

func (c *gqlSelector) note(text string) {
	if len(c.notes) < 20 && !slices.Contains(c.notes, text) {
		c.notes = append(c.notes, text)
	}
}

// recurs reports whether an object of this type is around it, so that only its scalars are requested.
func (sel *gqlSelection) recurs() bool {
	for around := sel.within; around != nil; around = around.within {
		if around.on == sel.on {
			return true
		}
	}
	return false
}

// usual are names of fields by which people recognise an object. They come first where not all have room.
var usual = []string{"id", "name", "title", "key", "identifier", "number", "login", "email", "displayName", "state",
	"status", "type", "url", "field", "message", "code", "amount", "currency", "currencyCode", "value", "body", "text",
	"description", "totalCount", "createdAt", "updatedAt"}

// leaves chooses scalars and enumerations, at most share of them.
func (c *gqlSelector) leaves(sel *gqlSelection, share int, wanted func(*gqlField) bool) {
	choose := func(f *gqlField) {
		if f == nil || share <= 0 || wanted != nil && !wanted(f) {
			return
		}
		if t := f.of; t == nil || t.kind > gqlEnum || !c.secrets && t.mayBeText() && risk.NamesSecret(f.name) {
			return
		}
		if _, requestable := f.nested(); !requestable {
			return
		}
		if key := c.key(sel, f); key != "" && c.leaf(sel, f, key) {
			share--
		}
	}
	for _, name := range usual {
		choose(sel.on.field(name))
	}
	for i := 0; i < min(len(sel.on.fields), maxScanned) && share > 0; i++ {
		if f := &sel.on.fields[i]; !slices.Contains(usual, f.name) {
			choose(f)
		}
	}
}

// aliased is the length of the name of a field with the name that it gets in the response.
func aliased(f *gqlField, key string) int {
	if key == f.name {
		return len(key)
	}
	return len(key) + len(": ") + len(f.name)
}

// mayBeText reports whether a scalar can have a text.
func (t *gqlType) mayBeText() bool {
	return t.kind == gqlScalar && t.name != "Boolean" && t.name != "Int" && t.name != "Float"
}

// leaf chooses a scalar.
func (c *gqlSelector) leaf(sel *gqlSelection, f *gqlField, key string) bool {
	if !c.take(2*sel.indent + aliased(f, key) + len("\n")) {
		return false
	}
	sel.chosen = append(sel.chosen, &gqlChosen{key: key, field: f})
	return true
}

// children adds the objects in an object. They are empty.
func (c *gqlSelector) children(sel *gqlSelection) (next []*gqlSelection) {
	if sel.level >= maxSelectedDepth || sel.recurs() || c.fields == 0 {
		return nil
	}
	for i := 0; i < min(len(sel.on.fields), maxScanned) && len(next) < maxChildren; i++ {
		f := &sel.on.fields[i]
		if f.of == nil || !f.of.kind.isComposite() {
			continue
		}
		arguments, requestable := f.nested()
		many := f.ref.item != nil || f.connection() != nil
		key := c.key(sel, f)
		if !requestable || many && sel.lists >= maxNestedLists || key == "" {
			continue
		}
		child := c.child(sel, f, key)
		sel.chosen[len(sel.chosen)-1].arguments = arguments
		child.level++
		if many {
			child.lists++
		}
		next = append(next, child)
	}
	return next
}

// nested returns the arguments with which a field within the result is requested; false if it cannot be, or is
// deprecated.
func (f *gqlField) nested() (arguments string, requestable bool) {
	if f.deprecated || f.ref == nil {
		return "", false
	}
	for i := range f.arguments {
		a := &f.arguments[i]
		switch {
		case a.ref == nil:
			return "", false
		case a.name == "first" && a.ref.name == "Int" && !a.fallback && (f.ref.item != nil || f.connection() != nil):
			arguments = fmt.Sprintf("(first: %d)", nestedItems)
		case a.required():
			return "", false
		}
	}
	return arguments, true
}

// key returns the name that a field of a selection has in the response; empty if it cannot be requested there. Fields
// of the types of an interface or a union may have the same name and different types, which GraphQL does not accept in
// one response: the later one gets the name of its type, too. This depends on the types alone, because parts of an
// operation that have the same place in the response are merged.
func (c *gqlSelector) key(sel *gqlSelection, f *gqlField) string {
	if !sel.fragment {
		return f.name
	}
	around := sel.within.on
	if around.field(f.name) != nil {
		return "" // it is one of the fields that all have
	}
	other := firstWith(around, f.name)
	if other == nil || other.ref != nil && other.ref.String() == f.ref.String() {
		return f.name
	}
	key := f.name + "_" + sel.on.name
	if strings.Contains(sel.on.name, "_") || around.field(key) != nil || firstWith(around, key) != nil {
		return "" // the name could be that of another field
	}
	return key
}

// firstWith returns the field of a name of the first type that has one.
func firstWith(around *gqlType, name string) *gqlField {
	for _, of := range around.possible[:min(len(around.possible), maxFragments)] {
		if f := of.field(name); f != nil {
			return f
		}
	}
	return nil
}

// prune leaves out objects of which nothing is requested, and reports whether nothing is left.
func (sel *gqlSelection) prune() bool {
	sel.chosen = slices.DeleteFunc(sel.chosen, func(c *gqlChosen) bool { return c.of != nil && c.of.prune() })
	sel.fragments = slices.DeleteFunc(sel.fragments, (*gqlSelection).prune)
	return !sel.typename && len(sel.chosen) == 0 && len(sel.fragments) == 0
}

// write writes a selection as the text of an operation.
func (sel *gqlSelection) write(out *strings.Builder) {
	indent := strings.Repeat("  ", sel.indent)
	if sel.typename {
		out.WriteString(indent + "__typename\n")
	}
	for _, f := range sel.chosen {
		out.WriteString(indent)
		if f.key != f.field.name {
			out.WriteString(f.key + ": ")
		}
		out.WriteString(f.field.name + f.arguments)
		if f.of != nil {
			out.WriteString(" {\n")
			f.of.write(out)
			out.WriteString(indent + "}")
		}
		out.WriteByte('\n')
	}
	for _, part := range sel.fragments {
		out.WriteString(indent + "... on " + part.on.name + " {\n")
		part.write(out)
		out.WriteString(indent + "}\n")
	}
}
