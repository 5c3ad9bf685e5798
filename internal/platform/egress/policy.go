package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"

	"sallyport/internal/platform/clientaddr"

	"code.dny.dev/ssrf"
)

// Policy says which targets may be reached beyond the public internet over https.
type Policy struct {
	// AllowCIDRs are reachable although they are private or reserved. A NAT64 address (64:ff9b::/96, RFC 6052) also
	// needs the IPv4 address inside it to be reachable.
	AllowCIDRs []netip.Prefix
	// AllowLoopback makes 127.0.0.0/8 and ::1 reachable: development mode.
	AllowLoopback bool
	// AllowHTTP accepts http:// beside https://.
	AllowHTTP bool
}

// errRefused is what the dialer returns for an address outside the policy.
var errRefused = errors.New("address refused by policy")

// ParseCIDRs reads address ranges such as 10.1.0.0/16, or single addresses. It names every entry that is none, and
// those with bits set behind the prefix length, which are more often a slip than meant.
func ParseCIDRs(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var faults []error
	for _, s := range list {
		p, err := parseCIDR(strings.TrimSpace(s))
		if err != nil {
			faults = append(faults, err)
			continue
		}
		out = append(out, p)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return out, nil
}

func parseCIDR(s string) (netip.Prefix, error) {
	if a, ok := clientaddr.Parse(s); ok && !strings.Contains(s, "%") {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := clientaddr.ParseNetwork(s)
	switch {
	case errors.Is(err, clientaddr.ErrMapped):
		return netip.Prefix{}, fmt.Errorf("%q: write an IPv4 range in its IPv4 form", s)
	case errors.Is(err, clientaddr.ErrHostBits):
		return netip.Prefix{}, fmt.Errorf("%q has bits set behind its prefix length: did you mean %s?", s, p.Masked())
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not an address range such as 10.1.0.0/16", s)
	}
	return p, nil
}

// guard decides about addresses. The lists are those of the IANA special-purpose registries, kept in package ssrf.
type guard struct {
	registry *ssrf.Guardian
	nat64    netip.Prefix
}

func newGuard(p Policy) *guard {
	var v4, v6 []netip.Prefix
	for _, c := range p.AllowCIDRs {
		if c.Addr().Is4() {
			v4 = append(v4, c)
		} else {
			v6 = append(v6, c)
		}
	}
	if p.AllowLoopback {
		v4 = append(v4, netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8))
		v6 = append(v6, netip.PrefixFrom(netip.IPv6Loopback(), 128))
	}
	// Azure answers instance metadata at a public address of its own, which no registry lists.
	azure := netip.PrefixFrom(netip.AddrFrom4([4]byte{168, 63, 129, 16}), 32)
	return &guard{
		registry: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azure),
			ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...)),
		nat64: ssrf.IPv6NAT64Prefix,
	}
}

// allows reports whether a connection to the address may be made.
func (g *guard) allows(a netip.Addr) bool {
	// The zone of a link-local address plays no part, and an IPv4-mapped address is the IPv4 address it carries
	// (RFC 4291 §2.5.5.2): the kernel connects there.
	a = a.WithZone("").Unmap()
	if !a.IsValid() || g.registry.SafeAddr(a) != nil {
		return false
	}
	if g.nat64.Contains(a) {
		b := a.As16()
		return g.registry.SafeAddr(netip.AddrFrom4([4]byte(b[12:]))) == nil
	}
	return true
}

// control is net.Dialer's hook: it sees the address that is about to be connected to, after all name resolution.
func (g *guard) control(network, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || (network != "tcp4" && network != "tcp6") || !g.allows(ap.Addr()) {
		return errRefused
	}
	return nil
}
