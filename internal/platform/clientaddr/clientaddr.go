// Package clientaddr finds out which network address a request comes from, and compares such addresses with networks.
//
// An address has one form here: IPv4 written as IPv6 is IPv4, and there is no zone, which means something on one host
// only. So one client is one client in limits, sessions and logs.
package clientaddr

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// hostBits is the length of the IPv6 networks whose addresses all belong to one host (RFC 4291 section 2.5.4, RFC
// 8981).
const hostBits = 64

// Of returns the address of the client that sent r: the peer's address or, where the peer is a trusted proxy, the one
// that X-Forwarded-For reports. The header is read from the right past trusted proxies; what is left of the first
// address that is not trusted can be forged. The zero Addr means that the peer has no address.
func Of(r *http.Request, trusted []netip.Prefix) netip.Addr {
	ip, ok := parseHop(r.RemoteAddr)
	if !ok || !In(ip, trusted) {
		return ip
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		next, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			break
		}
		if ip = next; !In(ip, trusted) {
			break
		}
	}
	return ip
}

// parseHop reads an address as peers and proxies write it: alone, in brackets, or with a port.
func parseHop(s string) (netip.Addr, bool) {
	if ip, ok := Parse(s); ok {
		return ip, true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
		return Parse(strings.TrimSuffix(inner, "]"))
	}
	both, err := netip.ParseAddrPort(s)
	return normalise(both.Addr()), err == nil
}

// Parse returns the address that s writes, in its one form.
func Parse(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	return normalise(ip), err == nil
}

func normalise(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// Host returns the address under which a client is counted: an IPv4 address itself, and of an IPv6 address the first
// one of its network of 64 bits, because one host has that whole network and picks addresses in it at will. The zero
// Addr stays what it is.
func Host(ip netip.Addr) netip.Addr {
	ip = normalise(ip)
	if !ip.Is6() {
		return ip
	}
	network, err := ip.Prefix(hostBits)
	if err != nil {
		return netip.Addr{} // 64 bits of an IPv6 address always are a prefix
	}
	return network.Addr()
}

// HostNetwork returns Host as a network in CIDR notation, and IPv4 addresses alone: "192.0.2.1", "2001:db8:1:2::/64".
// It is empty for the zero Addr.
func HostNetwork(ip netip.Addr) string {
	host := Host(ip)
	switch {
	case !host.IsValid():
		return ""
	case host.Is4():
		return host.String()
	default:
		return netip.PrefixFrom(host, hostBits).String()
	}
}

// In reports whether one of the networks contains the address. The zero Addr is in no network.
func In(ip netip.Addr, networks []netip.Prefix) bool {
	ip = normalise(ip)
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}

// Errors of ParseNetwork. Their texts can stand as messages of validation errors.
var (
	// ErrNotNetwork means that the text is no network in CIDR notation.
	ErrNotNetwork = errors.New("must be a network in CIDR notation, such as 192.0.2.0/24 or 2001:db8::/32")
	// ErrMapped means that an IPv4 network is written as IPv6. Contains would never match it.
	ErrMapped = errors.New("must be written as an IPv4 network")
	// ErrHostBits means that bits beyond the length of the prefix are set: the author may have meant one address.
	ErrHostBits = errors.New("has bits beyond the length of its prefix")
)

// ParseNetwork returns the network that s writes in CIDR notation.
func ParseNetwork(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, ErrNotNetwork
	case p.Addr().Is4In6():
		return netip.Prefix{}, ErrMapped
	case p != p.Masked():
		return p, ErrHostBits
	}
	return p, nil
}
