package clientaddr_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/clientaddr"
)

// One client has one address, however the peer and the proxies write it, and no client can choose it.
func TestOf(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"198.51.100.7:1234", nil, "198.51.100.7"},
		{"[2001:db8::7]:1234", nil, "2001:db8::7"},
		{"[2001:DB8:0::7]:1234", nil, "2001:db8::7"},
		{"[fe80::1%eth0]:1234", nil, "fe80::1"},
		{"[::ffff:198.51.100.7]:1234", nil, "198.51.100.7"},
		{"@", nil, ""},
		{"", nil, ""},
		{"198.51.100.7:1234", []string{"203.0.113.9"}, "198.51.100.7"},
		{"10.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"[::ffff:10.0.0.1]:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"[fd00::1%eth0]:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"2001:db8::9"}, "2001:db8::9"},
		{"10.0.0.1:1", []string{"[2001:db8::9]"}, "2001:db8::9"},
		{"10.0.0.1:1", []string{"[2001:db8::9]:4711"}, "2001:db8::9"},
		{"10.0.0.1:1", []string{"fe80::9%eth0"}, "fe80::9"},
		{"10.0.0.1:1", []string{"[fe80::9%25x]:4711"}, "fe80::9"},
		{"10.0.0.1:1", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"192.0.2.1, 203.0.113.9 ,10.0.0.2:99"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"192.0.2.1", "203.0.113.9", "[fd00::2]:99"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"203.0.113.9, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"10.0.0.1:1", []string{"203.0.113.9, , 10.0.0.2"}, "10.0.0.2"},
		{"10.0.0.1:1", []string{"\x00"}, "10.0.0.1"},
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{"10.0.0.3"}, "10.0.0.3"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
		want := netip.Addr{}
		if c.want != "" {
			want = netip.MustParseAddr(c.want)
		}
		require.Equal(t, want, clientaddr.Of(r, trusted), "%s %q", c.peer, c.forwarded)
	}
}

// One host cannot pass for many by writing its address in another way, or by taking another of the addresses that its
// network gives it; different hosts are distinguished.
func TestHost(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string][2]string{
		"192.0.2.1":               {"192.0.2.1", "192.0.2.1"},
		"192.0.2.2":               {"192.0.2.2", "192.0.2.2"},
		"::ffff:192.0.2.1":        {"192.0.2.1", "192.0.2.1"},
		"::ffff:c000:202":         {"192.0.2.2", "192.0.2.2"},
		"2001:db8:1:2::1":         {"2001:db8:1:2::", "2001:db8:1:2::/64"},
		"2001:db8:1:2:ffff::9":    {"2001:db8:1:2::", "2001:db8:1:2::/64"},
		"2001:DB8:1:2:0:0:0:1":    {"2001:db8:1:2::", "2001:db8:1:2::/64"},
		"2001:db8:1:3::1":         {"2001:db8:1:3::", "2001:db8:1:3::/64"},
		"fe80::1%eth0":            {"fe80::", "fe80::/64"},
		"::1":                     {"::", "::/64"},
		"64:ff9b::192.0.2.1":      {"64:ff9b::", "64:ff9b::/64"},
		"2001:db8:0:0:1:2:3:4":    {"2001:db8::", "2001:db8::/64"},
		"2001:db8::ffff:c000:201": {"2001:db8::", "2001:db8::/64"},
	} {
		for _, addr := range []netip.Addr{netip.MustParseAddr(ip), parsed(t, ip)} {
			require.Equal(t, netip.MustParseAddr(want[0]), clientaddr.Host(addr), ip)
			require.Equal(t, want[1], clientaddr.HostNetwork(addr), ip)
		}
	}
	for _, none := range []string{"", "example.com", "192.0.2.1:80", "192.0.2", "@"} {
		ip, ok := clientaddr.Parse(none)
		require.False(t, ok, none)
		require.Equal(t, netip.Addr{}, clientaddr.Host(ip), none)
		require.Empty(t, clientaddr.HostNetwork(ip), none)
	}
}

func parsed(t *testing.T, s string) netip.Addr {
	t.Helper()
	ip, ok := clientaddr.Parse(s)
	require.True(t, ok, s)
	return ip
}

// Every address of one network of 64 bits is one host, and one of another network is another.
func TestHostsOfNetworks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		bytes := rapid.SliceOfN(rapid.Byte(), 24, 24).Draw(rt, "bytes")
		var a, b [16]byte
		copy(a[:], bytes[:16])
		copy(b[:], bytes[:8])
		copy(b[8:], bytes[16:])
		one, two := netip.AddrFrom16(a), netip.AddrFrom16(b)
		if one.Is4In6() || two.Is4In6() {
			rt.Skip("IPv4")
		}
		require.Equal(rt, clientaddr.Host(one), clientaddr.Host(two))
		b[0] ^= 0x80
		require.NotEqual(rt, clientaddr.Host(one), clientaddr.Host(netip.AddrFrom16(b)))
	})
}

// An address is compared with networks in its one form, and an unknown one is in none.
func TestIn(t *testing.T) {
	t.Parallel()
	networks := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fe80::/10")}
	for ip, want := range map[string]bool{
		"192.0.2.7": true, "::ffff:192.0.2.7": true, "fe80::1%eth0": true, "192.0.3.7": false, "2001:db8::1": false,
	} {
		require.Equal(t, want, clientaddr.In(netip.MustParseAddr(ip), networks), ip)
	}
	require.False(t, clientaddr.In(netip.Addr{}, []netip.Prefix{netip.MustParsePrefix("::/0"),
		netip.MustParsePrefix("0.0.0.0/0")}))
}

// A network that would match other addresses than its author means is refused, with the reason.
func TestParseNetwork(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"192.0.2.0/24", "192.0.2.1/32", "2001:db8::/32", "::/0"} {
		p, err := clientaddr.ParseNetwork(good)
		require.NoError(t, err)
		require.Equal(t, good, p.String())
	}
	for text, want := range map[string]error{
		"192.0.2.1": clientaddr.ErrNotNetwork, "": clientaddr.ErrNotNetwork, "fe80::1%eth0/64": clientaddr.ErrNotNetwork,
		"::ffff:192.0.2.0/120": clientaddr.ErrMapped, "192.0.2.1/24": clientaddr.ErrHostBits,
	} {
		_, err := clientaddr.ParseNetwork(text)
		require.ErrorIs(t, err, want, text)
	}
}
