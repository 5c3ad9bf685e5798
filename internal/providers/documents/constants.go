package documents

import (
	"net/http"
	"strings"

	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/risk"
)

const (
	maxHeaderName, maxHeaderValue = 100, 255
	// maxProbe is the length of the longest path of a probe, in bytes.
	maxProbe = 300
)

// Header is a header that all requests to a provider have, for example with the version of its API.
type Header struct{ Name, Value string }

// ReadHeader reads a constant header as HTTP writes it: "Acme-Version: 2026-11-01". problem is what is wrong with it,
// as the end of a sentence; empty for a valid one. Credentials are no constants: a connection has them.
func ReadHeader(text string) (h Header, problem string) {
	name, value, found := strings.Cut(text, ":")
	value = strings.TrimSpace(value)
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !found || len(name) > maxHeaderName || !outbound.OwnableHeader(name):
		return Header{}, "must be a name of a header that requests can set, a colon and a value, such as " +
			"Acme-Version: 2026-11-01"
	case canonical == "Authorization" || canonical == "Cookie" || risk.NamesSecret(name):
		return Header{}, "must not be a header with credentials, which each connection has"
	case value == "" || len(value) > maxHeaderValue || strings.ContainsFunc(value, func(r rune) bool {
		return r < ' ' || r > '~'
	}):
		return Header{}, "must have a value of 1 to 255 characters of ASCII after the colon"
	case strings.Contains(value, "${"):
		return Header{}, "must have a value without ${, which templates begin with"
	}
	return Header{canonical, value}, ""
}

// CheckProbe returns what is wrong with the path of a probe, as the end of a sentence; empty for a valid one.
func CheckProbe(path string) string {
	switch {
	case len(path) > maxProbe:
		return "must be at most 300 bytes"
	case !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#{}$\\") || path != plainText(path, maxProbe) ||
		strings.Contains(path, " "):
		return "must be the path of an action without parameters, such as /me"
	default:
		return ""
	}
}
