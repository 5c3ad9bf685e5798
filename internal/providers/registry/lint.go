package registry

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// LintOptions say how definitions are checked.
type LintOptions struct {
	// Name is the name of the only file that is checked; all are if it is empty.
	Name string
	// Builtin are the built-in definitions for an operator's ones. If it is nil, the definitions are checked as built-in
	// ones: they need evidence, and a page of the provider for each mode and each action.
	Builtin *Registry
	// Compare compares a good definition with something else; nil for nothing.
	Compare func(*Provider) []Finding
}

// Finding is what a reviewer would say about a field of a definition that can be loaded.
type Finding struct {
	// Field is a path into the definition, such as "actions.inline.create_issue.risk".
	Field   string
	Message string
}

// Lint checks the definitions at the root of fsys, and returns their number and all problems, sorted by files and
// lines.
// It also finds what a reviewer would in definitions that can be loaded. The error is that of reading the folder.
func Lint(fsys fs.FS, o LintOptions) (checked int, problems []Problem, err error) {
	var files []definitionFile
	if o.Name == "" {
		files, problems, err = readFolder(fsys)
		if err != nil {
			return 0, nil, err
		}
	} else if data, err := readFile(fsys, o.Name); err != nil {
		problems = []Problem{unreadable(o.Name, err)}
	} else {
		files = []definitionFile{{name: o.Name, data: data}}
	}
	checked = len(files) + len(problems)
	for _, file := range files {
		p, wrong := parse(file, o.Builtin)
		problems = append(problems, wrong...)
		if p == nil {
			continue
		}
		found := p.review()
		if o.Builtin == nil {
			found = append(found, p.reviewShipping()...)
		}
		if o.Compare != nil {
			found = append(found, o.Compare(p)...)
		}
		problems = append(problems, placed(file, found)...)
	}
	return checked, newLoadError(problems).Problems, nil
}

// placed gives findings about a file their lines.
func placed(file definitionFile, found []Finding) []Problem {
	if len(found) == 0 {
		return nil
	}
	var root ast.Node
	if document, err := parser.ParseBytes(file.data, 0); err == nil && len(document.Docs) == 1 { // it was read before
		root = document.Docs[0].Body
	}
	var problems []Problem
	for _, f := range found {
		problems = append(problems, Problem{File: file.name, Line: lineOf(root, f.Field), Field: clip(f.Field),
			Message: f.Message})
	}
	return problems
}

// reviewShipping finds what a built-in definition needs besides.
func (p *Provider) reviewShipping() []Finding {
	var found []Finding
	if p.Webhooks != nil && p.Definition.Evidence == nil {
		found = append(found, Finding{"evidence", "must name the evidence of the definition, because it is a built-in one"})
	}
	if p.Outbound != nil {
		for i, m := range p.Outbound.Modes() {
			if m.DocsURL == "" {
				found = append(found, Finding{"auth[" + strconv.Itoa(i) + "].docs_url",
					"must name the provider's page about the mode, because the definition is a built-in one"})
			}
		}
	}
	for _, a := range p.Actions {
		field := "actions.inline." + a.Name
		if a.DocsURL == "" {
			found = append(found, Finding{field + ".docs_url",
				"must name the provider's page about the action, because the definition is a built-in one"})
		}
		if len(a.Tags) == 0 {
			found = append(found, Finding{field + ".tags", "must group the action, because the definition is a built-in one"})
		}
		// A query of GraphQL reads, although it is posted.
		if reads := a.Call.Method == http.MethodGet || a.Call.Method == http.MethodHead; !reads && a.Call.Definition == nil {
			found = append(found, Finding{field + ".risk", "must state the risk of a call that may change something, because " +
				"the " +
				"definition is a built-in one"})
		}
	}
	return found
}

// review finds what can be loaded and is probably wrong.
func (p *Provider) review() []Finding {
	var found []Finding
	for _, a := range p.Actions {
		field := "actions.inline." + a.Name
		if message := reviewOperation(a); message != "" {
			found = append(found, Finding{field + ".risk.operation", message})
		} else if message := reviewLevel(a); message != "" {
			found = append(found, Finding{field + ".risk", message})
		}
		for _, property := range undescribed(a) {
			found = append(found, Finding{field + ".input." + property, "has no description"})
		}
	}
	return found
}

// explained reports whether a definition gives a reason for the risk that it states.
func explained(a *actions.Action) bool {
	return a.Call.Definition != nil && a.Call.Definition.Reason != ""
}

// byWords is the risk of a call without what the definition states.
func byWords(a *actions.Action) risk.Risk {
	call := a.Call
	call.Definition = nil
	return risk.Assess(&call)
}

// reviewOperation says that the stated operation contradicts the method or the name; empty if it does not, or if a
// reason explains it.
func reviewOperation(a *actions.Action) string {
	if a.Call.Definition == nil || a.Call.Definition.Operation == "" || explained(a) {
		return ""
	}
	stated, reads := a.Call.Definition.Operation, a.Call.Definition.Operation == risk.Read
	const why = "; say in risk.reason why it is so"
	switch a.Method {
	case http.MethodGet, http.MethodHead:
		if !reads && a.Body.GraphQL == "" {
			return fmt.Sprintf("is %s, and %s only reads%s", stated, a.Method, why)
		}
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		if reads {
			return fmt.Sprintf("is read, and %s makes a change%s", a.Method, why)
		}
	}
	switch words := byWords(a); {
	case reads && words.Operation == risk.Delete:
		return fmt.Sprintf("is read, and the words of the call delete%s", why)
	case reads && beginsWith(a.Name, "add", "create", "edit", "remove", "send", "set", "update"):
		return fmt.Sprintf("is read, and the name of the action says that it makes a change%s", why)
	case !reads && beginsWith(a.Name, "count", "describe", "fetch", "find", "get", "list", "lookup", "search"):
		return fmt.Sprintf("is %s, and the name of the action says that it reads%s", stated, why)
	}
	return ""
}

// beginsWith reports whether the first word of a name is one of some.
func beginsWith(name string, words ...string) bool {
	first, _, _ := strings.Cut(name, "_")
	return slices.Contains(words, first)
}

// reviewLevel says that the level is lower than method and words are judged; empty if it is not, or if a reason
// explains
// it.
func reviewLevel(a *actions.Action) string {
	if a.Call.Definition == nil || explained(a) {
		return ""
	}
	is, words := risk.Assess(&a.Call), byWords(a)
	if words.Level == risk.Unknown || !words.Level.Above(is.Level) {
		return ""
	}
	because := ""
	if len(words.Reasons) > 0 {
		because = " (" + strings.TrimSuffix(words.Reasons[0], ".") + ")"
	}
	return fmt.Sprintf("is %s, and without it the call is judged %s%s; say in reason why it is lower", is.Level,
		words.Level, because)
}

// undescribed returns the inputs without a description.
func undescribed(a *actions.Action) []string {
	var input struct {
		Properties map[string]struct{ Description string }
	}
	if json.Unmarshal(a.Input, &input) != nil {
		return nil // what was compiled always has this form
	}
	var list []string
	for i := range a.Parameters {
		if name := a.Parameters[i].Property; input.Properties[name].Description == "" {
			list = append(list, name)
		}
	}
	return list
}
