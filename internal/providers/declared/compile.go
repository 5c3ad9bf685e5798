package declared

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/risk"
)

// Problem is one error of a declaration.
type Problem struct {
	// Field is a path into the declaration, such as "actions.inline.create_issue.input.title.type".
	Field   string
	Message string
}

// Limits of a declaration.
const (
	maxTitle       = 100
	maxDescription = 4096
	maxPath        = 1024
	maxTags        = 8
	maxInputs      = 200
	// maxSchema is the size of the largest schema of an action, in bytes, and maxSchemas of all of them together.
	maxSchema  = 64 << 10
	maxSchemas = 4 << 20
)

// compiler makes actions of a declaration.
type compiler struct {
	Rules
	actions  *Actions
	engine   *outbound.Engine
	problems []Problem
	schemas  *schemaSet
	// usedInputs are the shared ones that any action has.
	usedInputs map[string]bool
	// size is that of all schemas.
	size int
}

// Compile checks a declaration and makes its actions, in the order of the file. Rules say what the definition states
// about calls that are declared elsewhere. engine makes requests to the provider; nil if none are made. There are no
// actions if there are problems.
func Compile(d *Declaration, engine *outbound.Engine) ([]*actions.Action, *Rules, []Problem) {
	c := &compiler{actions: d.Actions, engine: engine, usedInputs: map[string]bool{}}
	if c.actions == nil {
		c.actions = &Actions{}
	}
	c.schemas = &schemaSet{shared: &c.actions.Schemas, used: map[string]bool{}, add: c.add}
	if engine == nil && !d.Empty() {
		for _, part := range []struct {
			field string
			given bool
		}{{"actions", d.Actions != nil}, {"pagination", d.Pagination != nil}, {"idempotency", d.Idempotency != nil},
			{"risk", d.Risk != nil}} {
			if part.given {
				c.add(part.field, "is about requests to the provider, but the definition has no base_url and no auth")
			}
		}
		return nil, nil, c.problems
	}
	c.compileIdempotency(d.Idempotency)
	c.compileDefaultPages(d.Pagination)
	c.compileRisks(d.Risk)
	c.checkShared()
	var list []*actions.Action
	taken := map[string]string{}
	for name, a := range c.actions.Inline.all() {
		field := "actions.inline." + name
		if !actionName.MatchString(name) {
			c.add(field, "must be at most 48 lower-case letters, digits and underscores, and begin with a letter")
			continue
		}
		call := a.Method + " " + a.BaseURL + unnamed(a.Path) + a.GraphQL // operations of GraphQL share a path
		if other, found := taken[call]; found {
			c.add(field, "has the method and path of %s", other)
		}
		taken[call] = name
		list = append(list, c.action(field, name, &a))
	}
	if d.Actions != nil && len(list) == 0 && len(c.problems) == 0 {
		c.add("actions.inline", "has no actions")
	}
	c.checkUse()
	if len(c.problems) > 0 {
		return nil, nil, c.problems
	}
	return list, &c.Rules, nil
}

var (
	actionName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)
	word       = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	pathName   = regexp.MustCompile(`\{[^{}]*\}`)
)

// unnamed returns a path in which all names are alike.
func unnamed(path string) string { return pathName.ReplaceAllString(path, "{}") }

func (c *compiler) add(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{field, fmt.Sprintf(format, args...)})
}

// methods are those that an action can have.
func methods() []string {
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

// hasBody reports whether requests of a method have a body.
func hasBody(method string) bool { return method != http.MethodGet && method != http.MethodHead }

// action checks an action and makes it.
func (c *compiler) action(field, name string, a *Action) *actions.Action {
	c.checkTexts(field, a)
	if !slices.Contains(methods(), a.Method) {
		c.add(field+".method", "must be one of %s", strings.Join(methods(), ", "))
	}
	if wrong := checkPath(a.Path); wrong != "" {
		c.add(field+".path", "%s", wrong)
	}
	if a.BaseURL != "" {
		if wrong := outbound.CheckBaseURL(c.engine, a.BaseURL); wrong != "" {
			c.add(field+".base_url", "%s", wrong)
		}
	}
	out := &actions.Action{Name: name, Title: a.Title, Description: strings.TrimSpace(a.Description), Tags: a.Tags,
		Deprecated: a.Deprecated, DocsURL: a.DocsURL, Method: a.Method, Path: a.Path, BaseURL: a.BaseURL,
		Scopes: c.scopes(field, a.Scopes)}
	list := c.inputs(field, a)
	for i := range list {
		out.Parameters = append(out.Parameters, list[i].parameter)
	}
	operation := c.graphQL(field, a, list)
	if operation != nil {
		out.Body = operation.body(a)
	} else {
		out.Body = c.body(field, a, list)
	}
	out.Input = c.written(field+".input", func(w *writer) { w.flat(list) })
	if a.Output != nil {
		c.schemas.check(field+".output", a.Output, 0)
		out.Output = c.written(field+".output", func(w *writer) { w.schema(a.Output) })
	}
	out.Pagination = c.pages(field+".pagination", a, list, operation)
	out.Idempotency = c.key(field+".idempotency", a)
	out.Call = risk.Call{Method: a.Method, Path: a.Path, Name: name, Summary: a.Title}
	if strings.EqualFold(name, a.Method) {
		out.Call.Name = "" // such as post, which as a word would be a message that people see
	}
	if operation != nil {
		out.Call = operation.call(out.Call)
	}
	if len(out.Scopes) > 0 {
		out.Call.Scopes = out.Scopes[0]
	}
	out.Call.Definition = c.stated(field+".risk", name, a)
	return out
}

// checkTexts checks what people read of an action.
func (c *compiler) checkTexts(field string, a *Action) {
	if !isLine(a.Title, maxTitle) {
		c.add(field+".title", "must be one line of 1 to %d characters without spaces around it", maxTitle)
	}
	if !isProse(a.Description, maxDescription) {
		c.add(field+".description", "must be text of at most %d bytes", maxDescription)
	}
	if len(a.Tags) > maxTags {
		c.add(field+".tags", "has more than %d entries", maxTags)
	}
	for i, tag := range a.Tags {
		if !word.MatchString(tag) || slices.Index(a.Tags, tag) != i {
			c.add(at(field+".tags", i), "must be a lower-case word, or several joined by hyphens, and not be listed twice")
		}
	}
	if a.DocsURL != "" {
		if u, err := url.Parse(a.DocsURL); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			c.add(field+".docs_url", "must be an https URL")
		}
	}
}

// scopes reads the alternatives of scopes.
func (c *compiler) scopes(field string, list []string) (out [][]string) {
	for i, entry := range list {
		scopes := strings.Fields(entry)
		// The characters are those of RFC 6749 section 3.3.
		if len(scopes) == 0 || len(entry) > maxPath || strings.ContainsFunc(entry, func(r rune) bool {
			return r < ' ' || r > '~' || r == '"' || r == '\\'
		}) {
			c.add(at(field+".scopes", i), "must be the name of a scope, or several with spaces between them")
			continue
		}
		out = append(out, scopes)
	}
	return out
}

// checkPath returns what is wrong with the path of an action; empty for nothing.
func checkPath(path string) string {
	if !strings.HasPrefix(path, "/") || len(path) > maxPath {
		return "must begin with a slash and have at most 1024 bytes"
	}
	bare := pathName.ReplaceAllStringFunc(path, func(name string) string {
		if inputName.MatchString(name[1 : len(name)-1]) {
			return "x"
		}
		return "{"
	})
	if strings.ContainsAny(bare, "{}") {
		return "has braces without the name of an input between them"
	}
	for i := range len(bare) {
		if b := bare[i]; b <= ' ' || b >= 0x7f || strings.IndexByte("\\\"<>^`|?#%", b) >= 0 {
			return "has a character that a path cannot have; parameters of the query are inputs"
		}
	}
	segments := strings.Split(bare[1:], "/")
	for i, segment := range segments { // some servers need a slash at the end
		if segment == "." || segment == ".." || segment == "" && i < len(segments)-1 {
			return "has an empty segment, or one of dots"
		}
	}
	return ""
}

// pathNames returns the names in a path.
func pathNames(path string) []string {
	var names []string
	for _, name := range pathName.FindAllString(path, -1) {
		names = append(names, name[1:len(name)-1])
	}
	return names
}

// checkUse finds what is shared and used by nothing.
func (c *compiler) checkUse() {
	for _, name := range c.actions.Inputs.names {
		if !c.usedInputs[name] {
			c.add("actions.inputs."+name, "is used by no action")
		}
	}
	for _, name := range c.actions.Schemas.names {
		if !c.schemas.used[name] {
			c.add("actions.schemas."+name, "is used by nothing")
		}
	}
}

func at(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// isLine reports whether a text is a line that people can read.
func isLine(text string, limit int) bool {
	return text != "" && strings.TrimSpace(text) == text && utf8.RuneCountInString(text) <= limit &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// isProse reports whether a text, which may be empty, is lines that people can read.
func isProse(text string, limit int) bool {
	return len(text) <= limit && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\n'
	})
}
