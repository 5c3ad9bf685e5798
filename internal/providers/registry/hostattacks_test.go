package registry_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/definitions"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/registry"
)

// hostAttacks are values of a setting that would move a request to another host where it stands in one. Each has the
// attacker's host, or is what an address filter and a client may read differently.
func hostAttacks() map[string]string {
	return map[string]string{
		"fragment": "evil.com#", "path": "evil.com/", "query": "evil.com?", "backslash": `evil.com\`, "user": "a.b@c",
		"user and password": "u:p@evil.com", "port": "evil.com:443", "port alone": ":8443", "other host": "evil.com",
		"IDN": "exämple", "homograph": "ехаmple", "punycode": "xn--exmple-cua", "encoded dot": "evil%2ecom",
		"encoded fragment": "evil.com%23", "encoded slash": "evil.com%2f", "encoded zero": "evil.com%00",
		"encoded twice": "evil.com%2523", "CRLF": "a\r\nHost: evil.com", "LF": "a\nHost: evil.com",
		"zero byte": "evil.com\x00",
		"tab":       "evil\t.com", "dots": "..", "traversal": "../../evil.com", "encoded traversal": "%2e%2e/evil.com",
		"trailing dot": "evil.com.", "leading dot": ".evil.com", "IPv6": "[::1]", "mapped IPv6": "[::ffff:127.0.0.1]",
		"zone": "[fe80::1%25eth0]", "IPv4": "127.0.0.1", "decimal": "2130706433.", "hexadecimal": "0x7f.1",
		"octal":           "0177.0.0.1",
		"ideographic dot": "evil\u3002com", "one dot leader": "evil\u2024com", "full width": "ｅｖｉｌ．ｃｏｍ",
		"Arabic digits": "\u0661\u0662\u0667.0.0.1", "right to left": "\u202emoc.live", "soft hyphen": "ev\u00adil.com",
		"label too long": strings.Repeat("a", 64), "very long": strings.Repeat("evil.com/", 10_000), "wildcard": "*",
		"template": "${config.base_url}", "space": "evil.com ", "not UTF-8": "evil.com\xff", "scheme": "https://evil.com",
		"slashes": "//evil.com", "underscore": "evil_com.", "hyphen": "-evil.",
	}
}

// urlAttacks are values of a field that is a whole URL. A plain URL of another host is no attack on such a field.
func urlAttacks() map[string]string {
	list := map[string]string{"javascript": "javascript:alert(1)", "data": "data:text/html,x",
		"file":            "file:///etc/passwd",
		"without slashes": "https:evil.com", "two hosts": "https://good.example.com\\@evil.com/",
		"dot segments": "https://good.example.com/../x", "encoded dot segments": "https://good.example.com/%2e%2e/x"}
	for name, value := range hostAttacks() {
		if name == "other host" || name == "punycode" || name == "IPv4" || name == "IPv6" || name == "scheme" ||
			name == "port" || name == "path" || name == "label too long" || name == "very long" {
			continue // URLs of their own once https:// is before them, or judged below
		}
		list[name] = "https://good.example.com" + value
		list[name+" first"] = "https://" + value + "good.example.com"
	}
	// These are plain URLs of one host, each in its own way.
	for _, harmless := range []string{"template", "slashes", "hyphen first", "leading dot", "trailing dot first",
		"port alone", "decimal first", "hexadecimal first", "octal first"} {
		delete(list, harmless)
	}
	list["very long"] = "https://good.example.com/" + strings.Repeat("a", 100_000)
	return list
}

// outgoingProvider is a definition that ships and makes requests.
type outgoingProvider struct {
	slug   string
	engine *outbound.Engine
	hosts  []string
}

func outgoingProviders(tb testing.TB) []outgoingProvider {
	tb.Helper()
	shipped, err := registry.Load(definitions.FS())
	require.NoError(tb, err)
	var list []outgoingProvider
	for _, p := range shipped.List() {
		if p.Outbound != nil {
			list = append(list, outgoingProvider{p.Definition.Slug, p.Outbound, p.Outbound.AllowedHosts()})
		}
	}
	require.Greater(tb, len(list), 15)
	return list
}

// settings returns valid settings, as the definition's examples have them.
func (p outgoingProvider) settings() map[string]string {
	out := map[string]string{}
	for _, f := range p.engine.ConfigFields() {
		switch {
		case f.Default != "":
			out[f.Name] = f.Default
		case len(f.Enum) > 0:
			out[f.Name] = f.Enum[0]
		case f.Example != "":
			out[f.Name] = f.Example
		}
	}
	return out
}

var placeholders = regexp.MustCompile(`\$\{config\.([a-z0-9_]+)\}`)

// allows reports whether allowed_hosts of the definition has the host. It is written apart from the code under test:
// by regular expressions over the definition's text.
func (p outgoingProvider) allows(host string, settings outbound.Config) bool {
	types := map[string]outbound.FieldType{}
	for _, f := range p.engine.ConfigFields() {
		types[f.Name] = f.Type
	}
	return slices.ContainsFunc(p.hosts, func(entry string) bool {
		pattern := regexp.QuoteMeta(placeholders.ReplaceAllStringFunc(entry, func(m string) string {
			name := placeholders.FindStringSubmatch(m)[1]
			value := settings[name].Reveal()
			if types[name] != outbound.TypeURL {
				return strings.ToLower(value)
			}
			u, err := url.Parse(value)
			if err != nil || u.Host == "" {
				return "none"
			}
			return strings.TrimSuffix(strings.ToLower(u.Host), ":443")
		}))
		pattern = `\A` + strings.ReplaceAll(pattern, `\*`, `[a-z0-9]([a-z0-9-]*[a-z0-9])?`) + `\z`
		return regexp.MustCompile(pattern).MatchString(strings.TrimSuffix(strings.ToLower(host), ":443"))
	})
}

// check fails if settings that the definition accepts lead anywhere but to its allowed hosts. It returns false for
// settings that it does not accept.
func (p outgoingProvider) check(t testing.TB, mode *outbound.Mode, settings map[string]string, baseURL string) bool {
	t.Helper()
	resolved, problems := p.engine.ResolveConfig(mode.Name, settings)
	if len(problems) > 0 {
		return false
	}
	v := outbound.Values{Target: outbound.Target{Mode: mode.Name, Config: resolved, BaseURL: baseURL},
		Client:      outbound.Client{ID: "client-1", Secret: "client-secret"},
		Credentials: map[string]secretbox.Secret{"access_token": "token", "token": "token"}, Now: time.Unix(1772600767, 0)}
	for _, f := range mode.Fields {
		v.Credentials[f.Name] = secretbox.Secret("credential")
		if f.Example != "" {
			v.Credentials[f.Name] = secretbox.Secret(f.Example)
		}
	}
	hosts, err := p.engine.Hosts(v.Target)
	for _, host := range hosts {
		require.True(t, p.allows(host, resolved), "%s, mode %s: the credentials belong to %q", p.slug, mode.Name, host)
	}
	lead := func(what string, u *url.URL) {
		require.True(t, p.allows(u.Host, resolved), "%s, mode %s: %s goes to %q", p.slug, mode.Name, what, u.Host)
		require.Equal(t, "https", u.Scheme)
		require.Nil(t, u.User)
		// Another parser reads the same host.
		again, parseErr := url.Parse(u.String())
		require.NoError(t, parseErr)
		require.Equal(t, u.Host, again.Host)
	}
	if req, prepareErr := p.engine.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/a"},
		v); prepareErr == nil {
		require.NoError(t, err, "%s, mode %s: a request is made, but the hosts are refused", p.slug, mode.Name)
		lead("a request", req.URL)
		require.Equal(t, req.URL.Host, req.Host)
		for name, values := range req.Header {
			require.NotContains(t, name+strings.Join(values, ""), "\n")
			require.NotContains(t, name+strings.Join(values, ""), "\r")
		}
	}
	for _, probe := range p.engine.Probes(mode.Name) {
		if req, probeErr := p.engine.PrepareProbe(t.Context(), probe, v); probeErr == nil {
			lead("a probe", req.URL)
		}
	}
	if req, loginErr := p.engine.Login(t.Context(), v); loginErr == nil && req != nil {
		lead("a login", req.URL)
	}
	if req, revokeErr := p.engine.Revocation(t.Context(), v); revokeErr == nil && req != nil {
		lead("a revocation", req.URL)
	}
	if ends, endsErr := p.engine.Endpoints(v); endsErr == nil {
		for what, text := range map[string]string{"the token request": ends.TokenURL, "a refresh": ends.RefreshURL,
			"the first request of OAuth 1": ends.RequestTokenURL, "a revocation": ends.RevokeURL,
			"the user": ends.AuthorizeURL} {
			if text == "" {
				continue
			}
			u, parseErr := url.Parse(text)
			require.NoError(t, parseErr)
			lead(what, u)
		}
	}
	return true
}

// A value that attacks the host is refused in every setting of every definition whose value stands in a host, before
// any credential is read: ResolveConfig knows none. In other settings it is refused as well, or leads nowhere else.
func TestAttacksOnHosts(t *testing.T) {
	t.Parallel()
	for _, p := range outgoingProviders(t) {
		t.Run(p.slug, func(t *testing.T) {
			t.Parallel()
			text := strings.Join(append(p.engine.BaseURLs(), p.hosts...), " ")
			for _, f := range p.engine.ConfigFields() {
				attacks := hostAttacks()
				if f.Type == outbound.TypeURL {
					attacks = urlAttacks()
				}
				for name, value := range attacks {
					for _, mode := range p.engine.Modes() {
						settings := p.settings()
						settings[f.Name] = value
						accepted := p.check(t, mode, settings, "")
						inHost := strings.Contains(text, "${config."+f.Name+"}")
						// Punycode is a label like any other.
						if f.Type == outbound.TypeURL || inHost && name != "punycode" {
							require.False(t, accepted, "%s accepts %s: %q", f.Name, name, value)
						}
					}
				}
			}
			for name, value := range urlAttacks() {
				for _, mode := range p.engine.Modes() {
					p.check(t, mode, p.settings(), value)
					p.check(t, mode, p.settings(), "https://evil.com/"+name)
				}
			}
		})
	}
}

// The oracle of these tests finds a host that is not allowed.
func TestAttackOracle(t *testing.T) {
	t.Parallel()
	p := outgoingProvider{hosts: []string{"*.acme.com", "api.acme.io"}, engine: outgoingProviders(t)[0].engine}
	for host, want := range map[string]bool{"a.acme.com": true, "API.acme.io:443": true, "a.b.acme.com": false,
		"acme.com": false, "evil.com": false, "a.acme.com.evil.com": false, "api.acme.io:8443": false, "apiXacme.io": false} {
		require.Equal(t, want, p.allows(host, nil), host)
	}
}

// Any value of a setting that a definition accepts leads to its allowed hosts alone.
func FuzzHostsOfDefinitions(f *testing.F) {
	list := outgoingProviders(f)
	for _, value := range hostAttacks() {
		f.Add(uint8(0), uint8(0), value, value)
	}
	for _, value := range urlAttacks() {
		f.Add(uint8(1), uint8(1), value, value)
	}
	f.Add(uint8(2), uint8(2), "acme", "https://acme.example.com")
	f.Fuzz(func(t *testing.T, provider, field uint8, value, baseURL string) {
		p := list[int(provider)%len(list)]
		settings := p.settings()
		if fields := p.engine.ConfigFields(); len(fields) > 0 {
			settings[fields[int(field)%len(fields)].Name] = value
		}
		for _, mode := range p.engine.Modes() {
			p.check(t, mode, settings, "")
			p.check(t, mode, settings, baseURL)
		}
	})
}
