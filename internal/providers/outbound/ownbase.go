package outbound

import (
	"errors"
	"maps"
	"slices"
	"time"
)

// CheckBaseURL returns a clause about what is wrong with a base URL that some requests have in place of the
// definition's; empty for nothing. It is a template as that is. Each mode must have the values for it, and its host
// must be an allowed one: the same for all connections, or one to which credentials of the mode go anyway, so that no
// setting sends them to a host for which they were not given.
func CheckBaseURL(e *Engine, text string) string {
	names := withConfig(e.fields)
	maps.DeleteFunc(names, func(_ name, k known) bool { return k.secret })
	u, wrong := compileURL(text, names, false)
	switch {
	case wrong != "":
		return wrong
	case u.whole == "" && u.scheme != "https":
		return "must begin with https://, or with ${config.name} of a field of type url"
	}
	for _, m := range e.modes {
		for _, key := range u.keys() {
			if !slices.ContainsFunc(m.Config, func(f Field) bool { return f.Name == key }) {
				return "has ${config." + key + "}, of which connections of the mode " + m.Name + " have no value"
			}
		}
		for _, config := range samples(e) {
			if wrong := u.leads(e, m, config); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// keys returns the fields that a URL uses.
func (u *urlTemplate) keys() []string {
	var keys []string
	if u.whole != "" {
		keys = append(keys, u.whole)
	}
	for _, t := range []*template{u.host, u.path} {
		if t == nil {
			continue
		}
		for _, n := range t.names() {
			keys = append(keys, n.key)
		}
	}
	return keys
}

// leads returns what is wrong with the host of a URL for a connection; empty for nothing.
func (u *urlTemplate) leads(e *Engine, m *Mode, config Config) string {
	target := Target{Mode: m.Name, Config: config, AllowHTTP: true}
	parsed, err := e.endpoint(e.renderer(&Values{Target: target, Credentials: sampleCredentials(m),
		Now: time.Unix(1, 0)}, m), "base_url", u)
	if wrong := problemOf(err); wrong != "" {
		return wrong
	}
	if hosts, err := e.Hosts(target); u.isFixed() || err == nil && slices.Contains(hosts, originOf(parsed)) {
		return ""
	}
	return "has a host that depends on the connection, and to which no other request of the mode " + m.Name + " goes"
}

// problemOf returns the first problem of an error of a rendering; empty for none.
func problemOf(err error) string {
	var config *ConfigError
	if !errors.As(err, &config) {
		return ""
	}
	return config.Problems[0].Message
}
