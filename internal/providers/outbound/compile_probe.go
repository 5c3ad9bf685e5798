package outbound

import (
	"net/http"
	"slices"
	"strings"

	"sallyport/internal/providers/verification"
)

// HealthProbe is a compiled Probe. It is shared: read it only.
type HealthProbe struct {
	Method string
	// Body is JSON; nil for none.
	Body []byte
	// Config has, by the field of connection_config, the JSON pointer to its value.
	Config map[string]string

	// field is its place in the declaration, and text the path and query as they are declared.
	field, text string
	// path is below the base URL; nil with a URL.
	path *template
	url  *urlTemplate
	// optional is true if the URL is that of an optional setting, without which the probe is not sent.
	optional       bool
	headers        []pair
	aws            *awsTemplate
	ok             statusSet
	modes          []string
	accountID      *place
	accountLabel   *place
	configPointers map[string]*verification.Pointer
	choice         *ProbeChoice
}

// place is a compiled Place.
type place struct {
	body           *verification.Pointer
	header, config string
}

// read returns the value at a place; empty without one.
func (p *place) read(r *Response, config Config) string {
	switch {
	case p == nil:
		return ""
	case p.header != "":
		return r.Header.Get(p.header)
	case p.config != "":
		return config[p.config].Reveal()
	default:
		text, _ := r.text(p.body)
		return text
	}
}

// compilePlace checks a place. It returns nil for an empty one.
func (e *Engine) compilePlace(field string, d Place, ps *problems) *place {
	given := 0
	for _, text := range []string{d.Body, d.Header, d.Config} {
		if text != "" {
			given++
		}
	}
	if given == 0 {
		return nil
	}
	if given > 1 {
		ps.add(field, "can have one of body, header and config")
	}
	if d.Header != "" && !headerName.MatchString(d.Header) {
		ps.add(field+".header", "must be the name of a header")
	}
	if f := e.field(d.Config); d.Config != "" && (f == nil || f.Secret) {
		ps.add(field+".config", "must be a field of connection_config that is no secret")
	}
	return &place{body: compilePointer(field, d.Body, ps), header: d.Header, config: d.Config}
}

func (c *compiler) compileHealth(h *Health) {
	if h == nil {
		return
	}
	if len(h.Probes) == 0 || len(h.Probes) > maxModes {
		c.problems.add("health.probes", "needs 1 to %d probes", maxModes)
	}
	for i := range h.Probes {
		c.compileProbe(&h.Probes[i], at("health.probes", i))
	}
}

func (c *compiler) compileProbe(d *Probe, path string) {
	p := &HealthProbe{Method: d.Method, modes: slices.Clone(d.Modes), ok: compileStatuses(path+".ok", d.OK, &c.problems),
		Config: d.Config, configPointers: map[string]*verification.Pointer{}, field: path}
	if p.Method == "" {
		p.Method = http.MethodGet
	}
	if len(p.ok) == 0 {
		p.ok = statusSet{-2: true}
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost}, p.Method) {
		c.problems.add(path+".method", "must be GET, HEAD or POST")
	}
	if d.Body != "" {
		if p.Method != http.MethodPost || len(d.Body) > maxText {
			c.problems.add(path+".body", "is for a POST, and has at most %d bytes", maxText)
		}
		p.Body = []byte(d.Body)
	}
	for j, mode := range d.Modes {
		if _, ok := c.Mode(mode); !ok || mode == "" {
			c.problems.add(at(path+".modes", j), "is not a mode of auth")
		}
	}
	if d.Account != nil {
		if d.Account.ID == (Place{}) {
			c.problems.add(path+".account.id", "is needed")
		}
		p.accountID = c.compilePlace(path+".account.id", d.Account.ID, &c.problems)
		p.accountLabel = c.compilePlace(path+".account.label", d.Account.Label, &c.problems)
	}
	for key, text := range d.Config {
		p.configPointers[key] = compilePointer(path+".config."+key, text, &c.problems)
	}
	if p.choice = d.Choice; d.Choice != nil {
		list, _, indexed := strings.Cut(d.Config[d.Choice.Config], firstItem)
		if !indexed {
			c.problems.add(path+".choice.config", "must be a field of config whose pointer has the segment 0")
		}
		if compilePointer(path+".choice.label", d.Choice.Label, &c.problems); !strings.HasPrefix(d.Choice.Label,
			list+firstItem) {
			c.problems.add(path+".choice.label", "must be a pointer that begins as that of the field, up to the segment 0")
		}
	}
	c.compileTarget(p, d)
	c.probes = append(c.probes, p)
}

// compileTarget reads where a probe goes, and the texts in it, in each of its modes: they may have the credentials
// without secrets that all of them have.
func (c *compiler) compileTarget(p *HealthProbe, d *Probe) {
	names := c.public()
	for key := range c.shared(p) {
		names[name{spaceCred, key}] = known{}
	}
	p.text = d.Path
	switch {
	case d.URL != "" && d.Path != "":
		c.problems.add(p.field+".url", "contradicts path: one of them is enough")
	case d.URL != "":
		_, rest, _ := strings.Cut(d.URL, "://")
		_, rest, _ = strings.Cut(rest, "/")
		p.text = "/" + rest
	case !strings.HasPrefix(d.Path, "/"):
		c.problems.add(p.field+".path", "must begin with /")
	}
	// Checked once, and noted for each of the modes.
	c.mode = &Mode{}
	defer func() { c.mode = nil }()
	if p.url = c.url(p.field+".url", d.URL, names, true); d.URL == "" {
		p.path = c.text(p.field+".path", d.Path, names)
	}
	if p.url != nil && p.url.whole != "" {
		f := c.field(p.url.whole)
		p.optional = f != nil && f.Optional
	}
	p.headers = c.headers(p.field+".headers", d.Headers, names)
	p.aws = c.compileAWS(p.field+".aws", d.AWS, names)
	for _, m := range c.modes {
		if !p.covers(m) {
			continue
		}
		if p.aws != nil && (m.Kind != AWSSigV4 || d.URL == "") {
			c.problems.add(p.field+".aws", "is for a url in modes of the kind %s", AWSSigV4)
		}
		c.mode = m
		for _, t := range p.templates() {
			c.mark(t)
		}
		if p.url != nil {
			c.markURL(p.url)
		}
		for _, at := range []*place{p.accountID, p.accountLabel} {
			if at != nil && at.config != "" {
				c.use(at.config)
			}
		}
	}
}

// templates returns the templates of a probe, without those of its URL.
func (p *HealthProbe) templates() []*template {
	var all []*template
	if p.path != nil {
		all = append(all, p.path)
	}
	if p.aws != nil && p.aws.region != nil && p.aws.service != nil {
		all = append(all, p.aws.region, p.aws.service)
	}
	for _, h := range p.headers {
		all = append(all, h.name, h.value)
	}
	return all
}

// shared returns the credentials without secrets that all modes of a probe have.
func (c *compiler) shared(p *HealthProbe) map[string]bool {
	var out map[string]bool
	for _, m := range c.modes {
		if !p.covers(m) {
			continue
		}
		visible := credNames(m, false)
		if out == nil {
			out = visible
		}
		for key := range out {
			if _, ok := visible[key]; !ok {
				delete(out, key)
			}
		}
	}
	return out
}

// covers reports whether the probe is for a mode.
func (p *HealthProbe) covers(m *Mode) bool {
	return len(p.modes) == 0 || slices.Contains(p.modes, m.Name)
}
