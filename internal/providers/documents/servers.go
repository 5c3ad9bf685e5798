package documents

import (
	"regexp"
	"slices"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// base is where requests go: the base URL of a definition, and what connections are asked for it.
type base struct {
	// url is a template, without a slash at its end.
	url string
	// entry is the entry of allowed_hosts for its host.
	entry  string
	fields []configField
	// upgraded is true of an https URL that the document has as http only.
	upgraded bool
	// asked is true if connections name the whole URL, so that it is not known here.
	asked bool
	// text is the URL as the document has it, words its description, and at its place.
	text, words string
	at          jsonindex.Value
}

// origin returns the URL without its path, and the path.
func (b *base) origin() (origin, path string) {
	rest := strings.TrimPrefix(b.url, "https://")
	if end := strings.IndexByte(rest, '/'); end >= 0 {
		return "https://" + rest[:end], rest[end:]
	}
	return b.url, ""
}

// server is a server as the document has it.
type server struct {
	at        jsonindex.Value
	url       string
	variables jsonindex.Value
	words     string
}

// Limits of servers and of what they may contain.
const (
	maxServers         = 50
	maxServerVariables = 20
	maxURL             = 1024
	maxChoices         = 64
	maxHostName        = 253
	maxLabel           = 63
)

// chooseBase returns the first server with https, then the first that can be reached with it, and then one that each
// connection names.
func (w *drafter) chooseBase() *base {
	list := w.servers()
	var usable []*base
	for _, s := range list {
		b, wrong := w.readServer(&s)
		if wrong != "" {
			w.note(s.at, "the server "+quoteURL(s.url)+" is not used: it "+wrong)
			continue
		}
		usable = append(usable, b)
	}
	if len(usable) == 0 {
		return w.askBase(list)
	}
	chosen := usable[0]
	if i := slices.IndexFunc(usable, func(b *base) bool { return !b.upgraded }); i >= 0 {
		chosen = usable[i]
	}
	if chosen.upgraded {
		w.note(chosen.at, "the server "+quote(chosen.text)+" is without TLS; https is used in its place")
	}
	known := map[string]bool{chosen.url: true}
	for _, b := range usable {
		if known[b.url] {
			continue
		}
		known[b.url] = true
		words := ""
		if b.words != "" {
			words = " (" + b.words + ")"
		}
		w.note(b.at, "the server "+quote(b.text)+words+" is another one, and is not used")
	}
	return chosen
}

// askBase has each connection name the base URL.
func (w *drafter) askBase(list []server) *base {
	example := ""
	for _, s := range list {
		if example = w.exampleOf(&s); example != "" {
			break
		}
	}
	if example == "" {
		example = exampleURL
	}
	field := fieldForm{Type: "url", Title: "Base URL", Example: example,
		Description: "The URL that the paths of requests follow. Credentials go to its host."}
	return &base{asked: true, url: "${config.base_url}", entry: "${config.base_url}",
		fields: []configField{{"base_url", field}}}
}

// exampleURL is shown where a URL is asked for and the document has none.
const exampleURL = "https://api.example.com"

// servers lists the servers of the document; those of its paths if it has none of its own.
func (w *drafter) servers() []server {
	if w.d.Format == Swagger2 {
		return w.swaggerServers()
	}
	var list []server
	add := func(servers jsonindex.Value) {
		for s := range servers.Items() {
			next := server{s, strings.TrimSpace(s.Get("url").String()), s.Get("variables"),
				plainText(s.Get("description").String(),
					maxTag)}
			if len(list) < maxServers && !slices.ContainsFunc(list, func(s server) bool { return s.url == next.url }) {
				list = append(list, next)
			}
		}
	}
	add(w.d.root.Get("servers"))
	if len(list) > 0 {
		return list
	}
	for _, item := range w.d.root.Get("paths").Members() {
		add(item.Get("servers"))
		for method, own := range item.Members() {
			if isMethod(method) {
				add(own.Get("servers"))
			}
		}
	}
	if len(list) == 0 {
		list = []server{{at: w.d.root, url: "/"}}
	}
	return list
}

// swaggerServers makes servers of the host, the schemes and the base path of Swagger 2.0.
func (w *drafter) swaggerServers() []server {
	root := w.d.root
	path := strings.TrimSpace(root.Get("basePath").String())
	if path != "" && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	var schemes []string
	for s := range root.Get("schemes").Items() {
		if name := s.String(); (name == "https" || name == "http") && !slices.Contains(schemes, name) {
			schemes = append(schemes, name)
		}
	}
	if len(schemes) == 0 {
		schemes = []string{"https"}
	}
	at, host, variables := root.Get("host"), strings.TrimSpace(root.Get("host").String()), jsonindex.Value{}
	if x := root.Get("x-ms-parameterized-host"); x.Kind() == jsonindex.Object {
		at, host, variables = x, strings.TrimSpace(x.Get("hostTemplate").String()), x.Get("parameters")
		if prefix := x.Get("useSchemePrefix"); prefix.Exists() && !prefix.Bool() {
			return []server{{at, host + path, variables, ""}}
		}
	}
	if host == "" {
		return []server{{at: root, url: path}}
	}
	var list []server
	for _, s := range schemes {
		list = append(list, server{at, s + "://" + host + path, variables, ""})
	}
	return list
}

// piece is a part of a server's URL: a text or a variable.
type piece struct {
	text string
	*variable
}

// variable is a variable of a server's URL.
type variable struct {
	name, fallback, words string
	hasFallback           bool
	choices               []string
}

var variableForm = regexp.MustCompile(`^[^{}/?#@:\s]{1,100}$`)

// pieces cuts a URL at its variables, and puts in those that have one value.
func (w *drafter) pieces(s *server) (out []piece, wrong string) {
	if strings.Count(s.url, "{") > maxServerVariables {
		return nil, "has more than 20 variables"
	}
	add := func(text string) {
		if n := len(out); n > 0 && out[n-1].variable == nil {
			out[n-1].text += text
		} else if text != "" {
			out = append(out, piece{text: text})
		}
	}
	rest := s.url
	for {
		before, after, found := strings.Cut(rest, "{")
		add(before)
		if !found {
			break
		}
		name, behind, ended := strings.Cut(after, "}")
		if !ended || !variableForm.MatchString(name) {
			return nil, "has a variable without a name or an end"
		}
		v := w.variable(s.variables, name)
		first := len(out) == 0
		switch {
		case first && strings.HasPrefix(behind, "://"): // the scheme
			if v.fallback != "http" || len(v.choices) == 0 || slices.Contains(v.choices, "https") {
				v.fallback = "https"
			}
			add(v.fallback)
		case len(v.choices) == 1:
			add(v.choices[0])
		case !first && v.hasFallback && strings.Contains(v.fallback, "/"): // more than a segment
			add(v.fallback)
		default:
			out = append(out, piece{variable: v})
		}
		rest = behind
	}
	return out, ""
}

// variable reads a variable. Those of x-ms-parameterized-host are parameters.
func (w *drafter) variable(all jsonindex.Value, name string) *variable {
	at := all.Get(name)
	for p := range all.Items() {
		if p = w.d.resolve(p); p.Get("name").String() == name {
			at = p
		}
	}
	v := &variable{name: name, words: plainText(at.Get("description").String(), maxLine)}
	v.fallback, v.hasFallback = serverText(at.Get("default"))
	if v.fallback != plainText(v.fallback, maxLine) {
		v.fallback, v.hasFallback = "", false
	}
	for c := range at.Get("enum").Items() {
		text, ok := serverText(c)
		if ok && text != "" && text == plainText(text, maxTag) && len(v.choices) < maxChoices &&
			!slices.Contains(v.choices, text) {
			v.choices = append(v.choices, text)
		}
	}
	if len(v.choices) > 0 && !slices.Contains(v.choices, v.fallback) {
		v.fallback, v.hasFallback = v.choices[0], false
	}
	return v
}

// serverText returns a text, or the text of a number.
func serverText(v jsonindex.Value) (string, bool) {
	if v.Kind() == jsonindex.Number {
		return string(v.Raw()), true
	}
	return v.Text()
}

// readServer makes a base URL of a server. wrong is a clause that says why it cannot be one.
func (w *drafter) readServer(s *server) (b *base, wrong string) {
	if len(s.url) > maxURL || strings.ContainsFunc(s.url, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || r == '\\'
	}) {
		return nil, "is longer than 1024 bytes, or has a blank, a backslash or a character that is not ASCII"
	}
	if strings.Contains(s.url, "$") {
		return nil, "has a dollar sign"
	}
	if strings.ContainsAny(s.url, "?#") {
		return nil, "has a query or a fragment"
	}
	parts, wrong := w.pieces(s)
	if wrong != "" {
		return nil, wrong
	}
	b = &base{text: s.url, words: s.words, at: s.at}
	if len(parts) > 0 && parts[0].variable != nil {
		return w.wholeServer(b, parts)
	}
	head := ""
	if len(parts) > 0 {
		head = parts[0].text
	} else {
		parts = []piece{{}}
	}
	lower := strings.ToLower(head)
	switch {
	case strings.HasPrefix(lower, "https://"):
		parts[0].text = head[len("https://"):]
	case strings.HasPrefix(lower, "http://"):
		parts[0].text, b.upgraded = head[len("http://"):], true
	case strings.HasPrefix(head, "//"):
		parts[0].text = head[len("//"):]
	case regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`).MatchString(lower):
		return nil, "is no URL of https"
	default:
		origin, wrong := w.sourceOrigin(head)
		if wrong != "" {
			return nil, wrong
		}
		parts[0].text = origin
	}
	authority, path := cutAuthority(parts)
	host, wrong := w.host(b, authority)
	if wrong != "" {
		return nil, wrong
	}
	way, wrong := w.path(b, path)
	b.url, b.entry = "https://"+host+way, host
	return b, wrong
}

// wholeServer makes a base URL of one that begins with a variable, which is a whole URL that each connection names.
func (w *drafter) wholeServer(b *base, parts []piece) (*base, string) {
	v := parts[0].variable
	if len(parts) > 1 && (parts[1].variable != nil || !strings.HasPrefix(parts[1].text, "/")) {
		return nil, "has a variable in the place of its scheme"
	}
	name := w.fieldName(b, v.name)
	example := exampleURL
	if u, wrong := fixedURL(v.fallback); wrong == "" && u.RawQuery == "" {
		example = u.String()
	}
	b.fields = append(b.fields, configField{name, fieldForm{Type: "url", Title: title(v.name), Description: v.words,
		Example: example}})
	path, wrong := w.path(b, parts[1:])
	b.url, b.entry = "${config."+name+"}"+path, "${config."+name+"}"
	b.asked = true
	return b, wrong
}

// sourceOrigin returns the host of the document's own URL with the path of a relative server.
func (w *drafter) sourceOrigin(relative string) (string, string) {
	u, wrong := fixedURL(w.options.Source)
	if wrong != "" {
		return "", "is relative, and there is no https URL of the document"
	}
	if !strings.HasPrefix(relative, "/") {
		folder := u.EscapedPath()
		relative = folder[:strings.LastIndexByte(folder, '/')+1] + strings.TrimPrefix(relative, "./")
	}
	return u.Host + "/" + strings.TrimLeft(relative, "/"), ""
}

// cutAuthority cuts the pieces behind the scheme at the first slash.
func cutAuthority(parts []piece) (authority, path []piece) {
	for i, p := range parts {
		if p.variable == nil {
			if end := strings.IndexByte(p.text, '/'); end >= 0 {
				authority = append(authority, piece{text: p.text[:end]})
				return authority, append([]piece{{text: p.text[end:]}}, parts[i+1:]...)
			}
		}
		authority = append(authority, p)
	}
	return authority, nil
}

// add adds a field of connection_config for a variable, and returns its name. A host's default is only an example
// unless the document lists the hosts: credentials would go to the customer whose name the document has.
func (w *drafter) add(b *base, v *variable, inHost bool) string {
	for _, f := range b.fields {
		if f.variable == v.name {
			return f.Name
		}
	}
	name := w.fieldName(b, v.name)
	f := fieldForm{Title: title(v.name), Description: v.words, variable: v.name}
	fallback := plainText(v.fallback, maxTag)
	switch {
	case len(v.choices) > 0:
		f.Enum = v.choices
		if v.fallback != "" {
			f.Default = v.fallback
		}
	case inHost && hostExample.MatchString(fallback):
		f.Example = fallback
	case !inHost && fallback == v.fallback:
		f.Default = fallback
	}
	b.fields = append(b.fields, configField{name, f})
	return name
}

// exampleOf returns a server's URL with the defaults of its variables; empty if that is none that a form accepts.
func (w *drafter) exampleOf(s *server) string {
	parts, wrong := w.pieces(s)
	if wrong != "" {
		return ""
	}
	text := ""
	for _, p := range parts {
		if p.variable == nil {
			text += p.text
		} else {
			text += p.fallback
		}
	}
	text = strings.Replace(text, "http://", "https://", 1)
	u, wrong := fixedURL(strings.TrimRight(text, "/"))
	if wrong != "" || u.RawQuery != "" || strings.Contains(u.Path, "//") {
		return ""
	}
	return u.String()
}
