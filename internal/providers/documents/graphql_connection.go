package documents

import (
	"slices"

	"sallyport/internal/providers/actions"
)

// gqlConnection is a list with cursors, as the specification of Relay's connections defines it.
type gqlConnection struct {
	// items is the name of the list: that of nodes, or of edges with a node each.
	items          string
	pageInfo, list *gqlField
	// node is the field of an edge; nil for nodes.
	node *gqlField
}

// connection returns how the value of a field is a connection; nil if it is none.
func (f *gqlField) connection() *gqlConnection {
	if f.of == nil || f.ref.item != nil {
		return nil
	}
	return f.of.connection
}

// asConnection returns how a type is a connection; nil if it is none.
func (t *gqlType) asConnection() *gqlConnection {
	if t.kind != gqlObject && t.kind != gqlInterface {
		return nil
	}
	c := &gqlConnection{pageInfo: t.field("pageInfo")}
	if !c.pageInfo.isObject(false) || !c.pageInfo.of.field("hasNextPage").isScalar() ||
		!c.pageInfo.of.field("endCursor").isScalar() {
		return nil
	}
	if c.items, c.list = "nodes", t.field("nodes"); c.list.isObject(true) {
		return c
	}
	if c.items, c.list = "edges", t.field("edges"); !c.list.isObject(true) {
		return nil
	}
	if c.node = c.list.of.field("node"); !c.node.isObject(false) {
		return nil
	}
	return c
}

// isObject reports whether a field is an object, or a list of them, that can be requested without arguments.
func (f *gqlField) isObject(list bool) bool {
	return f.isPlain() && f.of.kind.isComposite() && (f.ref.item != nil) == list
}

// isScalar is isObject for a scalar.
func (f *gqlField) isScalar() bool { return f.isPlain() && f.of.kind <= gqlEnum && f.ref.item == nil }

func (f *gqlField) isPlain() bool {
	return f != nil && f.of != nil && !f.deprecated &&
		!slices.ContainsFunc(f.arguments, func(a gqlField) bool { return a.ref == nil || a.required() })
}

// pagination says how the list of a field is continued, if it is a connection as Relay defines it.
func (f *gqlField) pagination(properties []field) *actions.Pagination {
	c := f.connection()
	if c == nil {
		return nil
	}
	p := &actions.Pagination{Type: actions.PagesByCursor, Items: "/data/" + f.name + "/" + c.items,
		Next: "/data/" + f.name + "/pageInfo/endCursor", More: "/data/" + f.name + "/pageInfo/hasNextPage"}
	for i := range properties {
		switch properties[i].parameter.Name {
		case "after":
			p.Parameter = properties[i].parameter.Property
		case "first":
			p.Size = properties[i].parameter.Property
		}
	}
	if p.Parameter == "" || p.Size == "" {
		return nil
	}
	return p
}
