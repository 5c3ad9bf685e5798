package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientIP walks X-Forwarded-For from the right past trusted proxies; what lies left of the first stranger, or of what
// is no address, is hearsay. An address has one form, so that one client is one in limits and logs. It is empty where
// the peer has no address.
func clientIP(r *http.Request, trusted []netip.Prefix) string {
	ip, ok := address(r.RemoteAddr)
	if !ok {
		return ""
	}
	if !contains(trusted, ip) {
		return ip.String()
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		next, ok := address(strings.TrimSpace(hop))
		if !ok {
			break
		}
		if ip = next; !contains(trusted, ip) {
			break
		}
	}
	return ip.String()
}

// address reads an address as peers and proxies write it: alone, in brackets, with a port. A zone means something on
// one host only, and a port is one connection's; both are left out. IPv4 in IPv6 is IPv4.
func address(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
			ip, err = netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		} else {
			var both netip.AddrPort
			both, err = netip.ParseAddrPort(s)
			ip = both.Addr()
		}
	}
	return ip.Unmap().WithZone(""), err == nil
}

func contains(prefixes []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}
