package outbound

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

const (
	maxHost  = 253 // bytes (RFC 1035 section 2.3.4)
	maxLabel = 63
)

// validLabel reports whether s is a label of letters, digits and inner hyphens. Names in another script, and their
// ASCII form, are refused where anything but a whole URL is entered: people cannot distinguish them from others.
func validLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		b := s[i]
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '-' {
			return false
		}
	}
	return true
}

// numeric reports whether a label ends a name that the WHATWG URL standard reads as an IPv4 address.
func numeric(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	return len(label) > 1 && label[0] == '0' && label[1]|0x20 == 'x' &&
		strings.Trim(label[2:], "0123456789abcdefABCDEF") == ""
}

// internationalized reports whether any label is the ASCII form of a name in another script (RFC 5890).
func internationalized(s string) bool {
	for label := range strings.SplitSeq(strings.ToLower(s), ".") {
		if len(label) > 3 && label[2:4] == "--" {
			return true
		}
	}
	return false
}

// validURLHost reports whether s is the host of a URL that a user enters as a whole: a name, also one of a single label
// in the operator's own network, or an address in its usual spelling.
func validURLHost(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Zone() == ""
	}
	if len(s) > maxHost {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(s, ".") {
		if !validLabel(label) {
			return false
		}
		last = label
	}
	return !numeric(last)
}

// hostPattern is one entry of allowed_hosts.
type hostPattern struct {
	// labels are templates; nil for *.
	labels []*template
	// port is that of an entry with one, such as 8443.
	port string
	// whole is the field of type url whose host and port are allowed; empty for a pattern.
	whole string
}

// errHostPattern says what an entry of allowed_hosts can be.
const errHostPattern = "must be a host name such as api.acme.com or *.acme.com, without scheme, path, empty labels " +
	"or characters of other scripts, or ${config.name} of a field of type url"

// parseHost reads an entry of allowed_hosts.
func parseHost(text string, names scope, own ownSuffixes) (hostPattern, string) {
	t, err := parseTemplate(text)
	if err != nil {
		return hostPattern{}, err.Error()
	}
	if wrong := names.check(t); wrong != "" {
		return hostPattern{}, wrong
	}
	if n, ok := t.single(); ok && names[n].field != nil && names[n].field.Type == TypeURL {
		return hostPattern{whole: n.key}, ""
	}
	h := hostPattern{}
	if text, port, found := strings.Cut(text, ":"); found && !strings.Contains(port, "}") {
		if !validPort(port) {
			return hostPattern{}, errHostPattern
		}
		h.port = port
		t, _ = parseTemplate(text)
	}
	if wrong := checkHostParts(t, names); wrong != "" {
		return hostPattern{}, wrong
	}
	h.labels = splitLabels(t)
	return h, h.check(names, own)
}

// checkHostParts checks what stands between and in the expressions of a host.
func checkHostParts(t *template, names scope) string {
	for _, p := range t.parts {
		if p.expr == nil {
			if strings.Trim(p.literal, "abcdefghijklmnopqrstuvwxyz0123456789-.*") != "" {
				return errHostPattern
			}
			continue
		}
		n, ok := p.plain()
		if !ok || n.space != spaceConfig {
			return "can have only ${config.name} in a host"
		}
		if field := names[n].field; field.Type == TypeURL || field.Secret {
			return "has ${" + n.String() + "} in a host, which must be no URL and no secret"
		}
	}
	return ""
}

// splitLabels cuts a host at its dots. A label that is * is nil.
func splitLabels(t *template) []*template {
	out := []*template{{}}
	for _, p := range t.parts {
		if p.expr != nil {
			last := out[len(out)-1]
			last.parts = append(last.parts, p)
			continue
		}
		for i, text := range strings.Split(p.literal, ".") {
			if i > 0 {
				out = append(out, &template{})
			}
			if last := out[len(out)-1]; text != "" {
				last.parts = append(last.parts, part{literal: text})
			}
		}
	}
	for i, label := range out {
		if text, ok := label.literal(); ok && text == "*" {
			out[i] = nil
		}
	}
	return out
}

// check makes sure that no part which a connection chooses is directly over a public suffix: anyone who registers a
// name there could then get credentials. With the suffix, one label more has to be fixed.
func (h *hostPattern) check(names scope, own ownSuffixes) string {
	fixed := 0 // labels at the end that are the same for all connections
	for i := len(h.labels) - 1; i >= 0; i-- {
		if h.labels[i] == nil || !h.constant(i, names) {
			break
		}
		fixed++
	}
	for _, label := range h.labels {
		if label == nil {
			continue
		}
		for _, p := range label.parts {
			if p.expr == nil && strings.Contains(p.literal, "*") {
				return "has * as a part of a label; it stands for a whole one"
			}
		}
		if text, ok := label.literal(); ok && !validLabel(text) {
			return errHostPattern
		}
	}
	if fixed == len(h.labels) {
		return ""
	}
	for _, tail := range h.tails(len(h.labels)-fixed, names) {
		if own.has(tail) {
			continue
		}
		if tail == "" || isPublicSuffix(tail) || isShared(tail) {
			return "leaves a label open over " + quoteSuffix(tail) +
				", under which anyone can register a name; fix one label more"
		}
	}
	return ""
}

// ownSuffixes are the entries of own_suffixes. The value is true for one over which an open label was found.
type ownSuffixes map[string]bool

// has reports whether a name is one of the suffixes, and notes that it is used.
func (o ownSuffixes) has(name string) bool {
	if _, ok := o[name]; !ok {
		return false
	}
	o[name] = true
	return true
}

// checkOwnSuffix returns a clause about an entry of own_suffixes; empty if it is accepted. Only names that companies
// have added to the Public Suffix List can be a provider's own, and no other name needs to be listed.
func checkOwnSuffix(text string) string {
	suffix, managed := publicsuffix.PublicSuffix(text)
	if !validURLHost(text) || text != strings.ToLower(text) || suffix != text || managed || !strings.Contains(text, ".") {
		return "must be a name of the private part of the Public Suffix List, such as myshopify.com"
	}
	return ""
}

func quoteSuffix(tail string) string {
	if tail == "" {
		return "no fixed name"
	}
	return "the public suffix " + tail
}

// constant reports whether a label has only fixed texts, and values that the definition lists.
func (h *hostPattern) constant(i int, names scope) bool {
	for _, p := range h.labels[i].parts {
		if n, ok := p.plain(); ok && names[n].field.Type != TypeEnum {
			return false
		}
	}
	return true
}

// tails returns the texts of the labels from i on, one for each combination of listed values, at most 64.
func (h *hostPattern) tails(from int, names scope) []string {
	out := []string{""}
	for i := from; i < len(h.labels); i++ {
		if i > from {
			for j := range out {
				out[j] += "."
			}
		}
		for _, p := range h.labels[i].parts {
			n, ok := p.plain()
			if !ok {
				for j := range out {
					out[j] += p.literal
				}
				continue
			}
			var next []string
			for _, prefix := range out {
				for _, value := range names[n].field.Enum {
					next = append(next, prefix+value)
				}
			}
			out = next[:min(len(next), maxEntries)]
		}
	}
	return out
}

// isPublicSuffix reports whether anyone can register names under s, by the Public Suffix List with its private part. Of
// a name that the list does not have, such as one in a network of one's own, the last label is a suffix.
func isPublicSuffix(s string) bool {
	suffix, _ := publicsuffix.PublicSuffix(strings.ToLower(s))
	return suffix == strings.ToLower(s)
}

// isShared reports whether the list has suffixes one label below s, as amazonaws.com has s3.amazonaws.com. The list is
// in a form that cannot be searched downwards, so the labels that such suffixes usually have are compared.
func isShared(s string) bool {
	for _, label := range []string{"s3", "compute", "compute-1", "elb", "us-east-1", "eu-west-1", "eu-central-1", "app",
		"apps", "web", "cdn", "blob", "static", "pages", "preview", "dev", "cloud", "sites", "storage"} {
		if isPublicSuffix(label + "." + s) {
			return true
		}
	}
	return false
}

// match reports whether a host, in lower case and with its port where it is not the usual one, fits the entry for a
// connection's values.
func (h *hostPattern) match(host string, r *renderer) bool {
	if h.whole != "" {
		u, wrong := parseURL(r.config(h.whole))
		return wrong == "" && hostOf(u) == host
	}
	text, port, _ := strings.Cut(host, ":")
	if port != h.port || strings.HasPrefix(host, "[") {
		return false
	}
	// A value may have several labels, so the pattern is rendered before it is compared.
	var want []string
	for _, label := range h.labels {
		if label == nil {
			want = append(want, "*")
			continue
		}
		rendered, err := r.host(label)
		if err != nil {
			return false
		}
		want = append(want, strings.Split(strings.ToLower(rendered), ".")...)
	}
	have := strings.Split(text, ".")
	if len(have) != len(want) {
		return false
	}
	open := false
	for i := range want {
		open = open || want[i] == "*"
		if want[i] != "*" && want[i] != have[i] {
			return false
		}
	}
	return !open || !isPublicSuffix(text)
}

func validPort(s string) bool {
	if s == "" || len(s) > 5 || s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return false
	}
	return len(s) < 5 || s <= "65535"
}
