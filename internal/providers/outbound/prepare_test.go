package outbound_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
)

// prepare renders a request for a connection of acme.
func prepare(t *testing.T, e *outbound.Engine, mode string, out outbound.Outgoing, creds ...string) *http.Request {
	t.Helper()
	req, err := e.Prepare(t.Context(), out, outbound.Values{Target: outbound.Target{Mode: mode,
		Config: config(t, e, mode, "subdomain", "shop")}, Credentials: credentials(creds...), Now: now})
	require.NoError(t, err)
	return req
}

// A request has the base URL before its path, the caller's query, header and body, and the credentials of the mode.
func TestPrepare(t *testing.T) {
	t.Parallel()
	e := compile(t, acme)
	req := prepare(t, e, "", outbound.Outgoing{Method: http.MethodPost, Path: "/a%2Fb/c", Query: url.Values{"q": {"1", "2"}},
		Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte("body")}, "token", "T")
	require.Equal(t, "https://shop.acme.com/api/v1/a%2Fb/c?q=1&q=2", req.URL.String())
	require.Equal(t, http.Header{"Authorization": {"Bearer T"}, "Content-Type": {"text/plain"}, "User-Agent": {"Sallyport"}},
		req.Header)
	body, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	require.Equal(t, "body", string(body))
	require.Equal(t, int64(4), req.ContentLength)

	req = prepare(t, e, "api_key", outbound.Outgoing{Method: http.MethodGet}, "api_key", "K")
	require.Equal(t, "https://shop.acme.com/api/v1", req.URL.String())
	require.Equal(t, []string{"K"}, req.Header["X-Key"])
	require.Empty(t, req.Header.Get("Authorization"))
	require.Equal(t, http.NoBody, req.Body)
}

// A caller cannot replace or add credentials, name another host, or frame the message differently.
func TestPrepareDropsTheCallersCredentials(t *testing.T) {
	t.Parallel()
	e := compile(t, acme)
	given := http.Header{"Authorization": {"Bearer mine"}, "x-key": {"mine"}, "Cookie": {"a=b"}, "Host": {"evil.com"},
		"Content-Length": {"1"}, "Transfer-Encoding": {"chunked"}, "Connection": {"x"}, "Proxy-Authorization": {"x"},
		"X-Forwarded-Host": {"evil.com"}, "Api-Key": {"x"}, "Accept": {"text/html"}, "Te": {"trailers"}}
	for _, mode := range []string{"bearer", "api_key"} {
		req := prepare(t, e, mode, outbound.Outgoing{Method: http.MethodGet, Path: "/", Header: given,
			Query: url.Values{"note": {"mine"}, "a": {"1"}}}, "token", "T", "api_key", "K")
		want := http.Header{"Accept": {"text/html"}, "User-Agent": {"Sallyport"}}
		if mode == "bearer" {
			want.Set("Authorization", "Bearer T")
		} else {
			want.Set("X-Key", "K")
		}
		require.Equal(t, want, req.Header)
		require.Equal(t, "a=1", req.URL.RawQuery, "note is a parameter of the definition, and empty")
		require.Equal(t, "shop.acme.com", req.Host)
	}
}

// A text without an expression is a default: the caller's value wins. The user agent of a definition does not yield.
func TestPrepareDefaults(t *testing.T) {
	t.Parallel()
	e := compile(t, strings.Replace(acme, "auth:", `request:
  headers: {Accept: application/json, X-Version: "1"}
  query: {format: json}
  user_agent: acme-client/1
auth:`, 1))
	req := prepare(t, e, "", outbound.Outgoing{Method: http.MethodGet, Path: "/", Header: http.Header{"Accept": {"text/csv"},
		"User-Agent": {"curl"}}, Query: url.Values{"format": {"csv"}}}, "token", "T")
	require.Equal(t, http.Header{"Accept": {"text/csv"}, "X-Version": {"1"}, "User-Agent": {"acme-client/1"},
		"Authorization": {"Bearer T"}}, req.Header)
	require.Equal(t, "format=csv", req.URL.RawQuery)
}

// Paths stay below the base URL on every server: no dot segments in any form, no authority, no query in disguise.
func TestPrepareRefusesPaths(t *testing.T) {
	t.Parallel()
	e := compile(t, acme)
	v := outbound.Values{Target: outbound.Target{Config: config(t, e, "", "subdomain", "shop")}, Credentials: credentials("token", "T")}
	for _, path := range []string{"a", "..", "/..", "/../", "/a/../b", "/./a", "/%2e%2e/a", "/%2E%2e", "/a/.%2e", "/%252e%252e/a",
		"/a%2f..%2fb", "/..;x/a", "/%2e;x", "/a\\b", "/a%5cb", "/a%5c..%5cb", "/a%00", "/a%0ab", "/a\nb", "/a b", "/a?b", "/a#b", "//evil.com",
		"//evil.com/a", "@evil.com", ":80/a", "/%", "/%zz", "/é", "/a%c3", "/" + strings.Repeat("a", 2100), "https://evil.com/", "/a\"b",
		"/%25252e%25252e"} {
		_, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: path}, v)
		if path == "/a%c3" { // a byte that is not UTF-8 is one that a provider may use in a name
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, "%q", path)
		require.Equal(t, []string{"path"}, fields(t, err), "%q", path)
	}
	for _, path := range []string{"", "/", "/a", "/a/", "/a//b", "/a%2Fb", "/a.b/..c", "/a%20b", "/a:b@c", "/100%25", "/~a;v=1,2"} {
		req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: path}, v)
		require.NoError(t, err, "%q", path)
		require.Equal(t, "/api/v1"+path, req.URL.EscapedPath())
	}
}

// A request that cannot be rendered says which value is wrong, and quotes none.
func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	e := compile(t, acme)
	good := outbound.Values{Target: outbound.Target{Config: config(t, e, "", "subdomain", "shop")},
		Credentials: credentials("token", "T")}
	tests := map[string]struct {
		change func(*outbound.Outgoing, *outbound.Values)
		field  string
	}{
		"unknown mode":       {func(_ *outbound.Outgoing, v *outbound.Values) { v.Mode = "basic" }, "mode"},
		"no token":           {func(_ *outbound.Outgoing, v *outbound.Values) { v.Credentials = nil }, "credentials.token"},
		"no value":           {func(_ *outbound.Outgoing, v *outbound.Values) { v.Config = nil }, "connection_config.subdomain"},
		"line in the token":  {func(_ *outbound.Outgoing, v *outbound.Values) { v.Credentials = credentials("token", "sec\r\nret: x") }, "credentials.token"},
		"null in the token":  {func(_ *outbound.Outgoing, v *outbound.Values) { v.Credentials = credentials("token", "sec\x00") }, "credentials.token"},
		"method":             {func(o *outbound.Outgoing, _ *outbound.Values) { o.Method = "GET /" }, "method"},
		"no method":          {func(o *outbound.Outgoing, _ *outbound.Values) { o.Method = "" }, "method"},
		"line in a header":   {func(o *outbound.Outgoing, _ *outbound.Values) { o.Header = http.Header{"A": {"b\nc"}} }, "header"},
		"space in a name":    {func(o *outbound.Outgoing, _ *outbound.Values) { o.Header = http.Header{"A b": {"c"}} }, "header"},
		"no fall-back":       {func(o *outbound.Outgoing, _ *outbound.Values) { o.Base = 1 }, "base_url"},
		"negative fall-back": {func(o *outbound.Outgoing, _ *outbound.Values) { o.Base = -1 }, "base_url"},
		"override elsewhere": {func(_ *outbound.Outgoing, v *outbound.Values) { v.BaseURL = "https://evil.com" }, "base_url"},
		"override with a query": {func(_ *outbound.Outgoing, v *outbound.Values) {
			v.BaseURL = "https://shop.acme.com?x"
		}, "base_url"},
	}
	for name, tt := range tests {
		out, v := outbound.Outgoing{Method: http.MethodGet, Path: "/"}, good
		tt.change(&out, &v)
		_, err := e.Prepare(t.Context(), out, v)
		require.Error(t, err, name)
		require.Equal(t, []string{tt.field}, fields(t, err), name)
		require.NotContains(t, err.Error(), "sec", name)
		require.NotContains(t, err.Error(), "evil", name)
	}
}

// Each mode has its usual header where the definition names no place for its credentials.
func TestUsualHeaders(t *testing.T) {
	t.Parallel()
	e := compile(t, `
base_url: https://api.acme.com
allowed_hosts: [api.acme.com]
auth:
  - {mode: none}
  - {mode: basic}
  - {mode: bearer}
  - {mode: oauth2, authorize_url: "https://api.acme.com/a", token_url: "https://api.acme.com/t"}
  - {mode: oauth2_client_credentials, token_url: "https://api.acme.com/t"}
  - {mode: jwt_bearer, token_url: "https://api.acme.com/t", jwt: {algorithm: ES256}}
  - {mode: service_account, token_url: "https://api.acme.com/t"}
  - {mode: github_app, token_url: "https://api.acme.com/${cred.installation_id}"}
  - {mode: session_token, login: {url: "https://api.acme.com/l", json: {u: "${cred.username}"}}, token: {access: /t}}
  - {mode: basic, name: own, request: {headers: {Authorization: "Basic ${basic(cred.username + \"/token\", cred.password)}"}}}
`)
	creds := credentials("username", "u", "password", "p:1", "token", "T", "access_token", "A")
	for mode, want := range map[string]string{"none": "", "basic": "Basic dTpwOjE=", "bearer": "Bearer T", "oauth2": "Bearer A",
		"oauth2_client_credentials": "Bearer A", "jwt_bearer": "Bearer A", "service_account": "Bearer A", "github_app": "Bearer A",
		"session_token": "Bearer A", "own": "Basic dS90b2tlbjpwOjE="} {
		v := outbound.Values{Target: outbound.Target{Mode: mode}, Credentials: creds, Now: now}
		req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/"}, v)
		require.NoError(t, err, mode)
		require.Equal(t, want, req.Header.Get("Authorization"), mode)
		if want == "" {
			continue
		}
		v.Credentials = nil
		_, err = e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/"}, v)
		require.Error(t, err, "%s: without credentials no request is made", mode)
	}
	v := outbound.Values{Target: outbound.Target{Mode: "basic"}, Credentials: credentials("username", "a:b", "password", "p")}
	_, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/"}, v)
	require.Equal(t, []string{"credentials"}, fields(t, err), "a colon would move the border of the password")
}

// The names of headers and parameters may come from the connection, and are checked again where they are used.
func TestChosenNames(t *testing.T) {
	t.Parallel()
	e := compile(t, `
connection_config:
  header: {title: Header, default: X-Key}
  prefix: {title: Prefix, optional: true}
  query: {title: Query, optional: true}
base_url: https://api.acme.com
allowed_hosts: [api.acme.com]
auth:
  - mode: api_key
    request:
      headers: {"${config.header}": "${config.prefix}${cred.api_key}"}
      query: {"${config.query}": "${cred.api_key}"}
`)
	send := func(pairs ...string) (*http.Request, error) {
		return e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/",
			Header: http.Header{"X-Mine": {"spoofed"}}, Query: url.Values{"k": {"spoofed"}}},
			outbound.Values{Target: outbound.Target{Config: config(t, e, "", pairs...)}, Credentials: credentials("api_key", "K&1")})
	}
	req, err := send("header", "x-mine", "prefix", "Token ", "query", "k")
	require.NoError(t, err)
	require.Equal(t, []string{"Token K&1"}, req.Header["X-Mine"])
	require.Equal(t, "k=K%261", req.URL.RawQuery)
	req, err = send()
	require.NoError(t, err)
	require.Equal(t, []string{"K&1"}, req.Header["X-Key"])
	for _, header := range []string{"Host", "content-length", "Transfer-Encoding", "a b", "a:b", "é", "Proxy-Authorization"} {
		_, err = send("header", header)
		require.Equal(t, []string{"connection_config.header"}, fields(t, err), header)
	}
}

// ${now} and ${uuid} are the same wherever they occur in one request, and a UUID differs between requests.
func TestNowAndUUID(t *testing.T) {
	t.Parallel()
	e := compile(t, `
base_url: https://api.acme.com
allowed_hosts: [api.acme.com]
auth: [{mode: none}]
request:
  headers: {A: "${uuid}", B: "${uuid}", S: "${now}", S2: "${now(unix_s)}", M: "${now(unix_ms)}", R: "${now(rfc3339)}"}
  query: {a: "${uuid}"}
`)
	send := func() *http.Request {
		req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/"}, outbound.Values{Now: now})
		require.NoError(t, err)
		return req
	}
	req := send()
	require.Equal(t, "1772600767", req.Header.Get("S"))
	require.Equal(t, "1772600767", req.Header.Get("S2"))
	require.Equal(t, "1772600767000", req.Header.Get("M"))
	require.Equal(t, "2026-03-04T05:06:07Z", req.Header.Get("R"))
	require.Len(t, req.Header.Get("A"), 36)
	require.Equal(t, req.Header.Get("A"), req.Header.Get("B"))
	require.Equal(t, req.Header.Get("A"), req.URL.Query().Get("a"))
	require.NotEqual(t, req.Header.Get("A"), send().Header.Get("A"))
}
