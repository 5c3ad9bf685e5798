package outbound

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/secretbox"
)

// Engine is a compiled declaration. It is immutable and safe for concurrent use.
type Engine struct {
	fields []Field
	// inHost are the fields that stand in a host.
	inHost    map[string]bool
	bases     []*urlTemplate
	hosts     []hostPattern
	hostTexts []string
	baseTexts []string
	modes     []*Mode
	userAgent string
	redirects Redirects
	probes    []*HealthProbe
	limits    Limits
	judge     judgement
	// own are the headers and query parameters that any mode sets, where their names are fixed.
	ownHeaders, ownQuery map[string]bool
	// foreign is true if not the operator wrote the definition.
	foreign bool
}

// Foreign returns an engine for a definition that a user of one environment made. New versions of it add no hosts to
// those for which credentials were given, and all its hosts count as chosen by a setting: else anyone who may change
// such a definition could read the credentials.
func Foreign(e *Engine) *Engine {
	f := *e
	f.foreign = true
	return &f
}

// Target is where the requests of a connection go.
type Target struct {
	// Mode is the name of its mode; the first one if empty.
	Mode string
	// Config comes from ResolveConfig.
	Config Config
	// BaseURL replaces the definition's; empty for none. Its host has to be an allowed one.
	BaseURL string
	// AllowHTTP accepts http:// where the egress policy allows unencrypted requests and the address.
	AllowHTTP bool
}

// Client is the OAuth client of a provider config.
type Client struct {
	ID         string
	Secret     secretbox.Secret
	PrivateKey secretbox.Secret
	// KeyID is the name of PrivateKey at the provider; empty for none.
	KeyID string
}

// Values are what templates are rendered from.
type Values struct {
	Target
	// Credentials are those of the connection, and the access token if the mode has one.
	Credentials map[string]secretbox.Secret
	Client      Client
	Now         time.Time
}

// BaseURLs returns the templates of the definition's base URL, in their order. Modes can have others.
func (e *Engine) BaseURLs() []string { return slices.Clone(e.baseTexts) }

// AllowedHosts returns the entries of allowed_hosts.
func (e *Engine) AllowedHosts() []string { return slices.Clone(e.hostTexts) }

// FollowRedirects says which redirects of responses are followed.
func (e *Engine) FollowRedirects() Redirects { return e.redirects }

// renderer returns a renderer for a mode.
func (e *Engine) renderer(v *Values, m *Mode) *renderer {
	return &renderer{engine: e, values: v, mode: m, blame: "base_url"}
}

// allowed returns the URL if credentials may go there, and an error about the field otherwise.
func (e *Engine) allowed(r *renderer, field string, u *url.URL, err error) (*url.URL, error) {
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" && !r.values.AllowHTTP {
		return nil, refuse(field, "is not https, which requests with credentials need")
	}
	host := hostOf(u)
	for i := range e.hosts {
		if e.hosts[i].match(host, r) {
			return u, nil
		}
	}
	return nil, refuse(field, errHostElsewhere)
}

const errHostElsewhere = "has a host that is not among the allowed_hosts of the definition"

// AllowsURL reports whether a base URL leads to a host that every connection may send credentials to: one of an entry
// of allowed_hosts that depends on no setting of the connection. http:// is accepted if allowHTTP says so.
func (e *Engine) AllowsURL(u *url.URL, allowHTTP bool) bool {
	r := e.renderer(&Values{Target: Target{AllowHTTP: allowHTTP}}, &Mode{})
	_, err := e.allowed(r, "base_url", u, nil)
	return err == nil
}

// base returns the base URLs of a connection.
func (e *Engine) base(r *renderer) ([]*url.URL, error) {
	if override := r.values.BaseURL; override != "" {
		parsed, wrong := parseURL(override)
		if wrong == "" && (parsed.RawQuery != "" || parsed.ForceQuery) {
			wrong = "must not have a query"
		}
		if wrong != "" {
			return nil, refuse("base_url", wrong)
		}
		u, err := e.allowed(r, "base_url", parsed, nil)
		if err != nil {
			return nil, err
		}
		return []*url.URL{u}, nil
	}
	var out []*url.URL
	for _, base := range e.basesOf(r.mode) {
		r.blame = "base_url"
		u, err := base.render(r)
		if u, err = e.allowed(r, "base_url", u, err); err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

// basesOf returns the base URLs of a mode: its own, or the definition's.
func (e *Engine) basesOf(m *Mode) []*urlTemplate {
	if len(m.bases) > 0 {
		return m.bases
	}
	return e.bases
}

// originOf names a host to which credentials may go: with http:// where requests are not encrypted, so that a change to
// such is one of the host.
func originOf(u *url.URL) string {
	if u.Scheme == "https" {
		return hostOf(u)
	}
	return u.Scheme + "://" + hostOf(u)
}

// Hosts returns exactly the hosts to which credentials of such a connection may go, sorted: of the base URLs, of the
// endpoints for tokens, and of probes with a URL of their own. Only settings that stand in a host have to be known.
// Each is in lower case, with its port where that is not 443 (or 80 of http), and after http:// where that is its
// scheme. The error is a *ConfigError.
//
// A connection's credentials belong to these hosts. If they change, the credentials have to be given again.
func (e *Engine) Hosts(t Target) ([]string, error) {
	m, ok := e.Mode(t.Mode)
	if !ok {
		return nil, refuse("mode", "is not a mode of this provider")
	}
	r := e.renderer(&Values{Target: t}, m)
	hosts := map[string]bool{}
	if t.BaseURL != "" {
		urls, err := e.base(r)
		if err != nil {
			return nil, err
		}
		hosts[originOf(urls[0])] = true
	}
	if err := e.addHosts(r, e.targets(&t, m), hosts); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(hosts)), nil
}

// FixedHosts returns those of Hosts that the definition names for all connections, for any settings, so that only
// another version of the definition changes them.
func (e *Engine) FixedHosts(t Target) []string {
	m, ok := e.Mode(t.Mode)
	if !ok {
		return nil
	}
	targets := e.targets(&t, m)
	maps.DeleteFunc(targets, func(_ string, u *urlTemplate) bool { return e.foreign || !u.isFixed() })
	hosts := map[string]bool{}
	if err := e.addHosts(e.renderer(&Values{Target: t}, m), targets, hosts); err != nil {
		return nil // as Hosts reports
	}
	return slices.Sorted(maps.Keys(hosts))
}

// targets returns the URLs that requests with credentials of a mode go to, by their fields, but for a base URL that
// replaces the definition's.
func (e *Engine) targets(t *Target, m *Mode) map[string]*urlTemplate {
	out := m.endpoints()
	delete(out, fieldAuthorize) // no credential goes there
	if t.BaseURL == "" {
		for i, base := range e.basesOf(m) {
			out["base_url "+strconv.Itoa(i)] = base
		}
	}
	for _, p := range e.probes {
		if p.url != nil && p.covers(m) && p.Sent(t.Config) {
			out[p.field] = p.url
		}
	}
	return out
}

// addHosts adds the hosts of URLs, in the order of their fields.
func (e *Engine) addHosts(r *renderer, urls map[string]*urlTemplate, hosts map[string]bool) error {
	for _, field := range slices.Sorted(maps.Keys(urls)) {
		blame, _, _ := strings.Cut(field, " ")
		if err := e.addHost(r, blame, urls[field], hosts); err != nil {
			return err
		}
	}
	return nil
}

// addHost adds the host of a URL, which has to be an allowed one.
func (e *Engine) addHost(r *renderer, field string, t *urlTemplate, hosts map[string]bool) error {
	r.blame = field
	u, err := t.onlyHost(r)
	if u, err = e.allowed(r, field, u, err); err != nil {
		return err
	}
	hosts[originOf(u)] = true
	return nil
}

// EndpointHosts returns those of Hosts to which requests of the mode's token protocol go. The base URL, which may need
// a value of the token response, is not looked at.
func (e *Engine) EndpointHosts(t Target) ([]string, error) {
	m, ok := e.Mode(t.Mode)
	if !ok {
		return nil, refuse("mode", "is not a mode of this provider")
	}
	urls, hosts := m.endpoints(), map[string]bool{}
	delete(urls, fieldAuthorize) // no credential goes there
	if err := e.addHosts(e.renderer(&Values{Target: t}, m), urls, hosts); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(hosts)), nil
}

// ChosenHosts returns those of Hosts to which the OAuth client of the provider configuration would be sent because a
// setting of the connection says so: a URL whose host is neither one of an entry of allowed_hosts with a fixed end nor
// that of the setting's default. It returns none for a mode without such a client.
func (e *Engine) ChosenHosts(t Target) ([]string, error) {
	m, ok := e.Mode(t.Mode)
	if !ok {
		return nil, refuse("mode", "is not a mode of this provider")
	}
	if !m.Client {
		return nil, nil
	}
	urls := m.endpoints()
	if m.Kind == OAuth1 { // the client signs every request
		urls = e.targets(&t, m)
	}
	delete(urls, fieldAuthorize)
	r := e.renderer(&Values{Target: t}, m)
	hosts := map[string]bool{}
	for field, u := range urls {
		r.blame, _, _ = strings.Cut(field, " ")
		parsed, err := u.onlyHost(r)
		if err != nil {
			return nil, err
		}
		if e.foreign || !e.fixes(r, u, parsed) {
			hosts[originOf(parsed)] = true
		}
	}
	return slices.Sorted(maps.Keys(hosts)), nil
}

// ClientHosts says where the OAuth client of a mode goes only if its provider configuration permits it, for connections
// whose settings have their defaults. hosts are those of ChosenHosts, as far as they are known without other settings;
// required is also true where each connection chooses the host.
func ClientHosts(e *Engine, mode string) (hosts []string, required bool) {
	m, ok := e.Mode(mode)
	if !ok || !m.Client {
		return nil, false
	}
	config, _ := e.ResolveConfig(m.Name, nil) // settings that are missing are those that each connection chooses
	hosts, err := e.ChosenHosts(Target{Mode: m.Name, Config: config})
	if err == nil {
		return hosts, len(hosts) > 0
	}
	if e.foreign {
		return nil, true
	}
	urls := m.endpoints()
	if m.Kind == OAuth1 {
		urls = e.targets(&Target{}, m)
	}
	delete(urls, fieldAuthorize)
	for _, u := range urls {
		chosen := func(h hostPattern) bool { return h.whole != "" && h.whole == u.whole }
		if slices.ContainsFunc(e.hosts, chosen) && config[u.whole] == "" {
			return nil, true
		}
	}
	return nil, false
}

// fixes reports whether the definition leads to the host of a URL for all connections.
func (e *Engine) fixes(r *renderer, t *urlTemplate, u *url.URL) bool {
	for i := range e.hosts {
		h := &e.hosts[i]
		if h.whole == "" {
			// A setting can also choose to have no encryption.
			if (t.whole == "" || u.Scheme == "https") && h.match(hostOf(u), r) {
				return true
			}
			continue
		}
		if f := e.field(h.whole); f != nil {
			if usual, wrong := parseURL(f.Default); wrong == "" && originOf(usual) == originOf(u) {
				return true
			}
		}
	}
	return false
}

// onlyHost returns the URL without path and query, whose values may not be known yet.
func (u *urlTemplate) onlyHost(r *renderer) (*url.URL, error) {
	text, err := u.base(r)
	if err != nil {
		return nil, err
	}
	parsed, wrong := parseURL(text)
	if wrong != "" {
		return nil, refuse(r.blame, wrong)
	}
	return parsed, nil
}

// The fields of endpoints.
const (
	fieldAuthorize    = "authorize_url"
	fieldToken        = "token_url"
	fieldRefresh      = "refresh_url"
	fieldRequestToken = "request_token_url"
	fieldRevoke       = "revoke_url"
)

// endpoints returns the URLs of the mode that the definition has, by their fields.
func (m *Mode) endpoints() map[string]*urlTemplate {
	out := map[string]*urlTemplate{}
	for field, u := range map[string]*urlTemplate{fieldAuthorize: m.authorizeURL, fieldToken: m.tokenURL,
		fieldRefresh: m.refreshURL, fieldRequestToken: m.requestTokenURL, fieldRevoke: m.revokeURL} {
		if u != nil {
			out[field] = u
		}
	}
	if m.revoke != nil {
		out["revoke.url"] = m.revoke.url
	}
	if m.login != nil {
		out["login.url"] = m.login.url
	}
	return out
}
