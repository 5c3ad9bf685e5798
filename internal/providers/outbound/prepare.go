package outbound

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Outgoing is a request to the provider's API as a caller makes it: without credentials.
type Outgoing struct {
	Method string
	// Path is relative to the base URL, begins with / and is percent-encoded (RFC 3986).
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte
	// Base is the place of the base URL in the order of fall-backs; 0 for the first.
	Base int
	// BaseURL is that of an action, as CheckBaseURL accepts it; empty for that of the definition. One that the
	// connection's target replaces is replaced for all actions.
	BaseURL string
}

const defaultUserAgent = "Sallyport"

// Prepare renders and signs a request. Its URL is below the base URL of the connection, on a host that is allowed to
// get credentials; its header and query are those of the caller without names that carry credentials, with those of the
// definition. The error is a *ConfigError that quotes no value.
func (e *Engine) Prepare(ctx context.Context, out Outgoing, v Values) (*http.Request, error) {
	m, ok := e.Mode(v.Mode)
	if !ok {
		return nil, refuse("mode", "is not a mode of this provider")
	}
	r := e.renderer(&v, m)
	base, err := baseOf(e, r, &out)
	if err != nil {
		return nil, err
	}
	u, err := join(base, out.Path)
	if err != nil {
		return nil, err
	}
	return e.complete(ctx, r, u, out)
}

// PrepareRedirect renders the request to which a response redirects a read. On the host of the connection's base URL,
// and with its scheme, it is signed as any other; elsewhere it has nothing of the connection and of the caller's header
// but what is asked for. The URL may be any; the egress policy decides whether it can be reached. The error is a
// *ConfigError.
func PrepareRedirect(ctx context.Context, e *Engine, to *url.URL, out Outgoing, v Values) (*http.Request, error) {
	m, ok := e.Mode(v.Mode)
	if !ok {
		return nil, refuse("mode", "is not a mode of this provider")
	}
	r := e.renderer(&v, m)
	base, err := baseOf(e, r, &out)
	if err != nil {
		return nil, err
	}
	if to.User != nil || to.Opaque != "" || to.Host == "" || len(to.String()) > maxURL {
		return nil, refuse("redirect", "is not a URL that is followed")
	}
	target := *to
	target.Fragment, target.RawFragment = "", ""
	if target.Scheme == base.Scheme && hostOf(&target) == hostOf(base) {
		out.Query = target.Query()
		return e.complete(ctx, r, &target, out)
	}
	if target.Scheme != "https" && !v.AllowHTTP {
		return nil, refuse("redirect", "is not https")
	}
	req, err := newRequest(ctx, out.Method, &target, nil)
	if err != nil {
		return nil, err
	}
	if accept := out.Header.Get("Accept"); accept != "" {
		req.Header.Set("Accept", accept)
	}
	req.Header.Set("User-Agent", defaultUserAgent)
	return req, nil
}

// complete makes the request for a URL that was checked: with the query and the header of the caller and of the
// definition, and signed.
func (e *Engine) complete(ctx context.Context, r *renderer, u *url.URL, out Outgoing) (*http.Request, error) {
	m := r.mode
	query, err := e.mergeQuery(r, m, out.Query)
	if err != nil {
		return nil, err
	}
	u.RawQuery = query.Encode()
	req, err := newRequest(ctx, out.Method, u, out.Body)
	if err != nil {
		return nil, err
	}
	if err := e.mergeHeader(r, m, req, out.Header); err != nil {
		return nil, err
	}
	if err := sign(r, m, req, out.Body); err != nil {
		return nil, err
	}
	return req, nil
}

// baseOf returns the base URL of a request.
func baseOf(e *Engine, r *renderer, out *Outgoing) (*url.URL, error) {
	if out.BaseURL != "" && r.values.BaseURL == "" {
		names := withConfig(e.fields)
		maps.DeleteFunc(names, func(_ name, k known) bool { return k.secret })
		own, wrong := compileURL(out.BaseURL, names, false)
		if wrong != "" {
			return nil, refuse("base_url", wrong)
		}
		return e.endpoint(r, "base_url", own)
	}
	bases, err := e.base(r)
	if err != nil {
		return nil, err
	}
	if out.Base < 0 || out.Base >= len(bases) {
		return nil, refuse("base_url", "has no such fall-back")
	}
	return bases[out.Base], nil
}

// newRequest returns a request for a URL that was checked. Errors of net/http would quote the URL.
func newRequest(ctx context.Context, method string, u *url.URL, body []byte) (*http.Request, error) {
	if method == "" || !httpguts.ValidHeaderFieldName(method) {
		return nil, refuse("method", "is not a method of HTTP")
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://invalid", bytes.NewReader(body))
	if err != nil {
		return nil, refuse("method", "is not a method of HTTP")
	}
	if len(body) == 0 {
		req.Body, req.GetBody, req.ContentLength = http.NoBody, nil, 0
	}
	req.URL, req.Host = u, u.Host
	return req, nil
}

// join puts a path behind a base URL. The result is parsed again, and has the host of the base.
func join(base *url.URL, path string) (*url.URL, error) {
	if path != "" && path[0] != '/' {
		return nil, refuse("path", "must begin with /")
	}
	if len(path) > maxURL {
		return nil, refuse("path", "is longer than 2048 characters")
	}
	for i := range len(path) {
		if b := path[i]; b <= ' ' || b >= 0x7f || strings.IndexByte("\\\"<>^`{|}?#", b) >= 0 {
			return nil, refuse("path", "has a character that must be percent-encoded")
		}
	}
	if !safePath(path) {
		return nil, refuse("path", "has dot segments, backslashes, control characters or invalid escapes, also when it is "+
			"decoded twice")
	}
	if strings.HasPrefix(path, "//") {
		return nil, refuse("path", "begins with two slashes")
	}
	prefix := strings.TrimRight(base.EscapedPath(), "/")
	joined, err := url.Parse(base.Scheme + "://" + base.Host + prefix + path)
	if err != nil || joined.Host != base.Host || joined.User != nil || joined.EscapedPath() != prefix+path {
		return nil, refuse("path", "cannot be put behind the base URL")
	}
	return joined, nil
}

// mergeQuery returns the caller's parameters with those of the definition.
func (e *Engine) mergeQuery(r *renderer, m *Mode, given url.Values) (url.Values, error) {
	out := url.Values{}
	for key, values := range given {
		if AcceptsQuery(e, key) {
			out[key] = slices.Clone(values)
		}
	}
	for _, p := range m.query {
		r.blame = p.field
		key, err := r.text(p.name)
		if err != nil {
			return nil, err
		}
		value, err := r.entry(p.value, false)
		if err != nil {
			return nil, err
		}
		if key == "" || p.constant() && out.Has(key) {
			continue
		}
		delete(out, key)
		if value != "" {
			out.Set(key, value)
		}
	}
	return out, nil
}

// mergeHeader gives the request the caller's header without what carries credentials or frames the message, and that of
// the definition.
func (e *Engine) mergeHeader(r *renderer, m *Mode, req *http.Request, given http.Header) error {
	for key, values := range given {
		canonical := http.CanonicalHeaderKey(key)
		if !httpguts.ValidHeaderFieldName(key) || slices.ContainsFunc(values, func(s string) bool {
			return !httpguts.ValidHeaderFieldValue(s)
		}) {
			return refuse("header", "has a name or a value that HTTP does not allow")
		}
		if !AcceptsHeader(e, canonical) {
			continue
		}
		req.Header[canonical] = append(req.Header[canonical], values...)
	}
	if err := r.setHeaders(m.headers, req.Header); err != nil {
		return err
	}
	switch {
	case e.userAgent != "":
		req.Header.Set("User-Agent", e.userAgent)
	case req.Header.Get("User-Agent") == "":
		req.Header.Set("User-Agent", defaultUserAgent)
	}
	return nil
}

// AcceptsHeader reports whether a request can have a header of the caller's with this name: it does not frame the
// message, carries no credentials, and is none that the definition sets itself.
func AcceptsHeader(e *Engine, name string) bool {
	canonical := http.CanonicalHeaderKey(name)
	return !connectionHeader(canonical) && !credentialHeader(canonical) && !e.ownHeaders[canonical]
}

// AcceptsQuery reports whether the query can have a parameter of the caller's with this name: it is none that the
// definition sets itself.
func AcceptsQuery(e *Engine, name string) bool { return !e.ownQuery[name] }

// credentialHeader reports whether a header carries credentials of the caller, which are not the provider's.
func credentialHeader(canonical string) bool {
	return canonical == "Authorization" || canonical == "Cookie" || canonical == "Api-Key"
}

// setHeaders renders headers of the definition. Their names may come from a connection, and are checked again.
func (r *renderer) setHeaders(pairs []pair, header http.Header) error {
	for _, p := range pairs {
		r.blame = p.field
		key, err := r.text(p.name)
		if err != nil {
			return err
		}
		value, err := r.entry(p.value, true)
		if err != nil {
			return err
		}
		if key == "" || p.constant() && header.Get(key) != "" {
			continue
		}
		if !OwnableHeader(key) || !httpguts.ValidHeaderFieldName(key) {
			return refuse(r.nameField(p), errHeaderName)
		}
		header.Del(key)
		if value != "" {
			header.Set(key, value)
		}
	}
	return nil
}

const errHeaderName = "is not the name of a header that can be set"

// nameField names the value that the name of a header comes from.
func (r *renderer) nameField(p pair) string {
	for _, n := range p.name.names() {
		return "connection_config." + n.key
	}
	return p.field
}

// PrepareProbe renders a request that tests a connection.
func (e *Engine) PrepareProbe(ctx context.Context, p *HealthProbe, v Values) (*http.Request, error) {
	m, ok := e.Mode(v.Mode)
	if !ok {
		return nil, refuse("mode", "is not a mode of this provider")
	}
	r := e.renderer(&v, m)
	r.aws, r.blame = p.aws, p.field
	out := Outgoing{Method: p.Method, Header: http.Header{}, Body: p.Body}
	if p.Body != nil {
		out.Header.Set("Content-Type", "application/json")
	}
	if err := r.setHeaders(p.headers, out.Header); err != nil {
		return nil, err
	}
	if p.url != nil {
		u, err := e.endpoint(r, p.field, p.url)
		if err != nil {
			return nil, err
		}
		out.Query = u.Query()
		return e.complete(ctx, r, u, out)
	}
	r.blame = p.field
	before, after := cut(p.path, "?")
	path, err := r.path(before)
	if err != nil {
		return nil, err
	}
	text, err := r.query(after)
	if err != nil {
		return nil, err
	}
	out.Path = path
	if out.Query, err = url.ParseQuery(text); err != nil {
		return nil, refuse(p.field, "has a query that cannot be read")
	}
	return e.Prepare(ctx, out, v)
}

// cut cuts a template at the first separator in its literals.
func cut(t *template, sep string) (before, after *template) {
	before, after = &template{}, &template{}
	for i, p := range t.parts {
		first, second, found := strings.Cut(p.literal, sep)
		if p.expr == nil && found {
			before.parts = append(before.parts, part{literal: first})
			after.parts = append([]part{{literal: second}}, t.parts[i+1:]...)
			return before, after
		}
		before.parts = append(before.parts, p)
	}
	return before, after
}

// Probes returns the requests that test a connection of a mode.
func (e *Engine) Probes(mode string) []*HealthProbe {
	m, ok := e.Mode(mode)
	if !ok {
		return nil
	}
	var out []*HealthProbe
	for _, p := range e.probes {
		if p.covers(m) {
			out = append(out, p)
		}
	}
	return out
}

// Sent reports whether the probe is sent for connections with these settings: one whose URL is an optional setting is
// not without it.
func (p *HealthProbe) Sent(config Config) bool {
	return p.url == nil || !p.optional || config[p.url.whole] != ""
}

// Account is the provider's account that a probe found. Its texts are foreign, printable and bounded.
type Account struct{ ID, Label string }

// JudgeProbe judges the response to a probe: OK is true if its status is one of the probe's and the body does not say
// otherwise. It returns the account, and the values of connection_config that the connection does not have and the
// response has; values that the fields do not accept are left out.
func (e *Engine) JudgeProbe(p *HealthProbe, config Config, r Response, now time.Time) (Verdict, Account,
	map[string]string) {
	v := e.Judge(r, now)
	v.OK = p.ok.has(r.Status) && !v.AuthFailed && !v.Limited &&
		(e.judge.success == nil || r.Status/100 != 2 || e.judge.success.Holds(&r))
	if !v.OK {
		return v, Account{}, nil
	}
	var found map[string]string
	for key, pointer := range p.configPointers {
		value, _ := r.text(pointer)
		if f := e.field(key); f != nil && value != "" && config[key] == "" && f.check(value) == "" {
			if found == nil {
				found = map[string]string{}
			}
			found[key] = value
		}
	}
	return v, Account{ID: clean(p.accountID.read(&r, config), maxAccount),
		Label: clean(p.accountLabel.read(&r, config), maxAccount)}, found
}

// String names the request as it is declared, without its host and with no value of a connection.
func (p *HealthProbe) String() string { return p.Method + " " + p.text }
