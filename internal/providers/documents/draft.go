package documents

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"

	"sallyport/internal/platform/jsonindex"
	"sallyport/internal/providers/outbound"
)

// DraftOptions say what a document does not.
type DraftOptions struct {
	// Slug is the provider's.
	Slug string
	// DisplayName is the title of the document if it is empty.
	DisplayName string
	// BaseURL is an https URL that replaces the servers of the document. It may be one that only the operator's network
	// knows.
	BaseURL string
	// Headers are those that all requests have, and Probe is the path to which a GET tests connections; empty for none.
	// They are as ReadHeader and CheckProbe accept them.
	Headers []Header
	Probe   string
	// Source is the URL of the document, from which relative servers follow; empty if it is not known.
	Source string
}

// Draft is the definition of a provider, made of what a document says about servers and security.
type Draft struct {
	// Definition is the text of the definition, in YAML. The engine for requests accepts it.
	Definition []byte
	// Hosts are its entries of allowed_hosts, that of the base URL first.
	Hosts []string
	// TokenEndpoints are the URLs that get the credentials of OAuth clients.
	TokenEndpoints []string
	// AuthModes are the names of the modes; the first is the default.
	AuthModes []string
	// Notes say what could not be taken over, each with its place.
	Notes []string
}

// maxNotes is how many notes a draft has at most.
const maxNotes = 50

// drafter makes a draft.
type drafter struct {
	d       *Document
	options DraftOptions
	notes   []string
}

func (w *drafter) note(at jsonindex.Value, text string) {
	if n := problemAt(at, text).Error(); len(w.notes) < maxNotes && !slices.Contains(w.notes, n) {
		w.notes = append(w.notes, n)
	}
}

// Draft makes a provider of the document's servers and security. Errors are *Problem: options that cannot be used, or a
// document none of whose ways to authenticate can.
//
// No text of the document becomes anything but a text: values that templates would read are left out with a note.
func (d *Document) Draft(o DraftOptions) (*Draft, error) {
	w := &drafter{d: d, options: o}
	var b *base
	switch {
	case o.BaseURL != "":
		var wrong string
		if b, wrong = givenBase(o.BaseURL); wrong != "" {
			return nil, &Problem{Message: "the base URL " + wrong}
		}
	default:
		b = w.chooseAny()
		w.noteOwnServers()
	}
	notes := slices.Clone(w.notes)
	draft, err := w.make(b)
	var refused *outbound.ConfigError
	if errors.As(err, &refused) && !b.asked && o.BaseURL == "" {
		// The engine's rules for hosts are stricter, such as those for parts that connections choose.
		w.notes = notes
		w.note(b.at, "connections name the base URL, because the server "+quote(b.text)+" "+refused.Problems[0].Message)
		draft, err = w.make(w.askBase(w.servers()))
	}
	if errors.As(err, &refused) {
		return nil, &Problem{Message: "the definition would not be accepted: " + refused.Problems[0].Field + " " +
			refused.Problems[0].Message}
	}
	return draft, err
}

// chooseAny chooses the base URL as the format of the document has it.
func (w *drafter) chooseAny() *base {
	if isDiscovery(w.d.root) {
		return w.discoveryBase(w.d.root)
	}
	return w.chooseBase()
}

// givenBase reads a base URL that the operator gave, which may be one of a local network.
func givenBase(text string) (*base, string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || strings.Contains(text, "${"):
		return nil, "must be an absolute https URL"
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return nil, "must have no user name, no query and no fragment"
	}
	host := strings.TrimSuffix(strings.ToLower(u.Host), ":443")
	return &base{url: "https://" + host + strings.TrimRight(u.EscapedPath(), "/"), entry: host}, ""
}

// noteOwnServers notes the operations that have servers of their own.
func (w *drafter) noteOwnServers() {
	root := w.d.root.Get("servers")
	if !root.Exists() {
		return
	}
	var first jsonindex.Value
	count := 0
	for _, item := range w.d.root.Get("paths").Members() {
		for method, own := range item.Members() {
			if !isMethod(method) {
				continue
			}
			if s := w.d.ownServer(item, own); s.Exists() && count < MaxOperations {
				if count++; count == 1 {
					first = s
				}
			}
		}
	}
	if count > 0 {
		w.note(first, fmt.Sprintf("%d operations have servers of their own, such as %s, and are sent to the base URL "+
			"all the same", count, quote(first.Get("url").String())))
	}
}

// ownServer returns the first server of an operation if the document does not have it; absent if there is none.
func (d *Document) ownServer(item, own jsonindex.Value) jsonindex.Value {
	servers := own.Get("servers")
	if !servers.Exists() {
		servers = item.Get("servers")
	}
	var first jsonindex.Value
	count := 0
	for s := range servers.Items() {
		if count++; count > maxServers {
			break
		}
		if !first.Exists() {
			first = s
		}
		if slices.Contains(d.serverURLs(), strings.TrimRight(s.Get("url").String(), "/")) {
			return jsonindex.Value{}
		}
	}
	return first
}

// serverURLs returns the URLs of the document's servers, without slashes at their ends.
func (d *Document) serverURLs() []string {
	if d.urls == nil {
		d.urls = []string{}
		for s := range d.root.Get("servers").Items() {
			if len(d.urls) < maxServers {
				d.urls = append(d.urls, strings.TrimRight(s.Get("url").String(), "/"))
			}
		}
	}
	return d.urls
}

// fileForm is a definition as it is written.
type fileForm struct {
	Schema      int      `yaml:"schema"`
	Slug        string   `yaml:"slug"`
	DisplayName string   `yaml:"display_name"`
	Categories  []string `yaml:"categories,flow"`
	DocsURL     string   `yaml:"docs_url,omitempty"`
	// Config has a fieldForm by the name of each field.
	Config  yaml.MapSlice `yaml:"connection_config,omitempty"`
	BaseURL string        `yaml:"base_url"`
	Hosts   []string      `yaml:"allowed_hosts,flow"`
	Auth    []modeForm    `yaml:"auth"`
	Scopes  yaml.MapSlice `yaml:"scopes,omitempty"`
	Request *requestForm  `yaml:"request,omitempty"`
	Health  *healthForm   `yaml:"health,omitempty"`
}

type healthForm struct {
	Probes []probeForm `yaml:"probes"`
}

type probeForm struct {
	Method string `yaml:"method"`
	Path   string `yaml:"path"`
}

// configField is a field of connection_config.
type configField struct {
	Name string
	fieldForm
}

type fieldForm struct {
	Type        string   `yaml:"type,omitempty"`
	Title       string   `yaml:"title"`
	Description string   `yaml:"description,omitempty"`
	Pattern     string   `yaml:"pattern,omitempty"`
	Example     string   `yaml:"example,omitempty"`
	Enum        []string `yaml:"enum,flow,omitempty"`
	Default     string   `yaml:"default,omitempty"`
	Secret      bool     `yaml:"secret,omitempty"`
	// variable is the variable of a server, and key the place of an API key, that the field is for.
	variable, key string
}

// modeForm is a mode of authentication as it is written.
type modeForm struct {
	Mode          string                    `yaml:"mode"`
	Name          string                    `yaml:"name,omitempty"`
	Title         string                    `yaml:"title,omitempty"`
	Description   string                    `yaml:"description,omitempty"`
	AuthorizeURL  string                    `yaml:"authorize_url,omitempty"`
	TokenURL      string                    `yaml:"token_url,omitempty"`
	RefreshURL    string                    `yaml:"refresh_url,omitempty"`
	RevokeURL     string                    `yaml:"revoke_url,omitempty"`
	Params        map[string]string         `yaml:"authorize_params,omitempty"`
	DefaultScopes []string                  `yaml:"default_scopes,flow,omitempty"`
	AWS           *awsForm                  `yaml:"aws,omitempty"`
	Fields        map[string]credentialForm `yaml:"fields,omitempty"`
	Request       *requestForm              `yaml:"request,omitempty"`
}

type awsForm struct {
	Region  string `yaml:"region"`
	Service string `yaml:"service"`
}

type credentialForm struct {
	Title       string `yaml:"title,omitempty"`
	Description string `yaml:"description,omitempty"`
}

type requestForm struct {
	Headers map[string]string `yaml:"headers,omitempty"`
	Query   map[string]string `yaml:"query,omitempty"`
}

// make writes the definition for a base URL. The error is a *Problem, or that of the engine.
func (w *drafter) make(b *base) (*Draft, error) {
	m := &modes{w: w, base: b, fields: slices.Clone(b.fields), hosts: []string{b.entry},
		scopes: map[string]string{}, known: map[string]scheme{}}
	if err := m.collect(); err != nil {
		return nil, err
	}
	file := fileForm{Schema: 1, Slug: w.options.Slug, DisplayName: w.displayName(), Categories: []string{"imported"},
		DocsURL: w.docsURL(), BaseURL: b.url, Hosts: m.hosts, Auth: m.list, Scopes: m.scopeWords()}
	if len(w.options.Headers) > 0 {
		file.Request = &requestForm{Headers: map[string]string{}}
		for _, h := range w.options.Headers {
			file.Request.Headers[h.Name] = h.Value
		}
	}
	if w.options.Probe != "" {
		file.Health = &healthForm{[]probeForm{{http.MethodGet, w.options.Probe}}}
	}
	for _, f := range m.fields {
		file.Config = append(file.Config, yaml.MapItem{Key: f.Name, Value: f.fieldForm})
	}
	text, err := write(&file)
	if err != nil {
		return nil, err
	}
	draft := &Draft{Definition: text, Hosts: m.hosts, TokenEndpoints: m.endpoints, Notes: w.notes}
	for i := range m.list {
		draft.AuthModes = append(draft.AuthModes, m.list[i].name())
	}
	return draft, nil
}

// write writes a definition. The library leaves some texts without the quotes that they need, such as those that begin
// with a question mark; then all are in quotes, as in JSON.
func write(file *fileForm) ([]byte, error) {
	var problem *Problem
	for _, style := range []yaml.EncodeOption{yaml.IndentSequence(true), yaml.JSON()} {
		text, err := yaml.MarshalWithOptions(file, style)
		if err != nil {
			return nil, &Problem{Message: "the definition cannot be written"}
		}
		err = checkWritten(text, file)
		if err == nil {
			return text, nil
		}
		if !errors.As(err, &problem) {
			return nil, err
		}
	}
	return nil, problem
}

// checkWritten reads a definition as the engine does, and compares it with what was written: no text of a document may
// be read as anything else.
func checkWritten(text []byte, file *fileForm) error {
	var engine struct {
		Outbound outbound.Declaration `yaml:",inline"`
	}
	var again fileForm
	var config struct {
		Fields map[string]fieldForm `yaml:"connection_config"`
	}
	for _, into := range []any{&engine, &again, &config} {
		if yaml.Unmarshal(text, into) != nil {
			return &Problem{Message: "the definition cannot be written: a text of the document has no form in YAML"}
		}
	}
	same := len(config.Fields) == len(file.Config)
	for _, item := range file.Config {
		name, _ := item.Key.(string)
		form, _ := item.Value.(fieldForm)
		form.variable, form.key = "", ""
		same = same && reflect.DeepEqual(config.Fields[name], form)
	}
	again.Config = file.Config
	if !same || !reflect.DeepEqual(&again, file) {
		return &Problem{Message: "the definition cannot be written: a text of the document has another meaning in YAML"}
	}
	if _, err := outbound.Compile(engine.Outbound); err != nil {
		return err //nolint:wrapcheck // the caller looks at it
	}
	return nil
}

func (m *modeForm) name() string {
	if m.Name == "" {
		return m.Mode
	}
	return m.Name
}

// Limits of texts in a definition, in bytes; the definition's own are in characters.
const (
	maxLine    = 300
	maxCaption = 80
	maxName    = 40
)

func (w *drafter) displayName() string {
	for _, text := range []string{w.options.DisplayName, w.d.Title, w.options.Slug} {
		if text = plainText(text, maxCaption); text != "" {
			return text
		}
	}
	return "API"
}

// docsURL returns the documentation that the document names, or where the document is; empty for neither.
func (w *drafter) docsURL() string {
	root := w.d.root
	for _, text := range []string{root.Path("externalDocs", "url").String(), root.Get("documentationLink").String(),
		root.Path("info", "contact", "url").String(), root.Path("info", "termsOfService").String(), w.options.Source} {
		text = strings.TrimSpace(text)
		if text != plainText(text, maxURL) {
			continue
		}
		if _, wrong := fixedURL(strings.SplitN(text, "#", 2)[0]); wrong == "" {
			return text
		}
	}
	return ""
}

// plainText returns a text on one line with characters that print, which no template reads.
func plainText(text string, limit int) string {
	if len(text) > 4*maxDescription {
		text = short(text, 4*maxDescription)
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r) || r == unicode.ReplacementChar:
			return -1
		default:
			return r
		}
	}, text)
	for strings.Contains(text, "${") {
		text = strings.ReplaceAll(text, "${", "{")
	}
	return short(strings.Join(strings.Fields(text), " "), limit)
}

// quote shows a text of the document in a note.
func quote(text string) string { return `"` + plainText(text, maxTag) + `"` }

var userInfo = regexp.MustCompile(`//[^/@]*@`)

// quoteURL shows a URL without a password in it.
func quoteURL(text string) string { return quote(userInfo.ReplaceAllString(text, "//…@")) }

// title makes a title of the name of a variable or a scheme.
func title(name string) string {
	words := strings.Split(identifier(name, "value"), "_")
	words[0] = strings.ToUpper(words[0][:1]) + words[0][1:]
	for i, word := range words {
		switch word = strings.ToLower(word); word {
		case "api", "id", "jwt", "url":
			words[i] = strings.ToUpper(word)
		case "apikey":
			words[i] = "API key"
		case "oauth", "oauth2":
			words[i] = "OA" + word[2:]
		}
	}
	return strings.Join(words, " ")
}

// identifier makes a name of lower-case words with _ between them, of at most 40 bytes, of any text.
func identifier(text, fallback string) string {
	var out strings.Builder
	before := ' '
	for _, r := range text {
		isLetter, isDigit := r < unicode.MaxASCII && unicode.IsLetter(r), r >= '0' && r <= '9'
		switch {
		case out.Len() >= maxName:
		case !isLetter && (!isDigit || out.Len() == 0):
			if out.Len() > 0 && !strings.HasSuffix(out.String(), "_") {
				out.WriteByte('_')
			}
		default:
			if unicode.IsUpper(r) && unicode.IsLower(before) {
				out.WriteByte('_')
			}
			out.WriteRune(unicode.ToLower(r))
		}
		before = r
	}
	if name := strings.Trim(out.String()[:min(out.Len(), maxName)], "_"); name != "" {
		return name
	}
	return fallback
}

// distinctName returns a name that is not taken.
func distinctName(name string, taken func(string) bool) string {
	out := name
	for i := 2; taken(out); i++ {
		end := fmt.Sprintf("_%d", i)
		out = name[:min(len(name), maxName-len(end))] + end
	}
	return out
}

// fieldName returns the name of a new field of connection_config.
func (w *drafter) fieldName(b *base, name string) string {
	return distinctName(identifier(name, "value"), func(name string) bool {
		return slices.ContainsFunc(b.fields, func(f configField) bool { return f.Name == name })
	})
}
