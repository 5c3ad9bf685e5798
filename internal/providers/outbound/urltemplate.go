package outbound

import (
	"net/url"
	"strings"
)

// urlTemplate is the template of an absolute URL, cut into the parts that are encoded differently.
type urlTemplate struct {
	// whole is the field of type url that the URL begins with; else scheme, host and port are given.
	whole  string
	scheme string
	host   *template
	port   string
	path   *template
	query  *template
}

const errURLTemplate = "must be an absolute URL such as https://${config.subdomain}.acme.com/api, or begin with " +
	"${config.name} of a field of type url"

// compileURL reads the template of a URL. Names in the host come from connection_config only.
func compileURL(text string, names scope, withQuery bool) (*urlTemplate, string) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, err.Error()
	}
	if wrong := names.check(t); wrong != "" {
		return nil, wrong
	}
	u := &urlTemplate{path: &template{}, query: &template{}}
	rest := t.parts
	if len(rest) == 0 {
		return nil, errURLTemplate
	}
	if n, ok := rest[0].plain(); ok {
		if f := names[n].field; f == nil || f.Type != TypeURL {
			return nil, errURLTemplate
		}
		u.whole, rest = n.key, rest[1:]
		if len(rest) > 0 && (rest[0].expr != nil || !strings.HasPrefix(rest[0].literal, "/")) {
			return nil, "must have a path, which begins with /, or nothing behind ${config." + u.whole + "}"
		}
	} else if rest, err = u.cutAuthority(rest); err != nil {
		return nil, err.Error()
	}
	return u, u.cutPath(rest, names, withQuery)
}

// cutAuthority takes scheme, host and port off the parts.
func (u *urlTemplate) cutAuthority(parts []part) ([]part, error) {
	scheme, rest, found := strings.Cut(parts[0].literal, "://")
	if parts[0].expr != nil || !found || scheme != "https" && scheme != "http" {
		return nil, templateError(errURLTemplate)
	}
	u.scheme, u.host = scheme, &template{}
	parts = append([]part{{literal: rest}}, parts[1:]...)
	for i, p := range parts {
		if p.expr != nil {
			u.host.parts = append(u.host.parts, p)
			continue
		}
		end := strings.IndexAny(p.literal, "/?")
		text := p.literal
		if end >= 0 {
			text = p.literal[:end]
		}
		name, port, hasPort := strings.Cut(text, ":")
		if name != "" {
			u.host.parts = append(u.host.parts, part{literal: name})
		}
		last := end >= 0 || i == len(parts)-1
		if hasPort && (!last || !validPort(port)) {
			return nil, templateError("must have a port between 1 and 65535 behind its host, or none")
		}
		u.port = port
		if end >= 0 {
			return append([]part{{literal: p.literal[end:]}}, parts[i+1:]...), nil
		}
	}
	return nil, nil
}

// cutPath sorts the parts behind the authority into path and query.
func (u *urlTemplate) cutPath(parts []part, names scope, withQuery bool) string {
	place := u.path
	for _, p := range parts {
		if p.expr != nil {
			if n, ok := p.plain(); ok && names[n].field != nil && names[n].field.Type == TypeURL {
				return "has a URL inside another one"
			}
			place.parts = append(place.parts, p)
			continue
		}
		text := p.literal
		if before, after, found := strings.Cut(text, "?"); found && place == u.path {
			if !withQuery {
				return "must not have a query"
			}
			if before != "" {
				place.parts = append(place.parts, part{literal: before})
			}
			place, text = u.query, after
		}
		if text != "" {
			place.parts = append(place.parts, part{literal: text})
		}
	}
	for _, p := range append(u.path.parts, u.query.parts...) {
		if strings.ContainsFunc(p.literal, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune("\\\"<>^`{|}#", r)
		}) {
			return "has a character that must be percent-encoded"
		}
	}
	if u.host == nil {
		return ""
	}
	return u.checkHost(names)
}

// checkHost checks the texts and names of the host.
func (u *urlTemplate) checkHost(names scope) string {
	if text, ok := u.host.literal(); ok {
		if !validURLHost(text) {
			return "must have a host without empty labels and without a dot at its end"
		}
		return ""
	}
	for _, p := range u.host.parts {
		if p.expr == nil && strings.Contains(p.literal, "*") {
			return errURLTemplate
		}
	}
	return checkHostParts(u.host, names)
}

// render returns the URL for a connection's values, parsed once. The caller compares its host.
func (u *urlTemplate) render(r *renderer) (*url.URL, error) {
	text, err := u.base(r)
	if err != nil {
		return nil, err
	}
	path, err := r.path(u.path)
	if err != nil {
		return nil, err
	}
	query, err := r.query(u.query)
	if err != nil {
		return nil, err
	}
	text += path
	if len(u.query.parts) > 0 {
		text += "?" + query
	}
	parsed, wrong := parseURL(text)
	if wrong != "" {
		return nil, refuse(r.blame, wrong)
	}
	return parsed, nil
}

// isFixed reports whether the host is the same for all connections.
func (u *urlTemplate) isFixed() bool { return u.whole == "" && len(u.host.names()) == 0 }

// hostEntry returns the entry of allowed_hosts that the host fits.
func (u *urlTemplate) hostEntry() string {
	if u.whole != "" {
		return `"${config.` + u.whole + `}"`
	}
	var b strings.Builder
	for _, p := range u.host.parts {
		if n, ok := p.plain(); ok {
			b.WriteString("${" + n.String() + "}")
		} else {
			b.WriteString(p.literal)
		}
	}
	if u.port != "" && u.port != map[string]string{"https": "443", "http": "80"}[u.scheme] {
		b.WriteString(":" + u.port)
	}
	if u.isFixed() {
		return b.String()
	}
	return `"` + b.String() + `"`
}

// base returns the URL without path and query.
func (u *urlTemplate) base(r *renderer) (string, error) {
	if u.whole != "" {
		value := r.config(u.whole)
		parsed, wrong := parseURL(value)
		switch {
		case wrong != "":
			return "", refuse("connection_config."+u.whole, wrong)
		case parsed.RawQuery != "" || parsed.ForceQuery:
			return "", refuse("connection_config."+u.whole, "must not have a query")
		}
		return strings.TrimRight(value, "/"), nil
	}
	host, err := r.host(u.host)
	if err != nil {
		return "", err
	}
	if !validURLHost(host) {
		return "", refuse(r.blame, "makes a host that is no name")
	}
	if u.port != "" {
		host += ":" + u.port
	}
	return u.scheme + "://" + host, nil
}
