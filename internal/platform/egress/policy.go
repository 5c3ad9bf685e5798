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

// Policy lists the targets that are allowed in addition to the public internet over https.
type Policy struct {
	// AllowCIDRs are allowed although they are private or reserved. A NAT64 address (64:ff9b::/96, RFC 6052) is allowed
	// only if the IPv4 address inside it is allowed too.
	AllowCIDRs []netip.Prefix
	// AllowLoopback allows 127.0.0.0/8 and ::1, for development mode.
	AllowLoopback bool
	// AllowHTTP allows http:// in addition to https://.
	AllowHTTP bool
}

// errRefused is the dialer's error for an address outside the policy.
var errRefused = errors.New("address refused by policy")

// ParseCIDRs parses address ranges such as 10.1.0.0/16, or single addresses. Its error names every invalid entry,
// including those with bits set after the prefix length, which are usually typing errors.
func ParseCIDRs(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var errs []error
	for _, s := range list {
		p, err := parseCIDR(strings.TrimSpace(s))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, p)
	}
	if err := errors.Join(errs...); err != nil {
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
		return netip.Prefix{}, fmt.Errorf("%q has bits set after its prefix length: did you mean %s?", s, p.Masked())
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not an address range such as 10.1.0.0/16", s)
	}
	return p, nil
}

// guard decides about addresses, by the IANA special-purpose registries that package ssrf contains.
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
	// Azure serves instance metadata at a public address of its own, which no registry lists.
	azure := netip.PrefixFrom(netip.AddrFrom4([4]byte{168, 63, 129, 16}), 32)
	return &guard{
		registry: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azure),
			ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...)),
		nat64: ssrf.IPv6NAT64Prefix,
	}
}

// allows reports whether the policy allows a connection to the address.
func (g *guard) allows(a netip.Addr) bool {
	// The zone of a link-local address does not matter, and for an IPv4-mapped address the kernel connects to the IPv4
	// address inside it (RFC 4291 §2.5.5.2).
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

// control is net.Dialer's hook. It gets the address of the next connection, after all name resolution.
func (g *guard) control(network, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || (network != "tcp4" && network != "tcp6") || !g.allows(ap.Addr()) {
		return errRefused
	}
	return nil
}
