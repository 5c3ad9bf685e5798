package declared

import (
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/net/http/httpguts"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/outbound"
)

func pageTypes() []actions.PageType {
	return []actions.PageType{actions.PagesByLink, actions.PagesByBodyLink, actions.PagesByCursor, actions.PagesByOffset,
		actions.PagesByNumber}
}

// compileDefaultPages reads how lists usually continue.
func (c *compiler) compileDefaultPages(d *Pagination) {
	switch {
	case d == nil:
	case d.Text != "":
		c.add("pagination", "must be a mapping")
	case d.Parameter == "" && d.Size == "":
		c.add("pagination", "must name an input, parameter or size, by which actions with lists are recognised")
	default:
		p := pagination(d)
		c.checkPages("pagination", &p)
		c.pagination = &p
	}
}

func pagination(d *Pagination) actions.Pagination {
	return actions.Pagination{Type: actions.PageType(d.Type), Items: d.Items, Parameter: d.Parameter, Size: d.Size,
		MaxSize: d.MaxSize, Next: d.Next, NextOfLast: d.NextOfLast, More: d.More, First: d.First}
}

// pages says how the list of an action continues; nil if it does not. The usual way is that of the definition, or
// the one that a GraphQL operation shows.
func (c *compiler) pages(field string, a *Action, list []input, operation *graphQL) *actions.Pagination {
	usual := c.pagination
	if shown := operation.pages(list); shown != nil {
		usual = shown
	}
	has := func(name string) bool {
		return slices.ContainsFunc(list, func(in input) bool { return in.parameter.Property == name })
	}
	d := a.Pagination
	var p actions.Pagination
	switch {
	case d == nil && usual != nil && recognised(usual, has):
		p = *usual
	case d == nil:
		return nil
	case d.Text == none:
		return nil
	case d.Text != "":
		c.add(field, "must be a mapping or the text none")
		return nil
	case d.Type != "":
		p = pagination(d)
	case usual == nil:
		c.add(field+".type", "is missing, and the definition has no pagination")
		return nil
	default:
		p = changed(*usual, d)
	}
	before := len(c.problems)
	c.checkPages(field, &p)
	for _, f := range [][2]string{{"parameter", p.Parameter}, {"size", p.Size}} {
		if f[1] != "" && !has(f[1]) {
			c.add(field+"."+f[0], "is not an input of the action")
		}
	}
	if len(c.problems) == before {
		c.checkSize(field, &p, list)
		c.checkPointers(field, &p, a.Output)
	}
	return &p
}

// recognised reports whether an action has the inputs by which lists are recognised.
func recognised(p *actions.Pagination, has func(string) bool) bool {
	if p.Parameter != "" {
		return has(p.Parameter)
	}
	return has(p.Size)
}

// changed returns the usual pagination with the differences of an action.
func changed(p actions.Pagination, d *Pagination) actions.Pagination {
	for _, f := range []struct{ to, from *string }{{&p.Items, &d.Items}, {&p.Parameter, &d.Parameter}, {&p.Size, &d.Size},
		{&p.Next, &d.Next}, {&p.More, &d.More}} {
		if *f.from != "" {
			*f.to = *f.from
		}
	}
	if d.MaxSize != 0 {
		p.MaxSize = d.MaxSize
	}
	if d.First != 0 {
		p.First = d.First
	}
	p.NextOfLast = p.NextOfLast || d.NextOfLast
	return p
}

// checkPages checks pagination apart from the action.
func (c *compiler) checkPages(field string, p *actions.Pagination) {
	if !slices.Contains(pageTypes(), p.Type) {
		c.add(field+".type", "must be one of %s", joined(pageTypes()))
		return
	}
	byLink := p.Type == actions.PagesByLink || p.Type == actions.PagesByBodyLink
	needsNext := p.Type == actions.PagesByCursor || p.Type == actions.PagesByBodyLink
	for _, rule := range []struct {
		name, message string
		broken        bool
	}{
		{"parameter", "is not for links, which are followed as they are", byLink && p.Parameter != ""},
		{"parameter", "is missing: the input that asks for the next page", !byLink && p.Parameter == ""},
		{"next", "is missing: where the response has the cursor or the link", needsNext && p.Next == ""},
		{"next", "is for cursors and links in the body", !needsNext && p.Next != ""},
		{"next_of_last", "is for cursors", p.NextOfLast && p.Type != actions.PagesByCursor},
		{"first", "is for pages by number", p.First != 0 && p.Type != actions.PagesByNumber},
		{"first", "must be 0 or 1", p.First < 0 || p.First > 1},
		{"max_size", "must be 1 to 100000, and needs size", p.MaxSize < 0 || p.MaxSize > 100_000 ||
			p.MaxSize > 0 && p.Size == ""},
	} {
		if rule.broken {
			c.add(field+"."+rule.name, "%s", rule.message)
		}
	}
	for _, f := range [][2]string{{"items", p.Items}, {"next", p.Next}, {"more", p.More}} {
		if f[1] != "" && (f[1][0] != '/' || !isLine(f[1], maxPath)) {
			c.add(field+"."+f[0], "must be a JSON pointer")
		}
	}
}

// checkSize compares the size of pages with the limit of its input, which is used where there is no other.
func (c *compiler) checkSize(field string, p *actions.Pagination, list []input) {
	i := slices.IndexFunc(list, func(in input) bool { return in.parameter.Property == p.Size })
	if i < 0 {
		return
	}
	s := c.schemas.resolve(list[i].schema)
	if s == nil || s.Maximum == nil {
		return
	}
	limit, err := strconv.Atoi(string(s.Maximum))
	switch {
	case err != nil:
	case p.MaxSize == 0:
		p.MaxSize = limit
	case p.MaxSize != limit:
		c.add(field+".max_size", "is %d, but the maximum of %s is %d", p.MaxSize, p.Size, limit)
	}
}

// checkPointers checks that pointers lead to what they are for, as far as the output is described.
func (c *compiler) checkPointers(field string, p *actions.Pagination, output *Schema) {
	if output == nil {
		return
	}
	items := c.schemas.find(output, p.Items)
	if items == nil || !hasType(items, "array") {
		c.add(field+".items", "leads to no array in output")
		return
	}
	from := output
	if p.NextOfLast {
		from = items.Items
	}
	if p.Next != "" && from != nil {
		if next := c.schemas.find(from, p.Next); next == nil || !hasType(next, "string", "integer") {
			c.add(field+".next", "leads to no text or number in output")
		}
	}
	if p.More != "" {
		if more := c.schemas.find(output, p.More); more == nil || !hasType(more, "boolean") {
			c.add(field+".more", "leads to no boolean in output")
		}
	}
}

// compileIdempotency reads how the provider recognises calls.
func (c *compiler) compileIdempotency(d *Idempotency) {
	if d == nil {
		return
	}
	if d.Text != "" {
		c.add("idempotency", "must be a mapping")
		return
	}
	c.checkKeyHeader("idempotency.header", d.Header)
	for i, method := range d.Methods {
		if !slices.Contains(methods(), method) || !hasBody(method) || slices.Index(d.Methods, method) != i {
			c.add(at("idempotency.methods", i), "must be one of POST, PUT, PATCH, DELETE, and not be listed twice")
		}
	}
	c.idempotency, c.keyed = &actions.Idempotency{Header: d.Header}, d.Methods
	if len(c.keyed) == 0 {
		c.keyed = []string{http.MethodPost}
	}
}

// key says how a call of an action is recognised; nil if it is not.
func (c *compiler) key(field string, a *Action) *actions.Idempotency {
	d := a.Idempotency
	switch {
	case d == nil && slices.Contains(c.keyed, a.Method):
		return c.idempotency
	case d == nil || d.Text == none:
		return nil
	case d.Text != "":
		c.add(field, "must be a mapping or the text none")
		return nil
	}
	if d.Methods != nil {
		c.add(field+".methods", "is for the definition, not for one action")
	}
	c.checkKeyHeader(field+".header", d.Header)
	return &actions.Idempotency{Header: d.Header}
}

func (c *compiler) checkKeyHeader(field, name string) {
	if !httpguts.ValidHeaderFieldName(name) || isOwnHeader(name) || !outbound.AcceptsHeader(c.engine, name) {
		c.add(field, "must be the name of a header that neither carries credentials nor is set by the definition")
	}
}
