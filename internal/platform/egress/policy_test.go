package egress

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every kind of address that is not the public internet is refused, in IPv4 and in each IPv6 form that carries it.
func TestGuardRefusesReservedAddresses(t *testing.T) {
	t.Parallel()
	g := newGuard(Policy{})
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "168.63.129.16",
		"169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1",
		"192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
		"255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
		"64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:53aa:64c::1", "2001:db8::1", "2002:7f00:1::1",
		"2002:a9fe:a9fe::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
	} {
		require.False(t, g.allows(netip.MustParseAddr(s)), s)
	}
	require.False(t, g.allows(netip.Addr{}))
	for _, s := range []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "::ffff:8.8.8.8", "2606:4700:4700::1111"} {
		require.True(t, g.allows(netip.MustParseAddr(s)), s)
	}
}

// The allow list opens the addresses that it names and no others.
func TestGuardAllowList(t *testing.T) {
	t.Parallel()
	list, err := ParseCIDRs([]string{"10.1.0.0/16", "fd00::/8", "64:ff9b::/96", "169.254.1.1"})
	require.NoError(t, err)
	g := newGuard(Policy{AllowCIDRs: list})
	for s, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "fd12::1": true, "fc00::1": false,
		"169.254.1.1": true, "169.254.169.254": false, "127.0.0.1": false, "::1": false,
		// NAT64 leads on to the IPv4 address inside, which must be reachable itself.
		"64:ff9b::808:808": true, "64:ff9b::a01:203": true, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false,
	} {
		require.Equal(t, want, g.allows(netip.MustParseAddr(s)), s)
	}
	g = newGuard(dev())
	require.True(t, g.allows(netip.MustParseAddr("127.0.0.1")))
	require.True(t, g.allows(netip.MustParseAddr("::1")))
	require.False(t, g.allows(netip.MustParseAddr("10.0.0.1")))
}

// The dialer's hook lets through nothing that it cannot read.
func TestGuardControl(t *testing.T) {
	t.Parallel()
	g := newGuard(Policy{})
	require.NoError(t, g.control("tcp4", "8.8.8.8:443", nil))
	require.NoError(t, g.control("tcp6", "[2606:4700:4700::1111]:443", nil))
	for network, address := range map[string]string{"udp4": "8.8.8.8:53", "tcp4": "8.8.8.8", "tcp6": "[fe80::1%lo]:80",
		"unix": "/run/docker.sock"} {
		require.ErrorIs(t, g.control(network, address, nil), errRefused, address)
	}
}

// The error names each invalid entry, and a range with stray bits is not silently widened.
func TestParseCIDRs(t *testing.T) {
	t.Parallel()
	got, err := ParseCIDRs([]string{" 10.0.0.0/8", "192.168.1.7", "::1", "::ffff:10.0.0.1", "fd00::/8"})
	require.NoError(t, err)
	var text []string
	for _, p := range got {
		text = append(text, p.String())
	}
	require.Equal(t, []string{"10.0.0.0/8", "192.168.1.7/32", "::1/128", "10.0.0.1/32", "fd00::/8"}, text)

	got, err = ParseCIDRs([]string{"10.0.0.1/8", "nonsense", "10.0.0.0/8", "", "10.0.0.0/33", "fe80::1%eth0",
		"::ffff:10.0.0.0/104"})
	require.Nil(t, got)
	for _, part := range []string{`did you mean 10.0.0.0/8?`, `"nonsense"`, `""`, `"10.0.0.0/33"`, `"fe80::1%eth0"`,
		"in its IPv4 form"} {
		require.ErrorContains(t, err, part)
	}
	got, err = ParseCIDRs(nil)
	require.NoError(t, err)
	require.Empty(t, got)
}
