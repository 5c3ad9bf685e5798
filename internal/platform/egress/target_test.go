package egress

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each part of a URL that is not accepted is refused under its own code, before any connection.
func TestCheckURL(t *testing.T) {
	t.Parallel()
	c := newClient(t, Policy{}, Options{})
	for raw, code := range map[string]string{
		"https://example.com":                  "",
		"https://example.com/a/b?c=d&e=%20f":   "",
		"https://EXAMPLE.com:8443/":            "",
		"https://example.com./":                "",
		"https://xn--bcher-kva.example/":       "",
		"https://a_b.example/":                 "",
		"https://8.8.8.8/":                     "",
		"https://[2606:4700:4700::1111]:443/x": "",
		"https://1.example/":                   "",

		"http://example.com/":                               CodeSchemeRefused,
		"ftp://example.com/":                                CodeSchemeRefused,
		"file:///etc/passwd":                                CodeURLInvalid,
		"gopher://example.com/":                             CodeSchemeRefused,
		"javascript:alert(1)":                               CodeURLInvalid,
		"//example.com/":                                    CodeURLInvalid,
		"example.com":                                       CodeURLInvalid,
		"":                                                  CodeURLInvalid,
		"https://":                                          CodeURLInvalid,
		"https:///path":                                     CodeURLInvalid,
		"https:example.com":                                 CodeURLInvalid,
		"https://:443/":                                     CodeURLInvalid,
		"https://user@example.com/":                         CodeUserinfoRefused,
		"https://user:pw@example.com/":                      CodeUserinfoRefused,
		"https://@example.com/":                             CodeUserinfoRefused,
		"https://example.com/#part":                         CodeURLInvalid,
		"https://example.com/#":                             CodeURLInvalid,
		"https://example.com:/":                             CodeURLInvalid,
		"https://example.com:0/":                            CodeURLInvalid,
		"https://example.com:65536/":                        CodeURLInvalid,
		"https://example.com:0443/":                         CodeURLInvalid,
		"https://example.com:https/":                        CodeURLInvalid,
		"https://exa mple.com/":                             CodeURLInvalid,
		"https://example.com/a b":                           CodeURLInvalid,
		"https://example.com\\@evil.example/":               CodeURLInvalid,
		"https://example.com/\r\nX: y":                      CodeURLInvalid,
		" https://example.com/":                             CodeURLInvalid,
		"https://bücher.example/":                           CodeURLInvalid,
		"https://ⓛocalhost/":                                CodeURLInvalid,
		"https://exam%70le.com/":                            CodeURLInvalid,
		"https://-a.example/":                               CodeURLInvalid,
		"https://a..example/":                               CodeURLInvalid,
		"https://./":                                        CodeURLInvalid,
		"https://" + strings.Repeat("a", 64) + ".example/":  CodeURLInvalid,
		"https://" + strings.Repeat("a.", 130) + "example/": CodeURLInvalid,
		"https://example.com/" + strings.Repeat("a", 2048):  CodeURLInvalid,
		"https://2130706433/":                               CodeURLInvalid,
		"https://0x7f000001/":                               CodeURLInvalid,
		"https://0X7F.1/":                                   CodeURLInvalid,
		"https://0x/":                                       CodeURLInvalid,
		"https://017700000001/":                             CodeURLInvalid,
		"https://0177.0.0.1/":                               CodeURLInvalid,
		"https://127.1/":                                    CodeURLInvalid,
		"https://127.0.0.1./":                               CodeURLInvalid,
		"https://example.123/":                              CodeURLInvalid,
		"https://8.8.8.8./":                                 CodeURLInvalid,
		"https://256.256.256.256/":                          CodeURLInvalid,
		"https://[fe80::1%25eth0]/":                         CodeURLInvalid,
		"https://[::1%25]/":                                 CodeURLInvalid,
		"https://[nonsense]/":                               CodeURLInvalid,
		"https://127.0.0.1/":                                CodeTargetRefused,
		"https://169.254.169.254/latest/meta-data/":         CodeTargetRefused,
		"https://10.0.0.1:8443/":                            CodeTargetRefused,
		"https://[::1]/":                                    CodeTargetRefused,
		"https://[::]/":                                     CodeTargetRefused,
		"https://[::ffff:127.0.0.1]/":                       CodeTargetRefused,
		"https://[::ffff:a9fe:a9fe]/":                       CodeTargetRefused,
		"https://[64:ff9b::7f00:1]/":                        CodeTargetRefused,
		"https://[2002:7f00:1::]/":                          CodeTargetRefused,
		"https://[fd00:ec2::254]/":                          CodeTargetRefused,
		"https://localhost/":                                CodeTargetRefused,
		"https://LOCALHOST./":                               CodeTargetRefused,
		"https://sub.localhost:8080/":                       CodeTargetRefused,
	} {
		terr := c.CheckURL(raw)
		if code == "" {
			require.Nil(t, terr, raw)
			continue
		}
		require.NotNil(t, terr, raw)
		require.Equal(t, code, terr.Code, raw)
		require.True(t, strings.HasSuffix(terr.Message, "."), terr.Message)
		require.Equal(t, terr.Message, terr.Error())
	}
	relaxed := newClient(t, dev(), Options{})
	for _, raw := range []string{"http://127.0.0.1:3000/", "http://localhost/", "http://[::1]/", "https://example.com/"} {
		require.Nil(t, relaxed.CheckURL(raw), raw)
	}
	require.Equal(t, CodeTargetRefused, relaxed.CheckURL("http://10.0.0.1/").Code)
}

// A name is refused as soon as one of its addresses is, and accepted while it does not resolve.
func TestCheckTarget(t *testing.T) {
	t.Parallel()
	names := map[string][]netip.Addr{
		"public.test.":  {netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("2606:4700:4700::1111")},
		"mixed.test.":   {netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("10.0.0.1")},
		"mixed6.test.":  {netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("fd00::1")},
		"private.test.": {netip.MustParseAddr("192.168.0.1")},
	}
	c := newClient(t, Policy{}, Options{Resolver: resolver(func(n string) []netip.Addr { return names[n] })})
	for host, code := range map[string]string{
		"public.test": "", "later.test": "", "8.8.8.8": "",
		"mixed.test": CodeTargetRefused, "mixed6.test": CodeTargetRefused, "private.test": CodeTargetRefused,
	} {
		terr := c.CheckTarget(t.Context(), "https://"+host+"/x")
		if code == "" {
			require.Nil(t, terr, host)
			continue
		}
		require.NotNil(t, terr, host)
		require.Equal(t, code, terr.Code, host)
		require.NotContains(t, terr.Message, "192.168")
	}
	require.Equal(t, CodeSchemeRefused, c.CheckTarget(t.Context(), "http://public.test/").Code)
}

// No text makes the parser panic, and every URL that it accepts is https, has no credentials, names no reserved
// address, and reads the same when written and parsed again.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{
		"https://example.com/a?b=c", "https://[::ffff:127.0.0.1]:443/", "https://127.1/", "https://a@b/", "https://%31/",
		"https://example.com:99999", "https://[fe80::1%25eth0]", "https://0x7f.1", "HTTPS://EXAMPLE.COM", "https://a\\b",
	} {
		f.Add(s)
	}
	c := New(Policy{}, Options{})
	f.Fuzz(func(t *testing.T, raw string) {
		u, terr := c.ParseTarget(raw)
		if terr != nil {
			require.NotEmpty(t, terr.Code)
			return
		}
		require.Equal(t, "https", u.Scheme)
		require.Nil(t, u.User)
		if a, err := netip.ParseAddr(strings.TrimSuffix(u.Hostname(), ".")); err == nil {
			require.True(t, c.guard.allows(a), raw)
		}
		again, terr := c.ParseTarget(u.String())
		require.Nil(t, terr, raw)
		require.Equal(t, u.Host, again.Host)
	})
}

// Counts by host treat all spellings of a host as one, and keep two hosts, and two ports of one, apart.
func TestHostKey(t *testing.T) {
	t.Parallel()
	c := newClient(t, Policy{AllowHTTP: true, AllowLoopback: true}, Options{})
	for key, list := range map[string][]string{
		"example.com": {"https://example.com", "https://EXAMPLE.com/a?b", "https://example.com:443/",
			"https://Example.Com.:443", "https://example.com.", "http://example.com", "http://example.com:80"},
		"example.com:8443": {"https://example.com:8443", "https://EXAMPLE.COM:8443", "https://example.com.:8443"},
		"example.com:80":   {"https://example.com:80"},
		"example.com:443":  {"http://example.com:443"},
		"www.example.com":  {"https://www.example.com"},
		"8.8.8.8":          {"https://8.8.8.8", "https://8.8.8.8:443"},
		"127.0.0.1:8080": {"http://127.0.0.1:8080", "http://[::ffff:127.0.0.1]:8080",
			"http://[::FFFF:7f00:1]:8080"},
		"2606:4700:4700::1111":     {"https://[2606:4700:4700::1111]", "https://[2606:4700:4700:0:0:0:0:1111]:443"},
		"[2606:4700:4700::1111]:1": {"https://[2606:4700:4700::1111]:1", "https://[2606:4700:4700:0000::1111]:1"},
	} {
		for _, raw := range list {
			require.Equal(t, key, HostKey(target(t, c, raw)), raw)
		}
	}
}
