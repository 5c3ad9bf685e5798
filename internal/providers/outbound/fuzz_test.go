package outbound_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"sallyport/internal/providers/outbound"
)

// FuzzTemplate reads any text as a template in each kind of place. Nothing panics, and a template that is accepted is
// rendered to a request on the allowed host, or refused.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "${cred.token}", "${config.sub}", `${basic(cred.token + ":", "x")}`, "${now(rfc3339)}", "${uuid}", "${", "}${}",
		`${base64("}")}`, "https://${config.sub}.acme.com/a?b=${config.sub}", "${config.url}/x", "/a?b=c&${now}", "$${config.sub}"} {
		f.Add(seed, "value")
	}
	f.Add("https://a.acme.com/${config.sub}", "..")
	f.Fuzz(func(t *testing.T, text, value string) {
		d := read(t, `
connection_config:
  sub: {title: Sub, optional: true}
  url: {title: URL, type: url, optional: true, example: "https://x.acme.com"}
base_url: https://a.acme.com/${config.sub}${config.url}
allowed_hosts: ["*.acme.com"]
auth: [{mode: bearer, request: {headers: {Authorization: "${cred.token}"}}}]
`)
		d.BaseURL = outbound.Texts{text}
		if _, err := outbound.Compile(d); err != nil {
			d.BaseURL = outbound.Texts{"https://a.acme.com"}
		}
		d.Auth[0].Request.Headers["X"] = text
		d.Auth[0].Request.Query = map[string]string{"q": text}
		d.ConnectionConfig = read(t, `connection_config: {sub: {title: Sub, optional: true}, url: {title: URL, type: url, source: token_response, example: "https://x.acme.com"}}`).ConnectionConfig
		d.Health = &outbound.Health{Probes: []outbound.Probe{{Path: text}}}
		e, err := outbound.Compile(d)
		if err != nil {
			return
		}
		v := outbound.Values{Target: outbound.Target{Config: outbound.Config(credentials("sub", value, "url", value))},
			Credentials: credentials("token", value), Now: now}
		if req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/"}, v); err == nil {
			if !regexp.MustCompile(`\A[A-Za-z0-9-]+\.acme\.com\z`).MatchString(req.URL.Host) {
				t.Fatalf("host %q", req.URL.Host)
			}
		}
		_, _ = e.PrepareProbe(t.Context(), e.Probes("")[0], v)
	})
}

// FuzzJudge judges any response. Nothing panics, and the verdict is bounded and printable.
func FuzzJudge(f *testing.F) {
	for _, body := range []string{"", `{"ok":true}`, `{"ok":false,"error":{"code":"busy","text":"t"}}`, `{"message":"a\u0000b"}`, "<html>", `[[[[`,
		`{"ok":1e999}`, "{\"message\":\"\xff\"}", `{"id":"a","names":["b"],"cloud":"eu"}`} {
		f.Add(429, "retry-after", "120", body)
		f.Add(200, "x-reset", "1772600797", body)
	}
	f.Add(503, "retry-after", "Wed, 04 Mar 2026 05:06:07 GMT", "")
	f.Add(403, "x-at", "2026-03-04T05:06:17Z", "")
	f.Add(-1, "x-remaining", "0", "")
	e := compile(f, judged)
	f.Fuzz(func(t *testing.T, status int, header, value, body string) {
		r := outbound.Response{Status: status, Body: []byte(body), Header: http.Header{
			http.CanonicalHeaderKey(header): {value}, "X-Request-Id": {value}, "X-Remaining": {"0"}, "X-Kind": {"core"}}}
		v := e.Judge(r, now)
		if v.Wait < 0 || v.Wait > 24*time.Hour || len(v.Message) > 500 || len(v.RequestID) > 200 ||
			v.AuthFailed && v.ScopeMissing || v.OK && (v.AuthFailed || v.ScopeMissing || v.Limited) ||
			strings.ContainsFunc(v.Message+v.RequestID, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%+v", v)
		}
		for _, l := range e.Limits().Learn(r, now) {
			if l.Remaining < 0 || l.Limit < 0 || l.Reset < 0 || l.Reset > 24*time.Hour {
				t.Fatalf("%+v", l)
			}
		}
		_, account, _ := e.JudgeProbe(e.Probes("bearer")[0], nil, r, now)
		if strings.ContainsFunc(account.ID+account.Label, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%+v", account)
		}
	})
}

// FuzzHosts resolves any values of a connection. They are refused, or lead to allowed hosts and to no others.
func FuzzHosts(f *testing.F) {
	for _, value := range hostile() {
		f.Add(value, "https://api.example.com/"+value, value)
	}
	f.Add("shop", "https://api.example.com:8443/v1", "")
	f.Add("shop", "http://10.0.0.1", "https://shop.acme.com")
	e := compile(f, `
connection_config:
  sub: {title: Sub}
  url: {title: URL, type: url, example: "https://api.example.com"}
base_url: ["https://${config.sub}.acme.com/x", "${config.url}"]
allowed_hosts: ["*.acme.com", "${config.url}"]
auth: [{mode: bearer}]
`)
	host := regexp.MustCompile(`\A([a-z0-9-]+\.acme\.com|[a-z0-9.-]+(:[0-9]{1,5})?|\[[0-9a-f:.]+\](:[0-9]{1,5})?)\z`)
	f.Fuzz(func(t *testing.T, sub, url, base string) {
		c, problems := e.ResolveConfig("", map[string]string{"sub": sub, "url": url})
		if len(problems) > 0 {
			c = outbound.Config(credentials("sub", sub, "url", url))
		}
		target := outbound.Target{Config: c, BaseURL: base}
		hosts, err := e.Hosts(target)
		if err != nil {
			return
		}
		for _, h := range hosts {
			if !host.MatchString(h) {
				t.Fatalf("host %q", h)
			}
		}
		req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/a"},
			outbound.Values{Target: target, Credentials: credentials("token", "T"), Now: now})
		if err != nil {
			t.Fatalf("hosts %q, but %v", hosts, err)
		}
		if req.URL.Scheme != "https" || req.URL.User != nil || !strings.HasSuffix(req.URL.Path, "/a") {
			t.Fatalf("URL %s", req.URL)
		}
	})
}
