package documents

import (
	"strings"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/actions"
)

// The extensions that say how a list is continued: of AutoRest, Speakeasy and Fern.
const (
	msPageable = "x-ms-pageable"
	speakeasy  = "x-speakeasy-pagination"
	fern       = "x-fern-pagination"
)

// stated reports whether an extension says how the list is continued.
func (*pager) stated(own jsonindex.Value) bool {
	for _, name := range []string{msPageable, speakeasy, fern} {
		if own.Get(name).Kind() == jsonindex.Object {
			return true
		}
	}
	return false
}

// asStated reads the extensions. It returns nil for one that does not fit the operation.
func (p *pager) asStated(own jsonindex.Value) *actions.Pagination {
	if x := own.Get(msPageable); x.Kind() == jsonindex.Object {
		return p.asPageable(x)
	}
	if x := own.Get(speakeasy); x.Kind() == jsonindex.Object {
		return p.asSpeakeasy(x)
	}
	return p.asFern(own.Get(fern))
}

// asPageable reads x-ms-pageable. Without the name of a link the list has one page.
func (p *pager) asPageable(x jsonindex.Value) *actions.Pagination {
	next, ok := x.Get("nextLinkName").Text()
	if !ok || next == "" || !p.get {
		return nil
	}
	item := x.Get("itemName").String()
	if item == "" {
		item = "value"
	}
	return &actions.Pagination{Type: actions.PagesByBodyLink, Items: pointerTo(item), Next: pointerTo(next)}
}

// escapePointer escapes what a JSON pointer has in the place of a name.
func escapePointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// pointerTo makes a JSON pointer of a name, or of names with dots between them.
func pointerTo(names string) string {
	escaped := escapePointer(names)
	if strings.HasPrefix(names, "@") { // @odata.nextLink is one name
		return "/" + escaped
	}
	return "/" + strings.ReplaceAll(escaped, ".", "/")
}

// pointerOf makes a JSON pointer of a JSONPath (RFC 9535) that has names only; false for any other.
func pointerOf(path, root string) (string, bool) {
	rest, ok := strings.CutPrefix(path, root)
	if !ok || strings.ContainsAny(rest, "[]*?()\"'/~ ") || rest != "" && rest[0] != '.' || strings.Contains(rest, "..") {
		return "", false
	}
	return strings.ReplaceAll(rest, ".", "/"), true
}

// property returns the property of a parameter; empty without one.
func (p *pager) property(name string) string {
	for _, q := range p.parameters {
		if q.usable && q.name == bare(name) {
			return q.property
		}
	}
	return ""
}

func (p *pager) asSpeakeasy(x jsonindex.Value) *actions.Pagination {
	inputs := map[string]string{}
	for in := range x.Get("inputs").Items() {
		inputs[in.Get("type").String()] = p.property(in.Get("name").String())
	}
	outputs := x.Get("outputs")
	items, ok := pointerOf(outputs.Get("results").String(), "$")
	if !ok {
		if !p.lists.found {
			return nil
		}
		items = p.lists.items
	}
	out := &actions.Pagination{Items: items, Size: inputs["limit"]}
	switch kind := x.Get("type").String(); {
	case kind == "cursor" && inputs["cursor"] != "":
		out.Type, out.Parameter = actions.PagesByCursor, inputs["cursor"]
		out.Next, ok = pointerOf(outputs.Get("nextCursor").String(), "$")
	case kind == "url":
		out.Type = actions.PagesByBodyLink
		out.Next, ok = pointerOf(outputs.Get("nextUrl").String(), "$")
	case kind == "offsetLimit" && inputs["page"] != "":
		out.Type, out.Parameter, out.First, ok = actions.PagesByNumber, inputs["page"], 1, true
	case kind == "offsetLimit" && inputs["offset"] != "":
		out.Type, out.Parameter, ok = actions.PagesByOffset, inputs["offset"], true
	default:
		return nil
	}
	if !ok {
		return nil
	}
	return out
}

func (p *pager) asFern(x jsonindex.Value) *actions.Pagination {
	items, ok := pointerOf(x.Get("results").String(), "$response")
	if !ok {
		return nil
	}
	request := func(name string) string {
		pointer, _ := pointerOf(x.Get(name).String(), "$request")
		return p.property(strings.TrimPrefix(pointer, "/"))
	}
	out := &actions.Pagination{Items: items}
	if out.Parameter = request("cursor"); out.Parameter != "" {
		out.Type = actions.PagesByCursor
		if out.Next, ok = pointerOf(x.Get("next_cursor").String(), "$response"); ok {
			return out
		}
		return nil
	}
	if out.Parameter = request("offset"); out.Parameter == "" {
		return nil
	}
	out.Type = actions.PagesByOffset
	if strings.Contains(strings.ToLower(out.Parameter), "page") {
		out.Type, out.First = actions.PagesByNumber, 1
	}
	out.More, _ = pointerOf(x.Get("has-next-page").String(), "$response")
	return out
}
