package subscriptions

import (
	"net/netip"
	"net/url"
	"strings"
)

// origin is the part of a URL that says which server it leads to. URLs of different schemes have one origin if both
// have the default port of their scheme, or both the same port: a gateway reached by https commonly serves http as
// well.
type origin struct{ host, port string }

// originOf returns the origin of an absolute URL, and the zero origin for anything else. All names and addresses of the
// loopback interface are one host: localhost and the names below it (RFC 6761 section 6.3), and the unspecified
// address, which connects to it.
func originOf(raw string) origin {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return origin{}
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap()
		host = a.String()
		if a.IsLoopback() || a.IsUnspecified() {
			host = "localhost"
		}
	} else if strings.HasSuffix(host, ".localhost") {
		host = "localhost"
	}
	port := u.Port()
	if (u.Scheme == "https" && port == "443") || (u.Scheme == "http" && port == "80") {
		port = ""
	}
	return origin{host, port}
}
