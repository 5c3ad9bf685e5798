package documents

import (
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/actions"
)

// discoveryKind is the kind of a Google Discovery document that describes an API.
const discoveryKind = "discovery#restDescription"

// methodList collects the methods of a Google Discovery document.
type methodList struct{ list []operation }

// listMethods returns the methods of the document and of its resources, which have resources of their own.
func (d *Document) listMethods() ([]operation, *Problem) {
	var m methodList
	if problem := m.add(d.root, nil); problem != nil {
		return nil, problem
	}
	return m.list, nil
}

// add adds the methods of a resource and those below it. The depth of the document ends the recursion.
func (m *methodList) add(resource jsonindex.Value, within []string) *Problem {
	for name, own := range resource.Get("methods").Members() {
		if own.Kind() != jsonindex.Object {
			continue
		}
		if len(m.list) == MaxOperations {
			return tooMany(own)
		}
		m.list = append(m.list, method(own, within, name))
	}
	for name, below := range resource.Get("resources").Members() {
		if problem := m.add(below, append(slices.Clip(within), name)); problem != nil {
			return problem
		}
	}
	return nil
}

// method returns the operation that a method is.
func method(own jsonindex.Value, within []string, name string) operation {
	o := operation{method: strings.ToUpper(own.Get("httpMethod").String()), own: own,
		tag: short(printable(strings.Join(within, ".")), maxTag)}
	path := own.Get("path").String()
	if path == "" {
		path = own.Get("flatPath").String()
	}
	o.path, o.reserved, o.left = template(path)
	if o.left == "" && !isMethod(strings.ToLower(o.method)) {
		o.left = "the method has no httpMethod that exists"
	}
	if o.left == "" && own.Get("mediaUpload").Exists() && !own.Get("request").Exists() {
		o.left = "it does nothing but upload a file, which is not supported"
	}
	o.id = strings.Join(append(slices.Clip(within), name), ".")
	id := own.Get("id").String()
	if _, after, found := strings.Cut(id, "."); found { // it begins with the name of the API
		o.id = after
	}
	o.of = o.path + " " + id
	o.name = methodName(&o)
	return o
}

// methodName returns the name of the action of a method. The end of an id says what a method does, so that one that is
// too long loses resources from its beginning, and gets a part that distinguishes it.
func methodName(o *operation) string {
	if isName(o.id, actions.MaxName) {
		return actions.Name(o.id, o.method, o.of)
	}
	words := o.id
	for !isName(words, actions.MaxName-len("_123456")) {
		_, after, found := strings.Cut(words, ".")
		if !found {
			break
		}
		words = after
	}
	return actions.Distinct(actions.Name(words, o.method, o.of), o.method, o.of)
}

// isName reports whether an id is a name with a limit of its length: one that is too long gets a hash of its path.
func isName(id string, limit int) bool {
	name := actions.Name(id, "GET", "/a")
	return name == actions.Name(id, "GET", "/b") && len(name) <= limit
}

// template reads a path in which {name} is a segment, and {+name} several. It returns the path with {name} alone, and
// the names of the others.
func template(path string) (plain string, reserved []string, left string) {
	for _, name := range pathNames(path) {
		if !templateName.MatchString(name) {
			return "/" + strings.TrimPrefix(path, "/"), nil, "the path has a form that is not supported: {" +
				short(printable(name), maxTag) + "}"
		}
		if after, found := strings.CutPrefix(name, "+"); found {
			reserved = append(reserved, after)
		}
	}
	return "/" + strings.TrimPrefix(strings.ReplaceAll(path, "{+", "{"), "/"), reserved, ""
}

// templateName is the part of RFC 6570 that documents use.
var templateName = regexp.MustCompile(`^\+?[A-Za-z0-9_$][A-Za-z0-9_.$-]*$`)

// isOwnParameter reports whether a parameter in the query authenticates, or asks for a form of the response or the
// request that is not that of the action.
func isOwnParameter(name string) bool {
	switch name {
	case "access_token", "oauth_token", "bearer_token", "key", "alt", "callback", "prettyPrint", "pp", "quotaUser",
		"userIp", "uploadType", "upload_protocol", "$.xgafv":
		return true
	default:
		return false
	}
}

// methodParameter reads a parameter; false for one of no use.
func methodParameter(o *operation, name string, p jsonindex.Value) (field, bool) {
	f := field{parameter: actions.Parameter{Name: name}, schema: p, swagger: true, required: p.Get("required").Bool()}
	switch p.Get("location").String() {
	case "path":
		f.parameter.Place, f.required = actions.InPath, true
		f.parameter.Reserved = slices.Contains(o.reserved, name)
	case "query":
		f.parameter.Place, f.parameter.Explode = actions.InQuery, p.Get("repeated").Bool()
		// An object has no form in a query.
		return f, name != "" && !isOwnParameter(name) && p.Get("type").String() != "object"
	default:
		return field{}, false
	}
	return f, name != ""
}

// methodBody returns the members of a method's request.
func (d *Document) methodBody(o *operation) ([]field, actions.Body) {
	request := o.own.Get("request")
	if !request.Exists() {
		return nil, actions.Body{}
	}
	body := actions.Body{ContentType: "application/json"}
	fields := d.bodyFields(request, "", false)
	for i := range fields {
		for id := range fields[i].schema.Path("annotations", "required").Items() {
			if id.String() != "" && id.String() == o.own.Get("id").String() {
				fields[i].required, body.Required = true, true
			}
		}
	}
	return fields, body
}

// methodNotes say what a method does that its action does not.
func methodNotes(own jsonindex.Value) (notes []string) {
	if own.Get("supportsMediaUpload").Bool() || own.Get("mediaUpload").Exists() {
		notes = append(notes, "it can upload a file, which the action does not")
	}
	if own.Get("supportsMediaDownload").Bool() {
		notes = append(notes, "it can download a file, which the action does not")
	}
	return notes
}

// methodScopes returns the OAuth scopes of a method: each is enough.
func methodScopes(own jsonindex.Value) (out [][]string) {
	for scope := range own.Get("scopes").Items() {
		text := line(scope, maxTitle)
		if text != "" && !slices.ContainsFunc(out, func(s []string) bool { return s[0] == text }) {
			out = append(out, []string{text})
		}
	}
	return out
}
