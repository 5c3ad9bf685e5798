package documents

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

var (
	hostChoice  = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
	hostExample = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	hostForm    = regexp.MustCompile(`^[a-z0-9.-]*$`)
	portForm    = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)
)

// host returns the template of a host. Each host that it can be is checked.
func (w *drafter) host(b *base, parts []piece) (text, wrong string) {
	var samples []string
	port := ""
	parts = slices.DeleteFunc(parts, func(p piece) bool { return p.variable == nil && p.text == "" })
	if len(parts) == 1 && parts[0].variable != nil && len(parts[0].choices) == 0 {
		return "", "leaves its host to each connection"
	}
	for i, p := range parts {
		if p.variable != nil {
			choices, wrong := hostChoices(p.variable)
			if wrong != "" {
				return "", wrong
			}
			if samples = combine(samples, choices); len(samples) > maxChoices {
				return "", "has too many hosts"
			}
			text += "${config." + w.add(b, p.variable, true) + "}"
			continue
		}
		literal := strings.ToLower(p.text)
		if strings.Contains(literal, "@") {
			return "", "has a user name"
		}
		name, number, hasPort := strings.Cut(literal, ":")
		if hasPort && (i != len(parts)-1 || !portForm.MatchString(number)) {
			return "", "has a port that is no number, or an address"
		}
		port = number
		if !hostForm.MatchString(name) {
			return "", "has a host with characters that no name has"
		}
		text += name
		samples = combine(samples, []string{name})
	}
	for _, s := range samples {
		if wrong := checkHost(s); wrong != "" {
			return "", wrong
		}
	}
	switch {
	case len(samples) == 0:
		return "", "has no host"
	case b.upgraded && port != "" && port != "80":
		return "", "is without TLS"
	case port != "" && port != "443" && !b.upgraded:
		text += ":" + port
	}
	return text, ""
}

// hostChoices returns the texts that a variable may put into a host; one label in place of an open one.
func hostChoices(v *variable) ([]string, string) {
	if len(v.choices) == 0 {
		return []string{"x"}, ""
	}
	for i, c := range v.choices {
		if v.choices[i] = strings.ToLower(c); !hostChoice.MatchString(v.choices[i]) {
			return nil, "has a value for its host that is no part of a name"
		}
	}
	v.fallback = strings.ToLower(v.fallback)
	return v.choices, ""
}

func combine(prefixes, texts []string) (out []string) {
	if prefixes == nil {
		return texts
	}
	for _, p := range prefixes {
		for _, t := range texts {
			if len(out) <= maxChoices {
				out = append(out, p+t)
			}
		}
	}
	return out
}

// checkHost returns a clause about a host that no one outside a network of their own can mean; empty for any other.
func checkHost(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return "has an address in place of a name"
	}
	if len(host) > maxHostName {
		return "has a host that is no name"
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > maxLabel || l[0] == '-' || l[len(l)-1] == '-' {
			return "has a host that is no name"
		}
	}
	last := labels[len(labels)-1]
	suffix, managed := publicsuffix.PublicSuffix(host)
	switch {
	case strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x"):
		return "has an address in place of a name"
	case !managed && !strings.Contains(suffix, "."), last == "arpa", last == "onion":
		return "has a host of a local network"
	case managed && suffix == host:
		return "has a host under which anyone can register a name"
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	if err != nil && managed || slices.Contains([]string{"example.com", "example.net", "example.org"}, domain) {
		return "has a host that stands for another one"
	}
	return ""
}

var pathForm = regexp.MustCompile(`^([A-Za-z0-9._~!&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*$`)

// path returns the template of a path, without a slash at its end.
func (w *drafter) path(b *base, parts []piece) (text, wrong string) {
	for _, p := range parts {
		switch {
		case p.variable == nil:
			text += p.text
		case p.hasFallback && p.fallback == "" && len(p.choices) == 0, slices.ContainsFunc(p.choices, func(c string) bool {
			return strings.Contains(c, "/")
		}): // less or more than a segment
			text += p.fallback
		default:
			text += "${config." + w.add(b, p.variable, false) + "}"
		}
	}
	fixed := templateForm.ReplaceAllString(text, "x")
	for strings.Contains(text, "//") {
		text = strings.ReplaceAll(text, "//", "/")
	}
	if text != "" && text[0] != '/' {
		text = "/" + text
	}
	if !pathForm.MatchString(fixed) || isUnsafe(fixed) {
		return "", "has a path with characters that must be escaped, or one that leads upwards"
	}
	return strings.TrimRight(text, "/"), ""
}

var templateForm = regexp.MustCompile(`\$\{config\.[a-z0-9_]+\}`)

// isUnsafe reports whether a path means something else to another server: it leads upwards or has a backslash or a
// control character, in an escaped form, too.
func isUnsafe(path string) bool {
	for level := range 4 {
		for segment := range strings.SplitSeq(path, "/") {
			segment, _, _ = strings.Cut(segment, ";")
			if segment == "." || segment == ".." {
				return true
			}
		}
		if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }) {
			return true
		}
		decoded, err := url.PathUnescape(path)
		switch {
		case err != nil:
			return level == 0
		case decoded == path:
			return false
		}
		path = decoded
	}
	return true
}

// fixedURL reads an absolute https URL with a host that anyone can reach.
func fixedURL(text string) (*url.URL, string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxURL || u.Scheme != "https" || u.Opaque != "" || strings.Contains(text, "${"):
		return nil, "is no https URL"
	case u.User != nil:
		return nil, "has a user name"
	case u.Fragment != "" || u.RawFragment != "" || strings.Contains(text, "#"):
		return nil, "has a fragment"
	case u.Port() != "" && !portForm.MatchString(u.Port()), strings.HasSuffix(u.Host, ":"):
		return nil, "has a port that is no number"
	}
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), ":443")
	if !hostForm.MatchString(u.Hostname()) {
		return nil, "has a host with characters that no name has"
	}
	if wrong := checkHost(u.Hostname()); wrong != "" {
		return nil, wrong
	}
	if !pathForm.MatchString(u.EscapedPath()) || isUnsafe(u.EscapedPath()) ||
		strings.ContainsFunc(u.RawQuery, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune("\\\"<>^`{|}", r)
		}) {
		return nil, "has characters that must be escaped"
	}
	return u, ""
}
