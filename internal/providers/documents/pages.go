package documents

import (
	"net/http"
	"slices"
	"strings"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// pages says how the list that an operation returns is continued, where the document shows it with certainty: by a
// statement, or by a parameter together with a response that fits it. It is nil for any other operation.
func (d *Document) pages(o *operation, a *actions.Action, fields []field) *actions.Pagination {
	response, schema := d.success(o.own)
	if a.Method != http.MethodGet && a.Method != http.MethodPost {
		return nil
	}
	p := pager{d: d, response: response, get: a.Method == http.MethodGet}
	bodies := 0
	for i := range fields {
		q := d.pageParameter(&fields[i], a.Method)
		if fields[i].parameter.Place == actions.InBody { // which a POST is more likely to read
			p.parameters = slices.Insert(p.parameters, bodies, q)
			bodies++
			continue
		}
		p.parameters = append(p.parameters, q)
	}
	stated, paging := p.stated(o.own), p.mayPage(schema)
	if !stated && !paging || !schema.Exists() {
		return nil
	}
	p.lists = d.listsOf(schema, o.path)
	var out *actions.Pagination
	if stated {
		out = p.asStated(o.own)
	} else {
		out = p.find()
	}
	if out == nil || !p.get && !seemsToRead(a) {
		return nil
	}
	p.addSize(out)
	return out
}

// pager finds how a list is continued.
type pager struct {
	d          *Document
	get        bool
	response   jsonindex.Value
	parameters []pageParameter
	lists      lists
}

// pageParameter is a parameter as lists use it.
type pageParameter struct {
	property string
	// name is in lower case, without anything but letters and digits.
	name string
	// description is that of the parameter.
	description string
	schema      jsonindex.Value
	integral    bool
	text        bool
	usable      bool
}

func (d *Document) pageParameter(f *field, method string) pageParameter {
	place := f.parameter.Place
	out := pageParameter{property: f.parameter.Property, name: bare(f.parameter.Name), description: f.description,
		schema: d.resolve(f.schema), usable: place == actions.InQuery || method == http.MethodPost && place == actions.InBody}
	if !out.usable {
		return out
	}
	kind := d.kind(out.schema)
	out.integral, out.text = kind == "integer" || kind == "number", kind == "string"
	return out
}

// words returns what the document says about the parameter, in lower case.
func (p *pageParameter) words() string {
	return strings.ToLower(p.description + " " + p.schema.Get("description").String())
}

// bare returns a name in lower case, without anything but letters and digits.
func bare(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) < 0 {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return -1
		}
	}, name)
}

// The names of parameters and members, as bare has them.
var (
	// cursorMembers has, by the parameter that takes a cursor, the members of a response that may have the next one.
	cursorMembers = map[string][]string{ //nolint:gochecknoglobals // a constant
		"cursor": {"nextcursor", "endcursor", "cursornext", "nextpagecursor", "nextpagetoken", "nextpage", "next", "cursor",
			"cursorsafter", "after"},
		"pagetoken":         {"nextpagetoken", "nexttoken", "nextpage"},
		"nextpagetoken":     {"nextpagetoken"},
		"nexttoken":         {"nexttoken"},
		"nextcursor":        {"nextcursor"},
		"starttoken":        {"nexttoken", "nextstarttoken"},
		"paginationtoken":   {"nexttoken", "paginationtoken", "nextpaginationtoken"},
		"continuationtoken": {"continuationtoken", "nextcontinuationtoken", "continuation"},
		"continuation":      {"continuation", "nextcontinuation", "continuationtoken"},
		"after":             {"nextcursor", "endcursor", "after", "nextafter", "next"},
		"aftercursor":       {"nextcursor", "endcursor", "aftercursor"},
		"startcursor":       {"nextcursor", "nextstartcursor"},
		"startingafter":     {"nextstartingafter"},
		"marker":            {"nextmarker"},
		"pagemarker":        {"nextpagemarker", "nextmarker"},
		"scrollid":          {"scrollid", "nextscrollid"},
		"scrolltoken":       {"scrolltoken", "nextscrolltoken"},
		"bookmark":          {"bookmark", "nextbookmark"},
		"pagecursor":        {"nextpagecursor", "nextcursor"},
		"pagestate":         {"pagestate", "nextpagestate"},
		"position":          {"nextposition"},
		"offset":            {"nextoffset", "offset"},
		"continue":          {"continue"},
	}
	sizeNames = []string{"perpage", "pagesize", "limit", "maxresults", "size", "count", "top", "take", "first", "maxitems",
		"pagelimit", "itemsperpage", "resultsperpage", "numresults", "pagelen", "maxrecords", "recordsperpage", "rows", "max",
		"pagesizelimit", "maxkeys", "numitems", "maxpagesize", "perpagecount", "pagemaxsize", "num", "batchsize"}
	pageNames   = []string{"page", "pagenumber", "pageno", "pagenum", "pageindex", "currentpage", "pagenr"}
	offsetNames = []string{"offset", "skip", "startat", "start", "startindex", "from", "pageoffset", "first"}
	moreNames   = []string{"hasmore", "more", "hasnext", "hasnextpage", "morerecords", "hasmorerecords", "hasmoreresults",
		"istruncated", "truncated", "hasmoreitems"}
	linkNames = []string{"nextlink", "odatanextlink", "nexturl", "nextpageurl", "nexthref", "nextpageuri", "nexturi",
		"nextpagelink", "nextpagepath"}
)

// mayPage reports whether anything suggests that the operation continues a list, before its response is read.
func (p *pager) mayPage(schema jsonindex.Value) bool {
	for _, q := range p.parameters {
		if q.usable && (cursorMembers[q.name] != nil || slices.Contains(pageNames, q.name) ||
			slices.Contains(offsetNames, q.name) || strings.HasPrefix(q.name, "next")) {
			return true
		}
	}
	return p.get && schema.Exists() && (p.hasLink() || p.d.mayLink(schema))
}

// find looks for the ways in which lists are continued, the most certain first.
func (p *pager) find() *actions.Pagination {
	if !p.lists.found {
		return nil
	}
	for _, way := range []func() *actions.Pagination{p.byCursor, p.byBodyLink, p.byLastItem, p.byLink, p.byNumber,
		p.byOffset} {
		if out := way(); out != nil {
			out.Items = p.lists.items
			return out
		}
	}
	return nil
}

// more returns the pointer to the member that says whether there are more pages.
func (p *pager) more() string {
	for _, s := range p.lists.scalars {
		if s.kind == "boolean" && slices.Contains(moreNames, s.name) {
			return s.pointer
		}
	}
	return ""
}

// byCursor finds a parameter and the member of the response that has its next value.
func (p *pager) byCursor() *actions.Pagination {
	for i := range p.parameters {
		q := &p.parameters[i]
		members, known := cursorMembers[q.name]
		switch {
		case !q.usable || !q.text && !q.integral:
			continue
		case !known && strings.HasPrefix(q.name, "next"):
			members = []string{q.name}
		case !known:
			members = []string{"next" + q.name}
		}
		for _, m := range members {
			for _, s := range p.lists.scalars {
				if s.name == m && p.isNext(q, &s) {
					return &actions.Pagination{Type: actions.PagesByCursor, Parameter: q.property, Next: s.pointer, More: p.more()}
				}
			}
		}
	}
	return nil
}

// isNext reports whether a member has the next value of a parameter, and not that of the request.
func (p *pager) isNext(q *pageParameter, s *member) bool {
	if s.kind != "string" && (s.kind != "integer" || !q.integral) || s.isURL() {
		return false
	}
	switch {
	case q.integral && slices.Contains(pageNames, q.name):
		return false // pages by number
	case strings.HasPrefix(s.name, "next"), strings.HasPrefix(s.name, "end"), strings.HasPrefix(s.parent, "next"):
		return s.name != "next" || s.inPaging || strings.Contains(s.words(), "cursor") || strings.Contains(s.words(), "token")
	case s.name == "after":
		return s.parent == "cursors" || s.parent == "pageinfo"
	case s.name == q.name && q.name != "offset":
		// A member of the parameter's name can be the one that was sent.
		return p.more() != "" || strings.Contains(s.words(), "next") || strings.Contains(q.words(), "previous re") ||
			slices.Contains([]string{"continuationtoken", "continue", "scrollid", "bookmark", "paginationtoken", "pagestate"},
				s.name)
	default:
		return s.name == "cursornext"
	}
}

// byLastItem finds a cursor that is the id of the last item.
func (p *pager) byLastItem() *actions.Pagination {
	more := p.more()
	if more == "" || !p.d.hasMember(p.lists.item, "id") {
		return nil
	}
	for _, q := range p.parameters {
		if q.usable && q.text && q.name == "startingafter" {
			return &actions.Pagination{Type: actions.PagesByCursor, Parameter: q.property, Next: "/id", NextOfLast: true,
				More: more}
		}
	}
	return nil
}

// byBodyLink finds the URL of the next page in the response.
func (p *pager) byBodyLink() *actions.Pagination {
	if !p.get {
		return nil
	}
	for _, s := range p.lists.scalars {
		if s.kind != "string" {
			continue
		}
		if slices.Contains(linkNames, s.name) || s.name == "next" && (s.isURL() || s.parent == "links") ||
			s.name == "href" && s.parent == "next" {
			return &actions.Pagination{Type: actions.PagesByBodyLink, Next: s.pointer, More: p.more()}
		}
	}
	return nil
}

// hasLink reports whether the response has the header Link (RFC 8288).
func (p *pager) hasLink() bool {
	for name := range p.response.Get("headers").Members() {
		if strings.EqualFold(name, "Link") {
			return true
		}
	}
	return false
}

// byLink finds the header Link next to a parameter for pages, or in words.
func (p *pager) byLink() *actions.Pagination {
	if !p.get || !p.hasLink() {
		return nil
	}
	certain := slices.ContainsFunc(p.parameters, func(q pageParameter) bool {
		return q.usable && (slices.Contains(pageNames, q.name) || cursorMembers[q.name] != nil || q.name == "perpage" ||
			q.name == "pagesize" || q.name == "limit")
	})
	for name, header := range p.response.Get("headers").Members() {
		words := strings.ToLower(p.d.resolve(header).Get("description").String())
		certain = certain || strings.EqualFold(name, "Link") && (strings.Contains(words, "pagina") ||
			strings.Contains(words, "next page") || strings.Contains(words, `rel="next"`))
	}
	if !certain {
		return nil
	}
	return &actions.Pagination{Type: actions.PagesByLink}
}

// size returns the parameter with the number of items of a page; nil if there is none, or one of several for page
// numbers whose names leave a doubt.
func (p *pager) size(kind actions.PageType, except string) *pageParameter {
	names := sizeNames
	if kind == actions.PagesByOffset {
		names = append([]string{"limit"}, names...)
	}
	var found *pageParameter
	for _, name := range names {
		for i := range p.parameters {
			q := &p.parameters[i]
			switch {
			case !q.usable || !q.integral || q.name != name || q.property == except:
			case kind != actions.PagesByNumber || strings.Contains(name, "page"):
				return q
			case found != nil:
				return nil
			default:
				found = q
			}
		}
	}
	return found
}

func (p *pager) addSize(out *actions.Pagination) {
	if out.Size != "" {
		return
	}
	q := p.size(out.Type, out.Parameter)
	if q == nil {
		return
	}
	out.Size = q.property
	if n, ok := q.schema.Get("maximum").Int(); ok && n > 0 && n < 1_000_000 {
		out.MaxSize = int(n)
	}
}

// byNumber finds the number of a page.
func (p *pager) byNumber() *actions.Pagination {
	for i := range p.parameters {
		q := &p.parameters[i]
		if !q.usable || !q.integral || !slices.Contains(pageNames, q.name) {
			continue
		}
		size := p.size(actions.PagesByNumber, q.property)
		first, ok := firstPage(q, size)
		if !ok {
			return nil
		}
		return &actions.Pagination{Type: actions.PagesByNumber, Parameter: q.property, First: first, More: p.more()}
	}
	return nil
}

// firstPage returns the number of the first page: what the parameter says, or 1 where the usual names leave no doubt.
func firstPage(q, size *pageParameter) (int, bool) {
	for _, name := range []string{"default", "minimum"} {
		if n, ok := q.schema.Get(name).Int(); ok && (n == 0 || n == 1) {
			if name == "minimum" && n == 0 { // 0 may only be allowed
				continue
			}
			return int(n), true
		}
	}
	words := q.words()
	for _, zero := range []string{"zero-based", "zero based", "0-based", "0 based", "0-indexed", "zero-indexed",
		"starts at 0", "starting at 0", "starting from 0", "starts from 0", "starts with 0", "starting with 0",
		"0 is the first", "(0..n)"} {
		if strings.Contains(words, zero) {
			return 0, true
		}
	}
	for _, one := range []string{"one-based", "1-based", "1 based", "1-indexed", "starts at 1", "starting at 1",
		"starting from 1", "starts from 1", "starts with 1", "starting with 1", "page=1"} {
		if strings.Contains(words, one) {
			return 1, true
		}
	}
	if _, ok := q.schema.Get("minimum").Int(); ok || q.schema.Get("default").Exists() {
		return 0, false
	}
	certain := size != nil && size.name != "size" && q.name != "pageindex" && !strings.HasSuffix(words, "index")
	return 1, certain
}

// byOffset finds the number of items before a page, next to the number of items in it.
func (p *pager) byOffset() *actions.Pagination {
	for i := range p.parameters {
		q := &p.parameters[i]
		if !q.usable || !q.integral || !slices.Contains(offsetNames, q.name) {
			continue
		}
		size := p.size(actions.PagesByOffset, q.property)
		if size == nil || !p.isOffset(q, size) {
			continue
		}
		return &actions.Pagination{Type: actions.PagesByOffset, Parameter: q.property, More: p.more()}
	}
	return nil
}

// isOffset reports whether a parameter counts items from 0. Names such as start are also those of times and pages.
func (p *pager) isOffset(q, size *pageParameter) bool {
	words := q.words()
	for _, n := range []string{"default", "minimum"} {
		if v, ok := q.schema.Get(n).Int(); ok && v != 0 {
			return false
		}
	}
	for _, other := range []string{"time", "date", "unix", "page number", "page index", "number of the page", "epoch",
		"1-based", "one-based", "block", "starts at 1", "first page"} {
		if strings.Contains(words, other) {
			return false
		}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(p.parameters, func(o pageParameter) bool { return slices.Contains(names, o.name) })
	}
	zero := false
	for _, n := range []string{"default", "minimum"} {
		_, ok := q.schema.Get(n).Int()
		zero = zero || ok
	}
	switch q.name {
	case "offset", "skip", "startat":
		return true
	case "start":
		return !has("end", "to", "until", "stop", "endtime") && (zero || strings.Contains(words, "offset") ||
			strings.Contains(words, "index") || strings.Contains(words, "record") || strings.Contains(words, "skip"))
	case "startindex":
		return zero
	case "from":
		return size.name == "size" && !has("to", "until") && (zero || strings.Contains(words, "offset"))
	default:
		return false
	}
}

// seemsToRead reports whether the words of a call say that it reads. A mistake does no harm: pages are requested by
// those who may make the call anyway.
func seemsToRead(a *actions.Action) bool {
	call := a.Call
	call.Trusted = true
	return risk.Assess(&call).Operation == risk.Read
}
