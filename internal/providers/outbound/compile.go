package outbound

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/internal/platform/secretbox"
)

// compiler builds the engine of a declaration.
type compiler struct {
	*Engine
	problems problems
	config   scope
	// used are the fields of connection_config that anything mentions.
	used map[string]bool
	// declared are the declarations of the modes, and paths their places.
	declared []*Auth
	paths    []string
	// mode is the one that is compiled, nil for what all modes share; uses are the fields that each of them needs.
	mode *Mode
	uses map[*Mode]map[string]bool
}

// Compile checks a declaration, which must not be changed afterwards. The error is a *ConfigError with every problem
// found; its fields are paths into the declaration.
//
// URLs are checked with values that their fields may have: defaults, examples and listed values. A URL whose host is
// not among the allowed ones is a problem, and so is a name in a template that does not exist in its place.
func Compile(d Declaration) (*Engine, error) {
	c := &compiler{Engine: &Engine{inHost: map[string]bool{}, ownHeaders: map[string]bool{},
		ownQuery: map[string]bool{}}, used: map[string]bool{}, uses: map[*Mode]map[string]bool{nil: {}}}
	c.fields = compileConfig(d.ConnectionConfig, &c.problems)
	c.config = withConfig(c.fields)
	c.compileHosts(d.AllowedHosts, d.OwnSuffixes)
	c.bases, c.baseTexts = c.compileBases("base_url", d.BaseURL, &Mode{}) // the modes that have them are not known yet
	c.compileModes(d.Auth)
	c.shareBases()
	compileScopes(d.Scopes, c.modes, &c.problems)
	c.compileRequests(&d)
	c.compileHealth(d.Health)
	c.compileLimits(d.RateLimit)
	c.compileErrors(d.Errors)
	c.giveConfig()
	c.checkMetadata()
	c.checkUse()
	c.checkRequired()
	if len(c.problems) == 0 {
		c.checkSamples()
	}
	if err := c.problems.unique().err(); err != nil {
		return nil, err
	}
	return c.Engine, nil
}

// text reads a template in a scope. It returns nil after a problem.
func (c *compiler) text(field, text string, names scope) *template {
	t, err := parseTemplate(text)
	if err != nil {
		c.problems.add(field, "%s", err)
		return nil
	}
	if wrong := names.check(t); wrong != "" {
		c.problems.add(field, "%s", wrong)
		return nil
	}
	c.mark(t)
	return t
}

// mark notes the fields that a template uses.
func (c *compiler) mark(t *template) {
	for _, n := range t.names() {
		if n.space == spaceConfig {
			c.use(n.key)
		}
	}
}

// use notes that a field is used, by the mode that is compiled.
func (c *compiler) use(key string) {
	c.used[key] = true
	if c.uses[c.mode] == nil {
		c.uses[c.mode] = map[string]bool{}
	}
	c.uses[c.mode][key] = true
}

// giveConfig gives each mode the fields of connection_config that its requests use.
func (c *compiler) giveConfig() {
	for _, m := range c.modes {
		for i := range c.fields {
			f := &c.fields[i]
			if c.uses[nil][f.Name] || c.uses[m][f.Name] || c.gives(m, f.Name) {
				m.Config = append(m.Config, f.in(m))
			}
		}
	}
}

// gives reports whether the redirect, the token response or a probe of a mode gives a value of connection_config.
func (e *Engine) gives(m *Mode, key string) bool {
	_, redirect := m.OAuth.RedirectMetadata[key]
	_, token := m.Token.Metadata[key]
	return redirect || token || slices.ContainsFunc(e.probes, func(p *HealthProbe) bool {
		return p.covers(m) && p.Config[key] != ""
	})
}

// checkRequired checks for which modes a user has to give a value, and that values which no one gives are among them.
func (c *compiler) checkRequired() {
	uses := func(m *Mode, key string) bool {
		return slices.ContainsFunc(m.Config, func(f Field) bool { return f.Name == key })
	}
	for i := range c.fields {
		f := &c.fields[i]
		path := "connection_config." + f.Name
		if len(f.RequiredFor) > 0 && !f.Optional && f.Default == "" && f.Source == SourceUser {
			c.problems.add(path+".required_for", "says nothing: every mode that uses the field needs it")
		}
		for j, key := range f.RequiredFor {
			if m, ok := c.Mode(key); !ok || key == "" || !uses(m, f.Name) {
				c.problems.add(at(path+".required_for", j), "is not a mode of auth that uses the field")
			}
		}
		for _, m := range c.modes {
			if f.Source != SourceUser && !f.Optional && f.Default == "" && !f.requiredFor(m) && uses(m, f.Name) &&
				!c.gives(m, f.Name) {
				c.problems.add(path+".source", "gives no value in the mode %s, which uses the field; add it to required_for",
					m.Name)
			}
		}
	}
}

// url reads the template of a URL. It returns nil after a problem, or without one if the text is empty.
func (c *compiler) url(field, text string, names scope, withQuery bool) *urlTemplate {
	if text == "" {
		return nil
	}
	u, wrong := compileURL(text, names, withQuery)
	if wrong != "" {
		c.problems.add(field, "%s", wrong)
		return nil
	}
	c.markURL(u)
	return u
}

// markURL notes the fields that a URL uses.
func (c *compiler) markURL(u *urlTemplate) {
	c.mark(u.path)
	c.mark(u.query)
	if u.whole != "" {
		c.use(u.whole)
		c.inHost[u.whole] = true
		return
	}
	c.mark(u.host)
	for _, n := range u.host.names() {
		c.inHost[n.key] = true
	}
}

// public returns the fields of connection_config without secrets.
func (c *compiler) public() scope {
	out := maps.Clone(c.config)
	maps.DeleteFunc(out, func(_ name, k known) bool { return k.secret })
	return out
}

func (c *compiler) compileHosts(list, suffixes []string) {
	own := ownSuffixes{}
	for i, text := range suffixes {
		if wrong := checkOwnSuffix(text); wrong != "" {
			c.problems.add(at("own_suffixes", i), "%s", wrong)
			continue
		}
		own[text] = false
	}
	switch {
	case len(list) == 0:
		c.problems.add("allowed_hosts", "must list the hosts that may get credentials")
	case len(list) > maxHosts:
		c.problems.add("allowed_hosts", "has more than %d entries", maxHosts)
	}
	for i, text := range list {
		h, wrong := parseHost(text, c.public(), own)
		if wrong != "" {
			c.problems.add(at("allowed_hosts", i), "%s", wrong)
			continue
		}
		c.hosts, c.hostTexts = append(c.hosts, h), append(c.hostTexts, text)
	}
	for i, text := range suffixes {
		if used, ok := own[text]; ok && !used {
			c.problems.add(at("own_suffixes", i), "is over no open label of allowed_hosts")
		}
	}
	if len(suffixes) > maxHosts {
		c.problems.add("own_suffixes", "has more than %d entries", maxHosts)
	}
}

// compileBases reads base URLs of a mode.
func (c *compiler) compileBases(path string, list Texts, m *Mode) (bases []*urlTemplate, texts []string) {
	defer func(before *Mode) { c.mode = before }(c.mode)
	c.mode = m
	if len(list) > maxBaseURLs {
		c.problems.add(path, "has more than %d URLs", maxBaseURLs)
	}
	for i, text := range list {
		field := path
		if len(list) > 1 {
			field = at(field, i)
		}
		if text == "" {
			c.problems.add(field, errURLTemplate)
		}
		if u := c.url(field, text, c.public(), false); u != nil {
			bases, texts = append(bases, u), append(texts, text)
		}
	}
	return bases, texts
}

// shareBases notes which modes use the definition's base URLs.
func (c *compiler) shareBases() {
	shared := false
	for i, m := range c.modes {
		if c.declared[i].BaseURL != nil {
			continue
		}
		shared, c.mode = true, m
		for _, u := range c.bases {
			c.markURL(u)
		}
	}
	c.mode = nil
	switch {
	case (shared || len(c.modes) == 0) && len(c.baseTexts) == 0:
		c.problems.add("base_url", "needs 1 to %d URLs", maxBaseURLs)
	case !shared && len(c.modes) > 0 && len(c.baseTexts) > 0:
		c.problems.add("base_url", "is used by no mode: all have their own")
	}
}

// checkMetadata compares the sources of fields with the places that give their values.
func (c *compiler) checkMetadata() {
	given := map[string]FieldSource{}
	add := func(field, key string, source FieldSource) {
		f := c.field(key)
		if f == nil || f.Source != source {
			c.problems.add(field, "must be a field of connection_config with the source %s", source)
			return
		}
		if f.Secret && source == SourceTokenResponse {
			c.problems.add(field, "must be a field that is no secret; a refresh would lose it")
			return
		}
		given[key] = source
	}
	for i, m := range c.modes {
		for _, key := range slices.Sorted(maps.Keys(m.OAuth.RedirectMetadata)) {
			add(c.paths[i]+".redirect_metadata."+key, key, SourceRedirect)
		}
		for _, key := range slices.Sorted(maps.Keys(m.Token.Metadata)) {
			add(c.paths[i]+".token_metadata."+key, key, SourceTokenResponse)
		}
	}
	for i, p := range c.probes {
		for _, key := range slices.Sorted(maps.Keys(p.Config)) {
			add(at("health.probes", i)+".config."+key, key, SourceProbe)
		}
	}
	for _, f := range c.fields {
		if f.Source != SourceUser && given[f.Name] == "" {
			c.problems.add("connection_config."+f.Name+".source", "names a source from which nothing takes the value")
		}
	}
}

// checkUse reports fields that people would enter for nothing.
func (c *compiler) checkUse() {
	for i := range c.hosts { // no mode needs a value only to compare hosts with it
		c.used[c.hosts[i].whole] = true
		for _, label := range c.hosts[i].labels {
			if label == nil {
				continue
			}
			for _, n := range label.names() {
				c.used[n.key] = true
			}
		}
	}
	for _, f := range c.fields {
		if f.Source == SourceUser && !c.used[f.Name] {
			c.problems.add("connection_config."+f.Name, "is used nowhere")
		}
	}
}

// checkSamples renders every URL with values that its fields may have.
func (c *compiler) checkSamples() {
	report := func(field string, u *urlTemplate, err error) {
		message := problemOf(err)
		switch message {
		case "":
			return
		case errHostElsewhere:
			message += "; if credentials may go there, add the line: - " + u.hostEntry()
		}
		c.problems.add(field, "%s", message)
	}
	for _, config := range samples(c.Engine) {
		for i, m := range c.modes {
			r := c.renderer(&Values{Target: Target{Config: config, AllowHTTP: true}, Credentials: sampleCredentials(m),
				Client: Client{ID: "sample", Secret: "sample", PrivateKey: "sample"}, Now: time.Unix(1, 0)}, m)
			field := "base_url"
			if len(m.bases) > 0 {
				field = c.paths[i] + ".base_url"
			}
			for _, u := range c.basesOf(m) {
				_, err := c.endpoint(r, "base_url", u)
				report(field, u, err)
			}
			for _, p := range c.probes {
				if p.url == nil || !p.covers(m) {
					continue
				}
				_, err := c.endpoint(r, p.field, p.url)
				report(p.field+".url", p.url, err)
			}
			for field, u := range m.endpoints() {
				_, err := c.endpoint(r, field, u)
				report(c.paths[i]+"."+field, u, err)
			}
		}
	}
}

// samples returns values with which the definition is checked: for every listed value one set at least.
func samples(e *Engine) []Config {
	base := Config{}
	for i := range e.fields {
		base[e.fields[i].Name] = secretbox.Secret(e.fields[i].sample())
	}
	out := []Config{base}
	for i := range e.fields {
		for _, value := range e.fields[i].Enum {
			varied := maps.Clone(base)
			varied[e.fields[i].Name] = secretbox.Secret(value)
			out = append(out, varied)
		}
	}
	return out
}

func sampleCredentials(m *Mode) map[string]secretbox.Secret {
	out := map[string]secretbox.Secret{}
	for i := range m.Fields {
		out[m.Fields[i].Name] = secretbox.Secret(m.Fields[i].sample())
	}
	return out
}

// pairs reads a mapping of templates. The names of headers may be templates of connection_config.
func (c *compiler) pairs(field string, m map[string]string, values, names scope) []pair {
	if len(m) > maxEntries {
		c.problems.add(field, "has more than %d entries", maxEntries)
	}
	var out []pair
	for _, key := range slices.Sorted(maps.Keys(m)) {
		place := under(field, key)
		p := pair{name: c.text(place, key, names), value: c.text(place, m[key], values), field: place}
		if p.name != nil && p.value != nil {
			out = append(out, p)
		}
	}
	return out
}

// headers reads a mapping of headers.
func (c *compiler) headers(field string, m map[string]string, values scope) []pair {
	out := c.pairs(field, m, values, c.public())
	for _, p := range out {
		if text, ok := p.name.literal(); ok {
			if !OwnableHeader(text) {
				c.problems.add(p.field, "is not the name of a header that a definition can set")
			}
		}
	}
	return out
}

// OwnableHeader reports whether a definition or a connection may name the header: not those that frame the message or
// direct it to a host.
func OwnableHeader(header string) bool {
	if !headerName.MatchString(header) {
		return false
	}
	return !connectionHeader(http.CanonicalHeaderKey(header))
}

// connectionHeader reports whether a header is about one connection or the framing of one message (RFC 9110 sections
// 7.2 and 7.6.1).
func connectionHeader(canonical string) bool {
	switch canonical {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Keep-Alive", "Expect",
		"Http2-Settings", "Forwarded", "Via":
		return true
	default:
		return strings.HasPrefix(canonical, "Proxy-") || strings.HasPrefix(canonical, "X-Forwarded-")
	}
}
