package outbound_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/outbound"
)

// hostile are values that would move a request to another host, or out of the place that a template gives them.
func hostile() []string {
	return []string{"evil.com#", "evil.com/", "evil.com?", "evil.com\\", "a.b@c", "a@evil.com", "user:pass@evil.com", "evil.com:443",
		"evil.com:", ":8443", "exämple", "ехаmple", "xn--exmple-cua", "a%2eb", "evil.com%23", "%2f", "a\nb", "a\r\nHost: evil.com", "a\x00",
		"..", ".", "a..b", ".a", "a.", "a b", " a", "*", "a*", "${config.version}", "-a", "a-", "[::1]", "127.0.0.1", "evil.com",
		"www.evil", "a/../b", strings.Repeat("a", 64), "a_b", "a\u3002b", "\u2024"}
}

// Values that are not one label are refused in a host before anything is rendered, with the field that has them, and
// are refused again where they are rendered.
func TestHostileValuesInHosts(t *testing.T) {
	t.Parallel()
	e := compile(t, acme)
	for _, value := range hostile() {
		_, problems := e.ResolveConfig("", map[string]string{"subdomain": value})
		require.Equal(t, []string{"connection_config.subdomain"}, fieldsOf(t, problems), "%q", value)
		for _, p := range problems {
			require.NotContains(t, p.Message, "evil")
		}
		target := outbound.Target{Config: outbound.Config{"subdomain": "", "version": "v1"}}
		target.Config["subdomain"] = credentials("x", value)["x"]
		_, err := e.Hosts(target)
		require.Error(t, err, "%q", value)
		_, err = e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/"},
			outbound.Values{Target: target, Credentials: credentials("token", "secret-token"), Now: now})
		require.Error(t, err, "%q", value)
		require.NotContains(t, err.Error(), "secret-token")
	}
}

// The suffix of a value that was pasted with it is taken off.
func TestSuffix(t *testing.T) {
	t.Parallel()
	e := compile(t, acme)
	for _, value := range []string{"shop", "shop.acme.com"} {
		hosts, err := e.Hosts(outbound.Target{Config: config(t, e, "", "subdomain", value)})
		require.NoError(t, err)
		require.Equal(t, []string{"shop.acme.com"}, hosts)
	}
	_, problems := e.ResolveConfig("", map[string]string{"subdomain": "a.b.acme.com"})
	require.Equal(t, []string{"connection_config.subdomain"}, fieldsOf(t, problems))
}

// Any value of a connection leads to a problem, or to a URL whose host is an allowed one, on which every parser agrees.
func TestTemplatesNeverChangeTheHost(t *testing.T) {
	t.Parallel()
	e := compile(t, `
connection_config:
  label: {title: Label, example: shop}
  dotted: {title: Dotted, pattern: "[^/]*", example: a.b, optional: true}
  segment: {title: Segment, optional: true}
base_url: "https://${config.label}.acme.com/api/x${config.segment}"
allowed_hosts: ["*.acme.com", "*.*.other.com"]
auth:
  - mode: bearer
  - {mode: session_token, login: {url: "https://${config.dotted}.other.com/${config.segment}?a=${config.segment}"}, token: {}}
`)
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.SampledFrom(hostile()), rapid.String(), rapid.StringMatching(`[a-z0-9.:@/?#%\\-]{0,12}`))
		c := outbound.Config{}
		for _, key := range []string{"label", "dotted", "segment"} {
			text := value.Draw(t, key)
			if rapid.Bool().Draw(t, "resolve "+key) {
				resolved, _ := e.ResolveConfig("", map[string]string{key: text})
				c[key] = resolved[key]
				continue
			}
			c[key] = credentials("x", text)["x"]
		}
		for _, mode := range []string{"bearer", "session_token"} {
			v := outbound.Values{Target: outbound.Target{Mode: mode, Config: c}, Now: now,
				Credentials: credentials("token", "t", "access_token", "t", "username", "u", "password", "p")}
			req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/me"}, v)
			if err == nil {
				checkHost(t, req, `\A[A-Za-z0-9-]+\.acme\.com\z`, "/api/x")
			}
			login, loginErr := e.Login(t.Context(), v)
			if mode == "session_token" && loginErr == nil {
				checkHost(t, login, `\A[A-Za-z0-9-]+\.[A-Za-z0-9-]+\.other\.com\z`, "/")
			}
		}
	})
}

func checkHost(t *rapid.T, req *http.Request, host, prefix string) {
	u := req.URL
	require.Regexp(t, host, u.Host)
	require.Equal(t, u.Host, req.Host)
	require.Equal(t, "https", u.Scheme)
	require.Nil(t, u.User)
	require.True(t, strings.HasPrefix(u.EscapedPath(), prefix), u.EscapedPath())
	require.NotContains(t, strings.Split(u.Path, "/"), "..")
	require.Equal(t, req.URL.String(), fmt.Sprintf("https://%s%s", u.Host, u.RequestURI()))
}

// Every entry of allowed_hosts allows what it says and nothing near it.
func TestAllowedHosts(t *testing.T) {
	t.Parallel()
	const text = `
connection_config:
  region: {title: Region, pattern: "[a-z0-9-]+", example: us-east-1}
  instance: {type: url, title: Instance, example: "https://eu1.my.acme.com"}
base_url: "${config.instance}"
allowed_hosts: [api.acme.com, "*.my.acme.com", "api.${config.region}.acme.io", "internal.acme.net:8443"]
auth: [{mode: bearer}]
`
	e := compile(t, text)
	tests := map[string]bool{
		"https://api.acme.com": true, "https://api.acme.com:443/": true, "https://API.Acme.com": true,
		"https://api.acme.com:8443": false, "https://acme.com": false, "https://x.api.acme.com": false,
		"https://a.my.acme.com": true, "https://a.b.my.acme.com": false, "https://my.acme.com": false,
		"https://api.us-east-1.acme.io": true, "https://api.us-west-1.acme.io": false,
		"https://internal.acme.net:8443": true, "https://internal.acme.net": false,
		"https://api.acme.com.evil.com": false, "https://api.acme.com@evil.com": false, "https://api.acme.com.": false,
		"http://api.acme.com": false, "https://evil.com/api.acme.com": false, "https://api.acme.com#": false,
		"https://api.acme.com?": false, "https://a@api.acme.com": false, "https://api..acme.com": false,
		"https://127.0.0.1": false, "https://[::1]": false, "https://api.acme.com/a/..": false, "ftp://api.acme.com": false,
		"https://api.acme.com:": false, "https://api.acme.com:0443": false, "//api.acme.com": false, "": true,
		"https://api.acme.com\\@evil.com": false, "https://api.acme.com/%2e%2e": false,
	}
	for base, want := range tests {
		_, err := e.Hosts(outbound.Target{Config: config(t, e, "", "region", "us-east-1", "instance",
			"https://b.my.acme.com"), BaseURL: base})
		require.Equal(t, want, err == nil, "%q: %v", base, err)
	}
	_, err := e.Hosts(outbound.Target{Config: config(t, e, "", "region", "us-east-1", "instance", "https://evil.com")})
	require.Equal(t, []string{"base_url"}, fields(t, err))
}

// No label that a connection chooses is directly over a public suffix, whether of a registry or of a company.
func TestPublicSuffixes(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"*.acme.com": true, "*.com": false, "*.co.uk": false, "*.github.io": false, "*.herokuapp.com": false,
		"*.amazonaws.com": false, "*.s3.amazonaws.com": false, "*.blob.core.windows.net": false, "*": false, "*.*": false,
		"*.*.acme.com": true, "api.*.acme.com": true, "api.acme.*": false, "*.acme.github.io": true, "a*.acme.com": false,
		"${config.label}.acme.com": true, "${config.label}.com": false, "${config.label}": false, "acme.${config.label}": false,
		"${config.label}.co.uk": false, "api.${config.site}": true, "${config.site}": true, "${config.label}.${config.site}": true,
		"${config.label}.${config.zone}": false, "api.acme.com": true, "xn--acme-.com": false, "acme.com.": false,
		"https://acme.com": false, "acme.com/": false, "a@acme.com": false, "acme..com": false, "ACME.com": false, "acmé.com": false,
		"${config.secret}.acme.com": false, "${cred.token}.acme.com": false, "${config.url}": true, "x.${config.url}": false,
		"api.acme.com:8443": true, "api.acme.com:0": false, "api.acme.com:70000": false,
	}
	for host, want := range tests {
		d := read(t, `
connection_config:
  label: {title: Label, optional: true}
  site: {title: Site, enum: [acme.com, eu.acme.com], optional: true}
  zone: {title: Zone, enum: [acme.com, co.uk], optional: true}
  secret: {title: Secret, secret: true, optional: true}
  url: {title: URL, type: url, optional: true, example: "https://a.example"}
base_url: https://api.fixed.com/${config.label}/${config.site}/${config.zone}
allowed_hosts: [api.fixed.com]
auth: [{mode: bearer, request: {headers: {A: "${config.secret}${config.url}", Authorization: "${cred.token}"}}}]
`)
		d.AllowedHosts = append(d.AllowedHosts, host)
		_, err := outbound.Compile(d)
		if want {
			require.NoError(t, err, host)
			continue
		}
		require.Equal(t, []string{"allowed_hosts[1]"}, fields(t, err), host)
	}
}

// The hosts of a connection are exactly those that get something secret: of the base URLs and of the endpoints of its
// mode, and not the page on which users consent.
func TestHosts(t *testing.T) {
	t.Parallel()
	e := compile(t, `
base_url: [https://a.acme.com, https://b.acme.com:8443/x]
allowed_hosts: ["*.acme.com", "b.acme.com:8443", login.acme.net, consent.acme.net]
auth:
  - {mode: bearer}
  - mode: oauth2
    authorize_url: https://consent.acme.net/authorize
    token_url: https://LOGIN.acme.net/token
    revoke: {url: "https://revoke.acme.com/${cred.access_token}"}
`)
	hosts, err := e.Hosts(outbound.Target{})
	require.NoError(t, err)
	require.Equal(t, []string{"a.acme.com", "b.acme.com:8443"}, hosts)
	hosts, err = e.Hosts(outbound.Target{Mode: "oauth2"})
	require.NoError(t, err)
	require.Equal(t, []string{"a.acme.com", "b.acme.com:8443", "login.acme.net", "revoke.acme.com"}, hosts)
	hosts, err = e.Hosts(outbound.Target{BaseURL: "https://c.acme.com/v1"})
	require.NoError(t, err)
	require.Equal(t, []string{"c.acme.com"}, hosts)
	_, err = e.Hosts(outbound.Target{Mode: "basic"})
	require.Equal(t, []string{"mode"}, fields(t, err))
}

// Unencrypted requests need the caller's word that the egress policy allows them.
func TestHTTPNeedsAllowance(t *testing.T) {
	t.Parallel()
	e := compile(t, `
connection_config: {base_url: {type: url, title: Base URL, example: "https://a.example"}}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth: [{mode: bearer}]
`)
	target := outbound.Target{Config: config(t, e, "", "base_url", "http://127.0.0.1:8080/v1/")}
	_, err := e.Hosts(target)
	require.Equal(t, []string{"base_url"}, fields(t, err))
	target.AllowHTTP = true
	hosts, err := e.Hosts(target)
	require.NoError(t, err)
	require.Equal(t, []string{"http://127.0.0.1:8080"}, hosts)
	target.BaseURL = "http://127.0.0.1:8081"
	_, err = e.Hosts(target)
	require.Equal(t, []string{"base_url"}, fields(t, err), "another port is another host")
}

// A field of type url is a whole URL that every parser reads in the same way, and its host the only one.
func TestURLFields(t *testing.T) {
	t.Parallel()
	e := compile(t, `
connection_config: {base_url: {type: url, title: Base URL, example: "https://a.example"}}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth: [{mode: bearer}]
`)
	for _, value := range []string{"https://a.example#", "https://a.example?x=1", "https://u:p@a.example", "https://a.example@b",
		"https://a.example.", "https://a..example", "https://exämple.com", "https://a.example:", "https://a.example:99999",
		"https://a.example/..", "https://a.example/%2e%2e/b", "https://a.example\\b", "ftp://a.example", "a.example", "//a.example",
		"https://", "https:a.example", "https://0x7f.1", "https://2130706433", "https://[::1%25eth0]", "https://a.example/\n", " https://a",
		"https://a_b.example", "javascript:alert(1)"} {
		_, problems := e.ResolveConfig("", map[string]string{"base_url": value})
		require.Equal(t, []string{"connection_config.base_url"}, fieldsOf(t, problems), "%q", value)
	}
	for value, host := range map[string]string{"https://A.example:443/v1/": "a.example", "https://10.0.0.1:8443": "10.0.0.1:8443",
		"https://[::1]:1": "[::1]:1", "https://internal": "internal", "https://xn--exmple-cua.com": "xn--exmple-cua.com"} {
		hosts, err := e.Hosts(outbound.Target{Config: config(t, e, "", "base_url", value)})
		require.NoError(t, err)
		require.Equal(t, []string{host}, hosts)
	}
}

// A host that is a public suffix itself is never one of an open label, also where the list shows it only then.
func TestSuffixesUnderAnOpenLabel(t *testing.T) {
	t.Parallel()
	e := compile(t, `
base_url: https://api.fastly.net
allowed_hosts: ["*.fastly.net"]
auth: [{mode: bearer}]
`)
	_, err := e.Hosts(outbound.Target{BaseURL: "https://docs.fastly.net"})
	require.NoError(t, err)
	_, err = e.Hosts(outbound.Target{BaseURL: "https://map.fastly.net"})
	require.Equal(t, []string{"base_url"}, fields(t, err))
}
