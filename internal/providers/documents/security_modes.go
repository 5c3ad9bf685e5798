package documents

import (
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"sallyport/internal/platform/jsonindex"
)

// modes collects the modes of a definition, and what they need besides.
type modes struct {
	w         *drafter
	base      *base
	list      []modeForm
	fields    []configField
	hosts     []string
	endpoints []string
	// scopes are the words of scopes by their names, in order.
	scopes map[string]string
	order  []string
	// known are the schemes that were read, by their names.
	known map[string]scheme
}

// scheme is what a security scheme is to a definition.
type scheme struct {
	at   jsonindex.Value
	name string
	// key is the place of an API key; else the scheme has variants.
	key *keyPlace
	// variants are the ways in which the scheme can be used.
	variants []modeForm
	// wrong says why the scheme cannot be used; empty if it can.
	wrong string
	// from is the authorization endpoint: schemes with the same one are the same grants in parts.
	from  string
	words string
	// notes say what of the scheme is left out.
	notes []string
}

// keyPlace is where an API key goes.
type keyPlace struct {
	header bool
	name   string
}

// collect makes modes of what operations need.
func (m *modes) collect() error {
	if isDiscovery(m.w.d.root) {
		m.discoveryModes(m.w.d.root)
		return nil
	}
	list, open := m.w.d.requirements()
	if f := m.w.d.Format; f != Swagger2 && f != OpenAPI30 && f != OpenAPI31 {
		m.anyModes()
		return nil
	}
	for i := range list {
		m.require(&list[i])
	}
	m.noteUnused(list)
	if len(list) == 0 {
		// Many documents leave it out, and not because the API is open to all.
		m.w.note(m.w.d.root, "the document has no security schemes, so that each connection chooses how it authenticates")
		m.anyModes()
		return nil
	}
	if open && len(m.list) < maxModes {
		m.list = append(m.list, modeForm{Mode: "none"})
	}
	if len(m.list) == 0 {
		return m.unusable(list)
	}
	m.titleModes()
	return nil
}

// unusable says why there is no mode.
func (m *modes) unusable(list []requirement) error {
	reason := ""
	if n := m.w.notes; len(n) > 0 {
		reason = ": " + n[len(n)-1]
	}
	at := m.w.d.root
	if len(list) > 0 {
		at = list[0].at
	}
	return problemAt(at, "the document has no way to authenticate that connections can use"+reason)
}

// noteUnused notes schemes that nothing needs.
func (m *modes) noteUnused(list []requirement) {
	count := 0
	for name, s := range m.w.d.schemes().Members() {
		if count++; count > maxSchemes {
			return
		}
		if !slices.ContainsFunc(list, func(r requirement) bool { return slices.Contains(r.names, name) }) {
			m.w.note(s, "the security scheme "+quote(name)+" is needed by no operation, and is left out")
		}
	}
}

// titleModes distinguishes modes of one kind for people.
func (m *modes) titleModes() {
	count := map[string]int{}
	for i := range m.list {
		count[m.list[i].Mode]++
	}
	for i := range m.list {
		if f := &m.list[i]; count[f.Mode] > 1 {
			f.Title = title(f.name())
		}
	}
}

// require makes modes of one requirement.
func (m *modes) require(r *requirement) {
	var parts []scheme
	all := m.w.d.schemes()
	for _, name := range r.names {
		at := m.w.d.resolve(all.Get(name))
		if at.Kind() != jsonindex.Object {
			m.w.note(r.at, "the security scheme "+quote(name)+" does not exist")
			return
		}
		s, known := m.known[name]
		if !known {
			s = m.scheme(name, at)
			m.known[name] = s
		}
		parts = append(parts, s)
	}
	parts = mergeGrants(parts)
	var keys []scheme
	var main *scheme
	for i := range parts {
		p := &parts[i]
		for _, n := range p.notes {
			m.w.note(p.at, "the security scheme "+quote(p.name)+" "+n)
		}
		switch {
		case p.wrong != "":
			m.w.note(p.at, "the security scheme "+quote(p.name)+" is left out"+together(parts)+": "+p.wrong)
			return
		case p.key != nil && slices.ContainsFunc(keys, func(k scheme) bool { return *k.key == *p.key }):
			// One key under two names.
		case p.key != nil:
			keys = append(keys, *p)
		case main != nil:
			m.w.note(r.at, "the security schemes "+quote(main.name)+" and "+quote(p.name)+" are left out: a request cannot "+
				"have both")
			return
		default:
			main = p
		}
	}
	m.combine(r, main, keys, parts)
}

// together ends a clause about a scheme that is needed with others.
func together(parts []scheme) string {
	if len(parts) < 2 {
		return ""
	}
	return " with those that are needed together with it"
}

// mergeGrants makes one scheme of those with the same authorization endpoint: some documents describe each grant as a
// scheme, and name all of them.
func mergeGrants(parts []scheme) (out []scheme) {
	for _, p := range parts {
		i := slices.IndexFunc(out, func(o scheme) bool { return o.from != "" && o.from == p.from })
		if i < 0 {
			out = append(out, p)
			continue
		}
		if o := &out[i]; onlyBearer(o.variants) {
			*o = p
		} else if !onlyBearer(p.variants) {
			o.variants = append(o.variants, p.variants...)
		}
	}
	return out
}

// onlyBearer reports whether no grant of a scheme can be used.
func onlyBearer(variants []modeForm) bool {
	return !slices.ContainsFunc(variants, func(v modeForm) bool { return v.Mode != "bearer" })
}

// combine adds the modes of schemes that are needed together: the first API key is the credential of a mode without
// another scheme, and others are values of the connection.
func (m *modes) combine(r *requirement, main *scheme, keys, parts []scheme) {
	var request requestForm
	put := func(k *keyPlace, value string) bool {
		if k.header {
			if main != nil && strings.EqualFold(k.name, "Authorization") {
				return false
			}
			for name := range request.Headers {
				if strings.EqualFold(name, k.name) {
					return false
				}
			}
			request.Headers = with(request.Headers, k.name, value)
			return true
		}
		_, there := request.Query[k.name]
		request.Query = with(request.Query, k.name, value)
		return !there
	}
	fields := slices.Clone(m.fields)
	var credentials map[string]credentialForm
	for i, k := range keys {
		value := "${cred.api_key}"
		if main != nil || i > 0 {
			value = "${config." + m.keyField(&k) + "}"
		} else {
			credentials = keyFields(&k)
		}
		if !put(k.key, value) {
			m.fields = fields
			m.w.note(r.at, "the security scheme "+quote(k.name)+" is left out"+together(parts)+": two of them have one place")
			return
		}
	}
	variants := []modeForm{{Mode: "api_key", Fields: credentials}}
	if main != nil {
		variants = main.variants
	}
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	for i, v := range variants {
		if len(m.list) == maxModes {
			m.w.note(r.at, "more ways to authenticate than 16 are left out")
			return
		}
		name := strings.Join(names, " ")
		if i > 0 {
			name = identifier(name, "auth")
			name = name[:min(len(name), maxName-len("_client"))] + "_client"
		}
		v.Name = distinctName(identifier(name, "auth"), func(name string) bool {
			return slices.ContainsFunc(m.list, func(o modeForm) bool { return o.name() == name })
		})
		if v.Name == v.Mode {
			v.Name = ""
		}
		if v.TokenURL != "" {
			v.DefaultScopes = r.scopes[main.name]
		}
		if v.Description == "" && len(parts) == 1 {
			v.Description = parts[0].words
		}
		if len(keys) > 0 {
			v.Request = &request
		}
		m.list = append(m.list, v)
	}
	m.takeEndpoints(variants)
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// keyFields describes the API key of a mode.
func keyFields(k *scheme) map[string]credentialForm {
	if k.key.header && strings.EqualFold(k.key.name, "Authorization") {
		return map[string]credentialForm{"api_key": {Title: "Authorization", Description: "The whole value of the header " +
			"Authorization, such as the word Bearer, a space and the token."}}
	}
	return nil
}

// keyField returns the name of the field of connection_config with an API key.
func (m *modes) keyField(k *scheme) string {
	place := "query " + k.key.name
	if k.key.header {
		place = "header " + strings.ToLower(k.key.name)
	}
	for _, f := range m.fields {
		if f.key == place {
			return f.Name
		}
	}
	name := distinctName(identifier(k.name, "key"), func(name string) bool {
		return slices.ContainsFunc(m.fields, func(f configField) bool { return f.Name == name })
	})
	m.fields = append(m.fields, configField{name, fieldForm{Title: title(k.name), Description: k.words, Secret: true,
		key: place}})
	return name
}

// takeEndpoints allows the hosts of endpoints, and takes the words of scopes.
func (m *modes) takeEndpoints(variants []modeForm) {
	for _, v := range variants {
		for _, u := range []string{v.AuthorizeURL, v.TokenURL, v.RefreshURL, v.RevokeURL} {
			if u == "" {
				continue
			}
			host, _, _ := strings.Cut(strings.TrimPrefix(u, "https://"), "/")
			host, _, _ = strings.Cut(host, "?")
			if !slices.Contains(m.hosts, host) {
				m.hosts = append(m.hosts, host)
			}
			if u != v.AuthorizeURL && !slices.Contains(m.endpoints, u) {
				m.endpoints = append(m.endpoints, u)
			}
		}
	}
}

// scopeWords returns the words of scopes, if a mode requests scopes.
func (m *modes) scopeWords() (out yaml.MapSlice) {
	if !slices.ContainsFunc(m.list, func(v modeForm) bool { return v.TokenURL != "" }) {
		return nil
	}
	for _, scope := range m.order {
		out = append(out, yaml.MapItem{Key: scope, Value: m.scopes[scope]})
	}
	return out
}

// maxScopes is how many scopes a definition describes.
const maxScopes = 500

// addScopes takes the words of scopes.
func (m *modes) addScopes(scopes jsonindex.Value) {
	for scope, words := range scopes.Members() {
		if len(m.scopes) == maxScopes {
			return
		}
		text := words.String()
		if words.Kind() == jsonindex.Object { // of the Discovery format
			text = words.Get("description").String()
		}
		text = strings.TrimRight(plainText(text, maxLine), " .")
		_, known := m.scopes[scope]
		if known || text == "" || text == scope || !isScope(scope) {
			continue
		}
		m.scopes[scope] = text
		m.order = append(m.order, scope)
	}
}

var (
	headerForm = regexp.MustCompile(`^[A-Za-z0-9!#%&'*+.^_|~-]{1,100}$`)
	queryForm  = regexp.MustCompile(`^[A-Za-z0-9_.~\[\]-]{1,100}$`)
)

// keyAt reads the place of an API key.
func keyAt(at jsonindex.Value) (key *keyPlace, wrong string) {
	name := at.Get("name").String()
	switch at.Get("in").String() {
	case "header":
		if !headerForm.MatchString(name) || isFraming(name) {
			return nil, "its header " + quote(name) + " is none that a connection can set"
		}
		return &keyPlace{true, name}, ""
	case "query":
		if !queryForm.MatchString(name) {
			return nil, "its parameter " + quote(name) + " has characters that no connection can send"
		}
		return &keyPlace{false, name}, ""
	case "cookie":
		return nil, "connections have no cookies"
	default:
		return nil, "an API key must be in the header or the query"
	}
}

// isFraming reports whether a header is about the message or the connection.
func isFraming(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains([]string{"host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade",
		"te", "trailer", "keep-alive", "expect", "http2-settings", "forwarded", "via", "cookie"}, name) ||
		strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "x-forwarded-")
}

// scheme reads a security scheme.
func (m *modes) scheme(name string, at jsonindex.Value) scheme {
	s := scheme{at: at, name: name, words: plainText(at.Get("description").String(), maxLine)}
	kind, way := at.Get("type").String(), strings.ToLower(at.Get("scheme").String())
	switch {
	case isAWS(at):
		s.variants = m.aws()
	case strings.HasPrefix(strings.ToLower(at.Get("x-amazon-apigateway-authtype").String()), "awssig"):
		s.wrong = "its signatures are of a version before 4"
	case kind == "apiKey":
		s.key, s.wrong = keyAt(at)
	case kind == "basic", kind == "http" && way == "basic":
		s.variants = []modeForm{{Mode: "basic"}}
	case kind == "http" && way == "bearer":
		s.variants = []modeForm{{Mode: "bearer"}}
	case kind == "http":
		s.wrong = "the scheme " + quote(way) + " of HTTP is neither basic nor bearer"
	case kind == "oauth2":
		m.grants(&s)
	case kind == "openIdConnect":
		s.notes = []string{"names its endpoints in another document, which is not read; connections take a token that was " +
			"made elsewhere"}
		s.variants = []modeForm{{Mode: "bearer", Description: madeElsewhere}}
	case kind == "mutualTLS":
		s.wrong = "connections have no client certificates"
	default:
		s.wrong = "the type " + quote(kind) + " is none that is known"
	}
	return s
}

const madeElsewhere = "An access token that was made elsewhere. It is not renewed."
