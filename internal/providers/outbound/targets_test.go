package outbound_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/outbound"
)

// shops is a provider whose customers are names below a suffix of its own.
const shops = `
connection_config: {shop: {title: Shop, suffix: .myshopify.com, example: acme}}
base_url: "https://${config.shop}.myshopify.com/admin"
allowed_hosts: ["*.myshopify.com"]
own_suffixes: [myshopify.com]
auth: [{mode: bearer}]
`

// A suffix that the definition declares as the provider's own may have an open label directly over it, and no value of
// a connection gets out of it.
func TestOwnSuffix(t *testing.T) {
	t.Parallel()
	e := compile(t, shops)
	hosts, err := e.Hosts(outbound.Target{Config: config(t, e, "", "shop", "acme.myshopify.com")})
	require.NoError(t, err)
	require.Equal(t, []string{"acme.myshopify.com"}, hosts)
	for _, value := range []string{"a.b", "evil.com#", "evil.com/", "a@b", "xn--a", "acme.myshopify.com.evil"} {
		_, problems := e.ResolveConfig("", map[string]string{"shop": value})
		require.Equal(t, []string{"connection_config.shop"}, fieldsOf(t, problems), value)
	}
	for host, want := range map[string]bool{"acme.myshopify.com": true, "myshopify.com": false, "a.b.myshopify.com": false,
		"acme.github.io": false} {
		require.Equal(t, want, e.AllowsURL(&url.URL{Scheme: "https", Host: host}, false), host)
	}
}

// Only suffixes of the list's private part are accepted as own ones, and only where an open label is over them: the
// field opens nothing else.
func TestOwnSuffixRefused(t *testing.T) {
	t.Parallel()
	for suffixes, want := range map[string][]string{
		"[]":                            {"allowed_hosts[0]"},
		"[com]":                         {"allowed_hosts[0]", "own_suffixes[0]"},
		"[co.uk]":                       {"allowed_hosts[0]", "own_suffixes[0]"},
		"[acme.com]":                    {"allowed_hosts[0]", "own_suffixes[0]"},
		"[shop.myshopify.com]":          {"allowed_hosts[0]", "own_suffixes[0]"},
		"[MyShopify.com]":               {"allowed_hosts[0]", "own_suffixes[0]"},
		"[localhost]":                   {"allowed_hosts[0]", "own_suffixes[0]"},
		"[github.io]":                   {"allowed_hosts[0]", "own_suffixes[0]"},
		"[myshopify.com, github.io]":    {"own_suffixes[1]"},
		`["", myshopify.com]`:           {"own_suffixes[0]"},
		"[myshopify.com, s3.acme.test]": {"own_suffixes[1]"},
	} {
		_, err := outbound.Compile(read(t, strings.Replace(shops, "[myshopify.com]", suffixes, 1)))
		require.Equal(t, want, fields(t, err), suffixes)
	}
}

// sites has a mode with a base URL of its own, and probes at other hosts.
const sites = `
connection_config:
  cloud_id: {title: Cloud, source: probe, required_for: [scoped], pattern: "[0-9a-f-]+", example: 1a}
  site: {title: Site, suffix: .sites.test}
  region: {title: Region, enum: [eu, us], default: eu, required_for: [aws_sigv4]}
  team: {title: Team, optional: true, required_for: [scoped]}
base_url: "https://api.acme.com/ex/${config.cloud_id}"
allowed_hosts: [api.acme.com, "*.sites.test", "sts.${config.region}.acme.com"]
auth:
  - {mode: bearer, request: {headers: {X-Team: "${config.team}"}}}
  - {mode: basic, base_url: ["https://${config.site}.sites.test", "https://fallback.sites.test/v1"]}
  - {mode: bearer, name: scoped, request: {headers: {X-Team: "${config.team}"}}}
  - {mode: aws_sigv4, base_url: https://api.acme.com, aws: {region: "${config.region}", service: s3}}
request: {headers: {Accept: application/xml}}
health:
  probes:
    - {url: "https://api.acme.com/resources?a=1", modes: [bearer], account: {id: /0/id, label: {header: x-name}}, config: {cloud_id: /0/id}}
    - {path: /me, modes: [bearer, scoped], account: {id: {config: cloud_id}, label: {body: /name}}}
    - method: POST
      url: "https://sts.${config.region}.acme.com/"
      headers: {Accept: application/json}
      aws: {region: "${config.region}", service: sts}
      modes: [aws_sigv4]
`

// A mode with base URLs of its own uses no others, and asks only for the settings in them.
func TestModeBaseURL(t *testing.T) {
	t.Parallel()
	e := compile(t, sites)
	require.Equal(t, []string{"https://api.acme.com/ex/${config.cloud_id}"}, e.BaseURLs())
	basic, _ := e.Mode("basic")
	require.Equal(t, []string{"https://${config.site}.sites.test", "https://fallback.sites.test/v1"}, basic.BaseURLs)
	names := func(mode string) string {
		m, _ := e.Mode(mode)
		var out []string
		for i := range m.Config {
			out = append(out, m.Config[i].Name)
		}
		return strings.Join(out, " ")
	}
	require.Equal(t, "site", names("basic"))
	require.Equal(t, "cloud_id team", names("bearer"))
	require.Equal(t, "region", names("aws_sigv4"))
	v := outbound.Values{Target: outbound.Target{Mode: "basic", Config: config(t, e, "basic", "site", "shop.sites.test")},
		Credentials: credentials("username", "u", "password", "p")}
	for base, want := range []string{"https://shop.sites.test/a", "https://fallback.sites.test/v1/a"} {
		req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: "GET", Path: "/a", Base: base}, v)
		require.NoError(t, err)
		require.Equal(t, want, req.URL.String())
	}
	hosts, err := e.Hosts(v.Target)
	require.NoError(t, err)
	require.Equal(t, []string{"fallback.sites.test", "shop.sites.test"}, hosts)
	v.BaseURL = "https://other.sites.test"
	hosts, err = e.Hosts(v.Target)
	require.NoError(t, err)
	require.Equal(t, []string{"other.sites.test"}, hosts, "a provider config's URL replaces the mode's")
}

// A probe with a URL of its own goes there and not below the base URL, its host is among those of the connection, and
// what it finds is used by the next one; a value that the connection has already stays.
func TestProbeURL(t *testing.T) {
	t.Parallel()
	e := compile(t, sites)
	v := outbound.Values{Target: outbound.Target{Mode: "bearer", Config: config(t, e, "bearer")},
		Credentials: credentials("token", "T"), Now: now}
	hosts, err := e.Hosts(v.Target)
	require.NoError(t, err, "a setting in the path of the base URL is not needed to know its host")
	require.Equal(t, []string{"api.acme.com"}, hosts)
	probes := e.Probes("bearer")
	v.BaseURL = "https://x.sites.test"
	req, err := e.PrepareProbe(t.Context(), probes[0], v)
	require.NoError(t, err)
	require.Equal(t, "https://api.acme.com/resources?a=1", req.URL.String())
	require.Equal(t, "Bearer T", req.Header.Get("Authorization"))
	require.Equal(t, "GET /resources?a=1", probes[0].String())
	v.BaseURL = ""
	_, err = e.PrepareProbe(t.Context(), probes[1], v)
	require.Equal(t, []string{"connection_config.cloud_id"}, fields(t, err))
	_, account, found := e.JudgeProbe(probes[0], v.Config, response(200, `[{"id":"1a"}]`, "X-Name", "Acme"), now)
	require.Equal(t, outbound.Account{ID: "1a", Label: "Acme"}, account)
	require.Equal(t, map[string]string{"cloud_id": "1a"}, found)
	chosen := config(t, e, "bearer", "cloud_id", "2b")
	_, _, found = e.JudgeProbe(probes[0], chosen, response(200, `[{"id":"1a"}]`), now)
	require.Empty(t, found)
	_, account, _ = e.JudgeProbe(probes[1], chosen, response(200, `{"name":"N"}`), now)
	require.Equal(t, outbound.Account{ID: "2b", Label: "N"}, account)

	v = outbound.Values{Target: outbound.Target{Mode: "aws_sigv4", Config: config(t, e, "aws_sigv4", "region", "us")},
		Credentials: credentials("access_key_id", "AKIA", "secret_access_key", "s"), Now: now}
	hosts, err = e.Hosts(v.Target)
	require.NoError(t, err)
	require.Equal(t, []string{"api.acme.com", "sts.us.acme.com"}, hosts)
	req, err = e.PrepareProbe(t.Context(), e.Probes("aws_sigv4")[0], v)
	require.NoError(t, err)
	require.Equal(t, "https://sts.us.acme.com/", req.URL.String())
	require.Equal(t, "application/json", req.Header.Get("Accept"), "the probe's header wins over the definition's default")
	require.Contains(t, req.Header.Get("Authorization"), "Credential=AKIA/20260304/us/sts/aws4_request")
	req, err = e.Prepare(t.Context(), outbound.Outgoing{Method: "GET", Path: "/"}, v)
	require.NoError(t, err)
	require.Contains(t, req.Header.Get("Authorization"), "/us/s3/aws4_request", "other requests are signed as before")
}

// A field that is required for a mode has to be given there, although it has a default, another source or is
// optional elsewhere; the form of the mode shows it so.
func TestRequiredFor(t *testing.T) {
	t.Parallel()
	e := compile(t, sites)
	require.Equal(t, outbound.Config(credentials("region", "eu")), config(t, e, "bearer"))
	_, problems := e.ResolveConfig("scoped", nil)
	require.Equal(t, []string{"connection_config.cloud_id", "connection_config.team"}, fieldsOf(t, problems))
	_, problems = e.ResolveConfig("aws_sigv4", nil)
	require.Equal(t, []string{"connection_config.region"}, fieldsOf(t, problems))
	scoped, _ := e.Mode("scoped")
	require.ElementsMatch(t, []string{"cloud_id", "team"}, outbound.Schema(scoped.Config)["required"])
	bearer, _ := e.Mode("bearer")
	require.Empty(t, outbound.Schema(bearer.Config)["required"])
}

// The rules of the fields above name what breaks them.
func TestCompileRefusesTargets(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		old, text string
		want      []string
	}{
		"no base URL for a mode":   {`base_url: "https://api.acme.com/ex/${config.cloud_id}"`, "", []string{"base_url"}},
		"host of a mode":           {"https://fallback.sites.test/v1", "https://evil.test", []string{"auth[1].base_url"}},
		"query of a mode":          {"https://fallback.sites.test/v1", "https://fallback.sites.test?a=b", []string{"auth[1].base_url[1]"}},
		"empty list":               {`["https://${config.site}.sites.test", "https://fallback.sites.test/v1"]`, "[]", []string{"auth[1].base_url", "connection_config.site"}},
		"host of a probe":          {"https://api.acme.com/resources", "https://evil.test/resources", []string{"health.probes[0].url"}},
		"two targets":              {`- {url: "https`, `- {path: /a, url: "https`, []string{"health.probes[0].url"}},
		"secret of a probe":        {"resources?a=1", "resources?a=${cred.token}", []string{"health.probes[0].url"}},
		"aws of a bearer":          {"account: {id: {config: cloud_id}", "aws: {region: a, service: b}, account: {id: {config: cloud_id}", []string{"health.probes[1].aws"}},
		"aws without a service":    {", service: sts}", "}", []string{"health.probes[2].aws"}},
		"header of a probe":        {"headers: {Accept: application/json}", "headers: {Host: a}", []string{"health.probes[2].headers.Host"}},
		"two places":               {"label: {body: /name}", "label: {body: /name, header: x}", []string{"health.probes[1].account.label"}},
		"no place":                 {"account: {id: {config: cloud_id}, ", "account: {", []string{"health.probes[1].account.id"}},
		"pointer":                  {"label: {body: /name}", "label: name", []string{"health.probes[1].account.label"}},
		"header name":              {"{header: x-name}", `{header: "x name"}`, []string{"health.probes[0].account.label.header"}},
		"unknown field of a place": {"id: {config: cloud_id}", "id: {config: cloud}", []string{"health.probes[1].account.id.config"}},
		"required for no mode":     {"required_for: [scoped], pattern", "required_for: [scoped, none], pattern", []string{"connection_config.cloud_id.required_for[1]"}},
		"required where unused":    {"required_for: [scoped], pattern", "required_for: [scoped, basic], pattern", []string{"connection_config.cloud_id.required_for[1]"}},
		"required anyway":          {"{title: Site,", "{title: Site, required_for: [basic],", []string{"connection_config.site.required_for"}},
		"given by nothing":         {"source: probe, required_for: [scoped]", "source: probe", []string{"connection_config.cloud_id.source"}},
	} {
		require.Contains(t, sites, tt.old, name)
		_, err := outbound.Compile(read(t, strings.Replace(sites, tt.old, tt.text, 1)))
		require.Equal(t, tt.want, fields(t, err), name)
	}
	all := strings.NewReplacer(`base_url: "https://api.acme.com/ex/${config.cloud_id}"`, `base_url: https://api.acme.com`,
		"{mode: bearer,", `{mode: bearer, base_url: "https://api.acme.com/ex/${config.cloud_id}",`).Replace(sites)
	_, err := outbound.Compile(read(t, all))
	require.Equal(t, []string{"base_url"}, fields(t, err), "used by no mode")
	compile(t, strings.Replace(all, "\nbase_url: https://api.acme.com\n", "\n", 1))
}

// A signature can cover the path and the query as they are sent.
func TestSignedTarget(t *testing.T) {
	t.Parallel()
	e := compile(t, `
base_url: https://api.acme.com/v1
allowed_hosts: [api.acme.com]
auth:
  - mode: hmac
    request: {headers: {X-Time: "${now}"}}
    signature: {algorithm: sha256, content: "${now}${request.method}${request.target}${request.body}", header: X-Sign}
`)
	v := outbound.Values{Credentials: credentials("key_id", "k1", "secret", "s"), Now: now}
	for target, out := range map[string]outbound.Outgoing{
		"GET/v1":                {Method: "GET"},
		"GET/v1/a%2Fb?q=x+y":    {Method: "GET", Path: "/a%2Fb", Query: url.Values{"q": {"x y"}}},
		"POST/v1/a{\"b\":true}": {Method: "POST", Path: "/a", Body: []byte(`{"b":true}`)},
	} {
		req, err := e.Prepare(t.Context(), out, v)
		require.NoError(t, err)
		mac := hmac.New(sha256.New, []byte("s"))
		mac.Write([]byte("1772600767" + target))
		require.Equal(t, hex.EncodeToString(mac.Sum(nil)), req.Header.Get("X-Sign"), target)
	}
}

// A wait can be a duration with units. Foreign texts are no time, and no time is negative or longer than a day.
func TestDurationWait(t *testing.T) {
	t.Parallel()
	e := compile(t, `
base_url: https://api.acme.com
allowed_hosts: [api.acme.com]
auth: [{mode: bearer}]
rate_limit:
  wait: [{header: X-Reset, kind: duration}]
  learn: [{remaining: X-Left, reset: X-Reset, reset_kind: duration}]
`)
	for text, want := range map[string]time.Duration{"1s": time.Second, "6m0s": 6 * time.Minute, "120ms": 120 * time.Millisecond,
		"1h2m3.5s": time.Hour + 2*time.Minute + 3500*time.Millisecond, "1d": 24 * time.Hour, "3d4h": 24 * time.Hour, "0s": 0,
		"23h59m": 23*time.Hour + 59*time.Minute, "1": 0, "s": 0, "": 0, "-1s": 0, "1s1m": 0, "1 s": 0, "1e9s": 0, "1µs": 0,
		"99999999999s": 0, "NaNs": 0, "1s\n": time.Second} {
		verdict := e.Judge(response(429, `{}`, "X-Reset", text), now)
		require.Equal(t, want, verdict.Wait, "%q", text)
	}
	require.Equal(t, []outbound.Learned{{Remaining: 3, Reset: 6 * time.Minute}},
		e.Limits().Learn(response(200, `{}`, "X-Left", "3", "X-Reset", "6m0s"), now))
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(48*time.Hour/time.Millisecond)).Draw(t, "ms")) * time.Millisecond
		if got := e.Judge(response(429, `{}`, "X-Reset", d.String()), now).Wait; got != min(d, 24*time.Hour) {
			t.Fatalf("%s is read as %s", d, got)
		}
	})
}

// A condition can look for a text in a body that is no JSON, within a bound.
func TestBodyContains(t *testing.T) {
	t.Parallel()
	const text = `
base_url: https://api.acme.com
allowed_hosts: [api.acme.com]
auth: [{mode: bearer}]
errors:
  scope_missing_when: [{status: 401, body_contains: Permission Requested}]
`
	e := compile(t, text)
	verdict := e.Judge(response(401, "unauthorized permission requested"), now)
	require.True(t, verdict.ScopeMissing && !verdict.AuthFailed)
	require.True(t, e.Judge(response(401, "invalid token"), now).AuthFailed)
	require.False(t, e.Judge(response(403, "unauthorized permission requested"), now).ScopeMissing)
	require.True(t, e.Judge(response(401, strings.Repeat(" ", 64<<10)+"permission requested"), now).AuthFailed, "not beyond 64 KiB")
	for _, more := range []string{"equals: a", "contains: a", "absent: true", "body: /a", "header: a", "in: [a]"} {
		_, err := outbound.Compile(read(t, strings.Replace(text, "body_contains", more+", body_contains", 1)))
		require.Equal(t, []string{"errors.scope_missing_when[0].body_contains"}, fields(t, err), more)
	}
	_, err := outbound.Compile(read(t, strings.Replace(text, "Permission Requested", strings.Repeat("a", 1025), 1)))
	require.Equal(t, []string{"errors.scope_missing_when[0].body_contains"}, fields(t, err))
}

// A header is found by any spelling of its name.
func TestAccountOfHeader(t *testing.T) {
	t.Parallel()
	e := compile(t, `
base_url: https://api.acme.com
allowed_hosts: [api.acme.com]
auth: [{mode: bearer}]
health: {probes: [{path: /me, account: {id: {header: x-organization}}}]}
`)
	r := outbound.Response{Status: 200, Header: http.Header{"X-Organization": {"org\x00-1 "}}}
	_, account, _ := e.JudgeProbe(e.Probes("")[0], nil, r, now)
	require.Equal(t, outbound.Account{ID: "org-1"}, account)
	r.Header.Del("X-Organization")
	_, account, _ = e.JudgeProbe(e.Probes("")[0], nil, r, now)
	require.Equal(t, outbound.Account{}, account)
}
