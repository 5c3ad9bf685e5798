package documents

import (
	"fmt"
	"slices"
	"strings"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

// maxPath is the length of the longest path, in bytes.
const maxPath = 1024

// maxLocated is for how many operations that were left out a document says their places.
const maxLocated = 500

// read reads an operation.
func (d *Document) read(o *operation) Result {
	r := Result{Method: o.method, Path: short(printable(o.path), maxPath)}
	leave := func(v jsonindex.Value, message string) Result {
		// To find a place takes the reading of the text before it.
		if d.located++; d.located > maxLocated {
			r.Left = &Problem{Message: message}
		} else {
			r.Left = problemAt(v, message)
		}
		return r
	}
	if o.left != "" {
		return leave(o.own, o.left)
	}
	switch o.method {
	case "TRACE", "OPTIONS":
		return leave(o.own, o.method+" does nothing with the provider's data")
	}
	if message := checkPath(o.path); message != "" {
		return leave(o.own, message)
	}
	if body := o.own.Get("requestBody"); body.Exists() && !d.resolve(body).Exists() {
		return leave(body, "its body is "+quote(body.Get("$ref").String())+", which leads to nothing in the document")
	}
	if s := d.ownServer(o.item, o.own); s.Exists() && d.root.Get("servers").Exists() {
		return leave(o.own, "it has a server of its own, to which the provider's credentials are not sent: "+
			quote(s.Get("url").String()))
	}
	stated, problem := statedRisk(o.own)
	if problem != nil {
		r.Left = problem
		return r
	}
	in := d.input(o)
	if in.problem != nil {
		r.Left = in.problem
		return r
	}
	a := &actions.Action{Name: o.name, Title: line(o.own.Get("summary"), maxTitle),
		Description: prose(o.own.Get("description"), maxDescription), Deprecated: o.own.Get("deprecated").Bool(),
		Method: o.method, Path: requested(o.path), Input: in.schema, Parameters: in.parameters, Body: in.body,
		Scopes: d.scopes(o.own)}
	for tag := range o.own.Get("tags").Items() {
		if text := line(tag, maxTag); text != "" && len(a.Tags) < maxTags && !slices.Contains(a.Tags, text) {
			a.Tags = append(a.Tags, text)
		}
	}
	if len(a.Tags) == 0 && o.tag != "" {
		a.Tags = []string{o.tag}
	}
	summary := a.Title
	if a.Title == "" {
		a.Title = titleOf(a)
	}
	r.Notes = in.notes
	for _, list := range []jsonindex.Value{o.item.Get("parameters"), o.own.Get("parameters")} {
		for p := range list.Items() {
			if ref := p.Get("$ref"); ref.Exists() && !d.resolve(p).Exists() {
				r.Notes = append(r.Notes, "a parameter is "+quote(ref.String())+", which leads to nothing in the document")
			}
		}
	}
	a.Idempotency = in.idempotency
	output, notes := d.output(o.own)
	a.Output, r.Notes = output, append(r.Notes, notes...)
	a.Call = risk.Call{Method: o.method, Path: o.path, Name: o.id, Summary: summary, Document: stated}
	if len(a.Scopes) > 0 {
		a.Call.Scopes = assessed(a.Scopes)
	}
	a.Pagination = d.pages(o, a, in.fields)
	r.Action = a
	return r
}

// maxFirstSentence is the length of the longest sentence that is a title.
const maxFirstSentence = 80

// titleOf returns a title for an action whose document has none: the first sentence of the description if it is short
// and plain, or else the words of the name.
func titleOf(a *actions.Action) string {
	first, _, _ := strings.Cut(strings.TrimSpace(a.Description), "\n")
	first, _, _ = strings.Cut(first, ". ")
	first = strings.TrimSuffix(strings.TrimSpace(first), ".")
	if first != "" && len(first) <= maxFirstSentence && !strings.ContainsAny(first, "<>[]{}#*`|") {
		return first
	}
	words := strings.ReplaceAll(a.Name, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// checkPath returns why a path cannot be requested; empty if it can.
func checkPath(path string) string {
	switch {
	case !strings.HasPrefix(path, "/"):
		return "the path does not begin with a slash"
	case len(path) > maxPath:
		return fmt.Sprintf("the path has more than %d bytes", maxPath)
	case strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }):
		return "the path has a blank, a backslash or a control character"
	}
	if strings.HasPrefix(path, "//") {
		return "the path begins with two slashes, which name a host"
	}
	way, _, _ := strings.Cut(requested(path), "?")
	for segment := range strings.SplitSeq(strings.ToLower(way), "/") {
		if segment = strings.ReplaceAll(segment, "%2e", "."); segment == "." || segment == ".." {
			return "the path leads upwards"
		}
	}
	if strings.Count(path, "{") != strings.Count(path, "}") {
		return "a name in the path has no end"
	}
	return ""
}

// requested returns the part of a path that is sent. Some documents distinguish operations of one path by a fragment,
// which is not.
func requested(path string) string {
	path, _, _ = strings.Cut(path, "#")
	return path
}

// pathNames returns the names in a path.
func pathNames(path string) (names []string) {
	for {
		_, after, found := strings.Cut(path, "{")
		name, rest, ended := strings.Cut(after, "}")
		if !found || !ended {
			return names
		}
		names, path = append(names, name), rest
	}
}

// statedRisk is what the extensions of an operation say about its risk; nil for nothing.
func statedRisk(own jsonindex.Value) (*risk.Declared, *Problem) {
	var out risk.Declared
	if own.Path("x-github", "triggersNotification").Bool() {
		out.Flags = append(out.Flags, risk.NotifiesPeople)
		out.Reason = "Its document says that it triggers notifications."
	}
	x := own.Get("x-sallyport-risk")
	if !x.Exists() {
		if len(out.Flags) == 0 {
			return nil, nil
		}
		return &out, nil
	}
	level := x
	if x.Kind() == jsonindex.Object {
		level = x.Get("level")
		out.Operation = risk.Operation(x.Get("operation").String())
		for f := range x.Get("flags").Items() {
			flag := risk.Flag(f.String())
			if !flag.Valid() {
				return nil, problemAt(f, "x-sallyport-risk has a flag that does not exist")
			}
			out.Flags = append(out.Flags, flag)
		}
		out.Reason = line(x.Get("reason"), maxTitle)
	}
	if out.Level = risk.Level(level.String()); level.Exists() && !out.Level.Valid() {
		return nil, problemAt(level, "x-sallyport-risk has a level that does not exist")
	}
	if out.Operation != "" && !slices.Contains(risk.Operations(), out.Operation) {
		return nil, problemAt(x.Get("operation"), "x-sallyport-risk has an operation that does not exist")
	}
	if c := out.Contradiction(); c != "" {
		return nil, problemAt(x, "x-sallyport-risk contradicts itself: "+c)
	}
	return &out, nil
}

// assessed returns the alternative from which the risk of a call is assessed: one that permits more than reading, if
// there is any, because documents name scopes that only read for calls that make changes, too.
func assessed(alternatives [][]string) []string {
	for _, scopes := range alternatives {
		if !slices.ContainsFunc(scopes, func(s string) bool { return strings.Contains(strings.ToLower(s), "readonly") }) {
			return scopes
		}
	}
	return alternatives[0]
}

// scopes returns the OAuth scopes of an operation, as alternatives.
func (d *Document) scopes(own jsonindex.Value) (out [][]string) {
	if d.Format == Discovery {
		return methodScopes(own)
	}
	security := own.Get("security")
	if !security.Exists() {
		security = d.root.Get("security")
	}
	for alternative := range security.Items() {
		var scopes []string
		for _, list := range alternative.Members() {
			for scope := range list.Items() {
				if text := line(scope, maxTitle); text != "" && !slices.Contains(scopes, text) {
					scopes = append(scopes, text)
				}
			}
		}
		if len(scopes) > 0 {
			out = append(out, scopes)
		}
	}
	return out
}

// output returns the schema of the first successful response that is JSON; nil if there is none.
func (d *Document) output(own jsonindex.Value) ([]byte, []string) {
	_, schema := d.success(own)
	if !schema.Exists() {
		return nil, nil
	}
	w := newWriter(d, false)
	return w.whole(schema), w.notes
}

// success returns the first successful response that is JSON, and its schema.
func (d *Document) success(own jsonindex.Value) (response, schema jsonindex.Value) {
	if d.Format == Discovery {
		return jsonindex.Value{}, own.Get("response")
	}
	best := ""
	for status, r := range own.Get("responses").Members() {
		if len(status) != 3 || status[0] != '2' || best != "" && status >= best {
			continue
		}
		r = d.resolve(r)
		found := r.Get("schema")
		if d.Format != Swagger2 {
			if _, media := chooseMedia(r.Get("content")); media.Exists() {
				found = media.Get("schema")
			} else {
				found = jsonindex.Value{}
			}
		}
		if found.Exists() {
			response, schema, best = r, found, status
		}
	}
	return response, schema
}

// chooseMedia returns the JSON member of a content object, with its media type.
func chooseMedia(content jsonindex.Value) (string, jsonindex.Value) {
	for name, media := range content.Members() {
		if isJSON(name) {
			return mediaType(name), media
		}
	}
	return "", jsonindex.Value{}
}

// mediaType returns a media type in lower case, without parameters.
func mediaType(text string) string {
	name, _, _ := strings.Cut(text, ";")
	return strings.ToLower(strings.TrimSpace(name))
}

func isJSON(text string) bool {
	name := mediaType(text)
	return name == "application/json" || name == "text/json" || strings.HasSuffix(name, "+json") ||
		name == "application/*" || name == "*/*"
}
