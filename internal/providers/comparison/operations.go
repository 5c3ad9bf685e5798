package comparison

import (
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/documents"
)

// contents are the operations of a document.
type contents struct {
	graphql    bool
	operations []documents.Result
	// prefixes are the paths of the servers.
	prefixes []string
	// byCall has the places of operations, by method and path with its names left out.
	byCall map[string]int
	// methods has those of each path.
	methods map[string][]string
}

// read reads the operations of a document.
func read(d *documents.Document) (*contents, error) {
	found, err := d.Operations()
	if err != nil {
		return nil, err
	}
	c := &contents{graphql: d.Format == documents.GraphQL, prefixes: documents.ServerPaths(d), byCall: map[string]int{},
		methods: map[string][]string{}}
	for r := range found {
		c.operations = append(c.operations, r)
		for _, prefix := range append([]string{""}, c.prefixes...) {
			path := unnamed(prefix + r.Path)
			if _, taken := c.byCall[r.Method+" "+path]; taken {
				continue
			}
			c.byCall[r.Method+" "+path] = len(c.operations) - 1
			c.methods[path] = append(c.methods[path], r.Method)
		}
	}
	return c, nil
}

var pathName = regexp.MustCompile(`\{[^{}]*\}`)

// unnamed returns a path in which all names are alike.
func unnamed(path string) string { return pathName.ReplaceAllString(path, "{}") }

// pathOf returns the path of a URL, which may be a template, without a slash at its end.
func pathOf(text string) string {
	_, rest, found := strings.Cut(text, "://")
	if !found {
		return ""
	}
	_, path, found := strings.Cut(rest, "/")
	if !found {
		return ""
	}
	return strings.TrimRight("/"+path, "/")
}

// find returns the operation of an action; nil if there is none. Then methods are those that its path has.
func (c *contents) find(a *actions.Action, prefixes []string) (found *documents.Result, methods []string) {
	for _, prefix := range append([]string{""}, prefixes...) {
		path := unnamed(prefix + a.Path)
		if i, ok := c.byCall[a.Method+" "+path]; ok {
			return &c.operations[i], nil
		}
		methods = append(methods, c.methods[path]...)
	}
	if found = c.general(a, prefixes); found != nil {
		return found, nil
	}
	slices.Sort(methods)
	return nil, slices.Compact(methods)
}

// general returns the operation with names where the path of the action has values, such as /users/{id} for /users/me:
// the one with the fewest.
func (c *contents) general(a *actions.Action, prefixes []string) (best *documents.Result) {
	fewest := 0
	for i := range c.operations {
		o := &c.operations[i]
		if o.Method != a.Method {
			continue
		}
		for _, theirs := range append([]string{""}, c.prefixes...) {
			for _, ours := range append([]string{""}, prefixes...) {
				if n := values(unnamed(ours+a.Path), unnamed(theirs+o.Path)); n > 0 && (best == nil || n < fewest) {
					best, fewest = o, n
				}
			}
		}
	}
	return best
}

// values counts the segments of a path that are values of names in a template; 0 if it does not fit.
func values(path, template string) int {
	ours, theirs := strings.Split(path, "/"), strings.Split(template, "/")
	if len(ours) != len(theirs) {
		return 0
	}
	count := 0
	for i := range ours {
		switch {
		case ours[i] == theirs[i]:
		case theirs[i] == "{}" && !strings.Contains(ours[i], "{}"):
			count++
		default:
			return 0
		}
	}
	return count
}

// sameNames returns the names of the document's path by those of the action's. Paths are compared from their ends,
// because one may have more at its beginning.
func sameNames(path, template string) map[string]string {
	out := map[string]string{}
	ours, theirs := strings.Split(path, "/"), strings.Split(template, "/")
	for i, j := len(ours)-1, len(theirs)-1; i >= 0 && j >= 0; i, j = i-1, j-1 {
		own, other := pathName.FindAllString(ours[i], -1), pathName.FindAllString(theirs[j], -1)
		for n := range min(len(own), len(other)) {
			out[strings.Trim(own[n], "{}")] = strings.Trim(other[n], "{}")
		}
	}
	return out
}

// rootField is the first field of an operation of GraphQL, with its arguments and what it selects.
var rootField = regexp.MustCompile(`(?s)^\s*(?:(query|mutation)\b[^{]*)?\{\s*(?:\w+\s*:\s*)?(\w+)\s*(\([^)]*\))?`)

// graphql compares an action of GraphQL.
func (c *comparer) graphql(field string, a *actions.Action) {
	switch {
	case a.Body.GraphQL == "":
		c.add(field, "cannot be compared with a GraphQL schema: it sends no operation of GraphQL")
		return
	case !c.there.graphql:
		c.add(field, "sends an operation of GraphQL, and the document is no GraphQL schema")
		return
	}
	match := rootField.FindStringSubmatch(a.Body.GraphQL)
	if match == nil {
		c.add(field, "sends an operation of GraphQL whose field cannot be found")
		return
	}
	kind, name, arguments := match[1], match[2], match[3]
	if kind == "" {
		kind = "query"
	}
	i := slices.IndexFunc(c.there.operations, func(r documents.Result) bool { return r.Method == kind && r.Path == name })
	if i < 0 {
		c.add(field, "sends the %s %s, which the document does not have", kind, name)
		return
	}
	of := c.there.operations[i].Action
	if of == nil {
		c.add(field, "cannot be compared: the document's operation cannot be read: %s", c.there.operations[i].Left.Error())
		return
	}
	c.common(field, a, of)
	theirs, err := readSchema(of.Input)
	if err != nil {
		c.add(field, "cannot be compared: the document's operation has no valid schema: %s", err)
		return
	}
	given := map[string]bool{}
	for _, argument := range regexp.MustCompile(`(\w+)\s*:`).FindAllStringSubmatch(arguments, -1) {
		given[argument[1]] = true
	}
	for _, p := range of.Parameters {
		if slices.Contains(theirs.Required, p.Property) && !given[p.Name] {
			c.add(field, "does not have the argument %s, which the document requires", p.Name)
		}
	}
}
