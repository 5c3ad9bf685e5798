package outbound_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
)

// oauth2 is a mode that is complete.
const oauth2 = `mode: oauth2, authorize_url: "https://a.acme.com/a", token_url: "https://a.acme.com/t"`

// withAuth is a definition with the modes, and withRest one with more fields.
func withAuth(modes string) string {
	return "connection_config: {sub: {title: Sub, example: shop}, key: {title: Key, secret: true}, opt: {title: Opt, optional: true}, " +
		"at: {title: At, type: url, source: token_response, example: \"https://x.acme.com\"}, realm: {title: R, source: redirect}}\n" +
		"base_url: \"https://${config.sub}.acme.com\"\nallowed_hosts: [\"*.acme.com\"]\n" +
		"auth: [{" + oauth2 + ", token_metadata: {at: /at}, redirect_metadata: {realm: realmId}, " +
		"request: {headers: {K: \"${config.key}${config.opt}\"}}}" + modes + "]\n"
}

// Each rule of the format names the field that breaks it, and nothing else.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	auth := func(mode string) string { return withAuth(", {" + mode + "}") }
	rest := func(text string) string { return withAuth("") + text }
	field := func(name, text string) string {
		return strings.Replace(withAuth(""), "{sub:", "{"+name+": "+text+", sub:", 1)
	}
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing but auth":          {"auth: [{mode: bearer}]", []string{"allowed_hosts", "base_url"}},
		"nothing but a URL":         {"base_url: https://a.acme.com\nallowed_hosts: [a.acme.com]", []string{"auth"}},
		"unknown mode":              {auth("mode: oauth"), []string{"auth[1].mode"}},
		"two of one mode":           {auth(oauth2), []string{"auth[1].name"}},
		"same name":                 {auth("mode: bearer, name: oauth2"), []string{"auth[1].name"}},
		"name":                      {auth("mode: bearer, name: A-b"), []string{"auth[1].name"}},
		"docs":                      {auth("mode: bearer, docs_url: http://a.acme.com"), []string{"auth[1].docs_url"}},
		"title of two lines":        {auth(`mode: bearer, title: "a\nb"`), []string{"auth[1].title"}},
		"long setup":                {auth("mode: bearer, setup: " + strings.Repeat("a", 9000)), []string{"auth[1].setup"}},
		"no token URL":              {auth("mode: oauth2, name: x, authorize_url: \"https://a.acme.com\""), []string{"auth[1].token_url"}},
		"no key place":              {auth("mode: api_key"), []string{"auth[1].request"}},
		"no login":                  {auth("mode: session_token"), []string{"auth[1].login", "auth[1].token"}},
		"no jwt":                    {auth("mode: jwt_bearer"), []string{"auth[1].jwt"}},
		"no aws":                    {auth("mode: aws_sigv4"), []string{"auth[1].aws"}},
		"no signature":              {auth("mode: hmac"), []string{"auth[1].signature"}},
		"URL of a bearer":           {auth("mode: bearer, token_url: \"https://a.acme.com\""), []string{"auth[1].token_url"}},
		"pkce of a bearer":          {auth("mode: bearer, pkce: none"), []string{"auth[1].pkce"}},
		"pkce":                      {auth(oauth2 + ", name: x, pkce: plain"), []string{"auth[1].pkce"}},
		"client auth":               {auth(oauth2 + ", name: x, client_auth: post"), []string{"auth[1].client_auth"}},
		"body format":               {auth(oauth2 + ", name: x, body_format: xml"), []string{"auth[1].body_format"}},
		"scope separator":           {auth(oauth2 + `, name: x, scope_separator: ", "`), []string{"auth[1].scope_separator"}},
		"two scopes in one":         {auth(oauth2 + `, name: x, default_scopes: [a, "b c"]`), []string{"auth[1].default_scopes[1]"}},
		"rename of state":           {auth(oauth2 + `, name: x, param_rename: {state: s}`), []string{"auth[1].param_rename.state"}},
		"rename of nothing":         {auth(oauth2 + `, name: x, param_rename: {a: b}`), []string{"auth[1].param_rename.a"}},
		"parameter of our own":      {auth(oauth2 + `, name: x, authorize_params: {state: x}`), []string{"auth[1].authorize_params.state"}},
		"secret in authorize":       {auth(oauth2 + `, name: x, authorize_params: {a: "${client.secret}"}`), []string{"auth[1].authorize_params.a"}},
		"secret config authorize":   {auth(oauth2 + `, name: x, authorize_params: {a: "${config.key}"}`), []string{"auth[1].authorize_params.a"}},
		"token in a URL":            {auth(`mode: oauth2_client_credentials, token_url: "https://a.acme.com/${cred.client_secret}"`), []string{"auth[1].token_url"}},
		"host elsewhere":            {auth(`mode: oauth2_client_credentials, token_url: "https://a.evil.com/"`), []string{"auth[1].token_url"}},
		"revoked elsewhere":         {auth(`mode: bearer, revoke: {url: "https://a.evil.com/"}`), []string{"auth[1].revoke.url"}},
		"login elsewhere":           {auth(`mode: session_token, token: {}, login: {url: "https://a.evil.com/"}`), []string{"auth[1].login.url"}},
		"token before login":        {auth(`mode: session_token, token: {}, login: {url: "https://a.acme.com/", json: {a: "${cred.access_token}"}}`), []string{"auth[1].login.json.a"}},
		"two revocations":           {auth(oauth2 + `, name: x, revoke_url: "https://a.acme.com", revoke: {url: "https://a.acme.com"}`), []string{"auth[1].revoke"}},
		"method of a revocation":    {auth(`mode: bearer, revoke: {url: "https://a.acme.com/", method: PURGE}`), []string{"auth[1].revoke.method"}},
		"form and json":             {auth(`mode: bearer, revoke: {url: "https://a.acme.com/", form: {a: b}, json: {a: b}}`), []string{"auth[1].revoke.json"}},
		"gone of a login":           {auth(`mode: session_token, token: {}, login: {url: "https://a.acme.com/", gone: [404]}`), []string{"auth[1].login.gone"}},
		"no URL of a revocation":    {auth(`mode: bearer, revoke: {method: POST}`), []string{"auth[1].revoke.url"}},
		"pointer":                   {auth(oauth2 + ", name: x, token: {access: access_token}"), []string{"auth[1].token.access"}},
		"unit":                      {auth(oauth2 + ", name: x, token: {unit: m}"), []string{"auth[1].token.unit"}},
		"time":                      {auth(oauth2 + ", name: x, token: {buffer: 5 minutes}"), []string{"auth[1].token.buffer"}},
		"long time":                 {auth(oauth2 + ", name: x, token: {default_ttl: 4000d}"), []string{"auth[1].token.default_ttl"}},
		"two expiries":              {auth(oauth2 + ", name: x, token: {expires_in: /a, expires_at: /b}"), []string{"auth[1].token.expires_at"}},
		"grant":                     {auth(oauth2 + ", name: x, refresh: {grant: password}"), []string{"auth[1].refresh.grant"}},
		"reauth that rotates":       {auth(oauth2 + ", name: x, refresh: {grant: reauth, rotating: true}"), []string{"auth[1].refresh.grant"}},
		"algorithm of an assertion": {auth(`mode: jwt_bearer, jwt: {algorithm: none}`), []string{"auth[1].jwt.algorithm"}},
		"life of an assertion":      {auth(`mode: jwt_bearer, jwt: {algorithm: RS256, lifetime: 2h}`), []string{"auth[1].jwt.lifetime"}},
		"claim":                     {auth(`mode: jwt_bearer, jwt: {algorithm: RS256, claims: {exp: "1"}}`), []string{"auth[1].jwt.claims.exp"}},
		"key in a claim":            {auth(`mode: jwt_bearer, jwt: {algorithm: RS256, iss: "${cred.key}"}`), []string{"auth[1].jwt.iss"}},
		"half of aws":               {auth(`mode: aws_sigv4, aws: {region: a}`), []string{"auth[1].aws"}},
		"algorithm of an hmac":      {auth(`mode: hmac, signature: {algorithm: md5, content: "${request.body}", header: X}`), []string{"auth[1].signature.algorithm"}},
		"no header of an hmac":      {auth(`mode: hmac, signature: {algorithm: sha1, content: "${request.body}"}`), []string{"auth[1].signature.header"}},
		"host header of an hmac":    {auth(`mode: hmac, signature: {algorithm: sha1, content: "${request.body}", header: Host}`), []string{"auth[1].signature.header"}},
		"no content of an hmac":     {auth(`mode: hmac, signature: {algorithm: sha1, header: X}`), []string{"auth[1].signature.content"}},
		"key form of an hmac":       {auth(`mode: hmac, signature: {algorithm: sha1, key: raw, content: "${request.body}", header: X}`), []string{"auth[1].signature.key"}},
		"encoding of an hmac":       {auth(`mode: hmac, signature: {algorithm: sha1, encoding: b, content: "${request.body}", header: X}`), []string{"auth[1].signature.encoding"}},
		"body outside of an hmac":   {auth(`mode: bearer, request: {headers: {A: "${request.body}"}}`), []string{"auth[1].request.headers.A"}},
		"method of oauth1":          {auth(`mode: oauth1, request_token_url: "https://a.acme.com", authorize_url: "https://a.acme.com", token_url: "https://a.acme.com", signature_method: PLAINTEXT`), []string{"auth[1].signature_method"}},
		"foreign credential":        {auth(`mode: bearer, request: {headers: {A: "${cred.api_key}"}}`), []string{"auth[1].request.headers.A"}},
		"client of a bearer":        {auth(`mode: bearer, request: {headers: {A: "${client.id}"}}`), []string{"auth[1].request.headers.A"}},
		"frame header":              {auth(`mode: bearer, request: {headers: {Host: a}}`), []string{"auth[1].request.headers.Host"}},
		"header with a space":       {auth(`mode: bearer, request: {headers: {"A b": a}}`), []string{"auth[1].request.headers.A b"}},
		"credential in a name":      {auth(`mode: api_key, request: {headers: {"${cred.api_key}": "${cred.api_key}"}}`), []string{"auth[1].request", "auth[1].request.headers.${cred.api_key}"}},
		"user agent of a mode":      {auth(`mode: bearer, request: {user_agent: a}`), []string{"auth[1].request"}},
		"field of no credential":    {auth("mode: bearer, fields: {api_key: {title: Key}}"), []string{"auth[1].fields.api_key"}},
		"fields of none":            {auth("mode: none, fields: {token: {title: T}}"), []string{"auth[1].fields", "auth[1].fields.token"}},
		"pattern without example":   {auth(`mode: bearer, fields: {token: {pattern: "a+"}}`), []string{"auth[1].fields.token.example"}},
		"example that differs":      {auth(`mode: bearer, fields: {token: {pattern: "a+", example: b}}`), []string{"auth[1].fields.token.example"}},
		"pattern":                   {auth(`mode: bearer, fields: {token: {pattern: "(", example: b}}`), []string{"auth[1].fields.token.pattern"}},
		"metadata of a user":        {auth(oauth2 + `, name: x, token_metadata: {sub: /sub}`), []string{"auth[1].token_metadata.sub"}},
		"metadata of nothing":       {auth(oauth2 + `, name: x, redirect_metadata: {none: x}`), []string{"auth[1].redirect_metadata.none"}},

		"words of no scope":    {"base_url: https://a.acme.com\nallowed_hosts: [a.acme.com]\nauth: [{mode: bearer}]\nscopes: {a: See it}", []string{"scopes"}},
		"words for two scopes": {rest(`scopes: {"a b": See it}`), []string{"scopes.a b"}},
		"scope without words":  {rest(`scopes: {a: ""}`), []string{"scopes.a"}},
		"words with full stop": {rest(`scopes: {a: See it.}`), []string{"scopes.a"}},
		"words on two lines":   {rest(`scopes: {a: "See\nit"}`), []string{"scopes.a"}},

		"credential for all":  {withAuth(", {mode: bearer}") + "request: {headers: {A: \"${cred.token}\"}}", []string{"request.headers.A"}},
		"redirects":           {rest("request: {follow_redirects: always}"), []string{"request.follow_redirects"}},
		"template user agent": {rest("request: {user_agent: \"${now}\"}"), []string{"request.user_agent"}},
		"probe without path":  {rest("health: {probes: [{path: me}]}"), []string{"health.probes[0].path"}},
		"probe of a mode":     {rest("health: {probes: [{path: /me, modes: [x]}]}"), []string{"health.probes[0].modes[0]"}},
		"probe method":        {rest("health: {probes: [{path: /me, method: DELETE}]}"), []string{"health.probes[0].method"}},
		"probe body of a GET": {rest("health: {probes: [{path: /me, body: a}]}"), []string{"health.probes[0].body"}},
		"probe with a secret": {rest("health: {probes: [{path: \"/${cred.access_token}\"}]}"), []string{"health.probes[0].path"}},
		"probe status":        {rest("health: {probes: [{path: /me, ok: [fine]}]}"), []string{"health.probes[0].ok[0]"}},
		"account without id":  {rest("health: {probes: [{path: /me, account: {label: /a}}]}"), []string{"health.probes[0].account.id"}},
		"account pointer":     {rest("health: {probes: [{path: /me, account: {id: a}}]}"), []string{"health.probes[0].account.id"}},
		"choice of no field":  {rest("health: {probes: [{path: /me, choice: {config: x, label: /0/a}}]}"), []string{"health.probes[0].choice.config"}},
		"probed field":        {rest("health: {probes: [{path: /me, config: {sub: /a}}]}"), []string{"health.probes[0].config.sub"}},
		"no probes":           {rest("health: {probes: []}"), []string{"health.probes"}},
		"retry status":        {rest("rate_limit: {retry_statuses: [42]}"), []string{"rate_limit.retry_statuses[0]"}},
		"wait kind":           {rest("rate_limit: {wait: [{header: a, kind: hours}]}"), []string{"rate_limit.wait[0]"}},
		"wait header":         {rest("rate_limit: {wait: [{kind: seconds}]}"), []string{"rate_limit.wait[0]"}},
		"budget":              {rest("rate_limit: {budget: [{limit: 0, per: 1h}]}"), []string{"rate_limit.budget[0]"}},
		"budget scope":        {rest("rate_limit: {budget: [{limit: 1, per: 1h, scope: team}]}"), []string{"rate_limit.budget[0].scope"}},
		"learn nothing":       {rest("rate_limit: {learn: [{limit: a}]}"), []string{"rate_limit.learn[0].remaining"}},
		"learn without kind":  {rest("rate_limit: {learn: [{remaining: a, reset: b}]}"), []string{"rate_limit.learn[0].reset"}},
		"long wait":           {rest("rate_limit: {max_wait: 2d}"), []string{"rate_limit"}},
		"empty condition":     {rest("errors: {auth_failed_when: [{}]}"), []string{"errors.auth_failed_when[0]"}},
		"header and body":     {rest("errors: {auth_failed_when: [{header: a, body: /a}]}"), []string{"errors.auth_failed_when[0]"}},
		"two comparisons":     {rest("errors: {auth_failed_when: [{header: a, equals: a, contains: a}]}"), []string{"errors.auth_failed_when[0]"}},
		"compares nothing":    {rest("errors: {auth_failed_when: [{status: 401, equals: a}]}"), []string{"errors.auth_failed_when[0]"}},
		"header of a test":    {rest("errors: {auth_failed_when: [{header: \"a b\"}]}"), []string{"errors.auth_failed_when[0].header"}},
		"message":             {rest("errors: {message: [/a, b]}"), []string{"errors.message[1]"}},
		"request id":          {rest("errors: {request_id_header: \"a b\"}"), []string{"errors.request_id_header"}},

		"name of a field":      {field("A", "{title: A}"), []string{"connection_config.A"}},
		"no title":             {field("a", "{source: probe}"), []string{"connection_config.a.source", "connection_config.a.title"}},
		"unused":               {field("a", "{title: A}"), []string{"connection_config.a"}},
		"type":                 {field("opt2", "{title: A, type: text}"), []string{"connection_config.opt2", "connection_config.opt2.type"}},
		"enum without values":  {field("a", "{title: A, type: enum}"), []string{"connection_config.a", "connection_config.a.enum"}},
		"values twice":         {field("a", "{title: A, enum: [b, b]}"), []string{"connection_config.a", "connection_config.a.enum"}},
		"type with values":     {field("a", "{title: A, enum: [b], type: integer}"), []string{"connection_config.a", "connection_config.a.type"}},
		"pattern of a number":  {field("a", "{title: A, type: integer, pattern: a}"), []string{"connection_config.a", "connection_config.a.pattern"}},
		"pattern alone":        {field("a", "{title: A, pattern: a}"), []string{"connection_config.a", "connection_config.a.example"}},
		"URL without example":  {field("a", "{title: A, type: url}"), []string{"connection_config.a", "connection_config.a.example"}},
		"default that differs": {field("a", "{title: A, enum: [b], default: c}"), []string{"connection_config.a", "connection_config.a.default"}},
		"default of a secret":  {field("a", "{title: A, secret: true, default: c}"), []string{"connection_config.a", "connection_config.a.default"}},
		"suffix":               {field("a", "{title: A, suffix: \"@x\"}"), []string{"connection_config.a", "connection_config.a.suffix"}},
		"source":               {field("a", "{title: A, source: header}"), []string{"connection_config.a.source"}},
	}
	for name, tt := range tests {
		d := read(t, tt.text)
		_, err := outbound.Compile(d)
		require.Error(t, err, name)
		require.Equal(t, tt.want, fields(t, err), "%s: %v", name, err)
	}
	_, err := outbound.Compile(read(t, withAuth("")))
	require.NoError(t, err)
}

// URLs are cut into scheme, host, path and query when the definition is loaded. A value in the wrong part is refused.
func TestCompileRefusesURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"https://a.acme.com": true, "https://a.acme.com/": true, "https://a.acme.com/a/${config.sub}": true, "https://${config.sub}.acme.com/x": true,
		"https://a-${config.sub}.acme.com": true, "${config.url}": true, "${config.url}/a": true, "http://a.acme.com": true,
		"https://b.acme.com:8443/": true, "https://${config.many}.acme.com": true,
		"": false, "a.acme.com": false, "//a.acme.com": false, "ftp://a.acme.com": false, "https://": false, "https:///a": false,
		"https://a.evil.com": false, "https://a.acme.com.evil.com": false, "https://u@a.acme.com": false, "https://${config.sub}@a.acme.com": false,
		"https://a.acme.com:${config.sub}": false, "https://a.acme.com:443x/": false, "https://${config.sub}:443.acme.com": false,
		"https://a.acme.com#b": false, "https://a.acme.com?a=b": false, "https://a.acme.com/a b": false, "https://a.acme.com/é": false,
		"https://a.acme.com/../b": false, "https://a..acme.com": false, "https://a.acme.com./": false, "https://*.acme.com": false,
		"https://${config.url}": false, "https://a.acme.com/${config.url}": false, "${config.url}a": false, "${config.url}${config.sub}": false,
		"${config.sub}": false, "${now}": false, "https://${now}.acme.com": false, "https://${uuid}.acme.com": false,
		"https://${base64(config.sub)}.acme.com": false, "https://${config.key}.acme.com": false, "https://a.acme.com/${config.key}": false,
		"https://a.acme.com/${cred.token}": false, "https://${config.none}.acme.com": false, "https://a.acme.com/${": false,
		"https://${config.sub}": false, "https://${config.sub}.evil.com": false, "https://exämple.acme.com": false, "https://a.acme.com\\b": false,
		"https://a.acme.com/\n": false,
	} {
		d := read(t, `
connection_config:
  sub: {title: Sub, optional: true}
  many: {title: Many, pattern: "[a-z.]+", example: b, optional: true}
  key: {title: Key, secret: true, optional: true}
  url: {title: URL, type: url, optional: true, example: "https://x.acme.com"}
allowed_hosts: ["*.acme.com", "b.acme.com:8443"]
auth: [{mode: bearer, request: {headers: {A: "${config.sub}${config.key}${config.url}${config.many}", Authorization: "${cred.token}"}}}]
`)
		d.BaseURL = outbound.Texts{text}
		_, err := outbound.Compile(d)
		if want {
			require.NoError(t, err, text)
			continue
		}
		require.Error(t, err, text)
		require.Equal(t, []string{"base_url"}, fields(t, err), text)
	}
}

// Templates have names, a few functions and nothing else.
func TestTemplates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": true, "a": true, "${cred.token}": true, "a ${cred.token} b": true, "${ cred.token }": true, "${now}${uuid}": true,
		"${base64(cred.token)}": true, `${base64(cred.token + ":")}`: true, `${basic(cred.token, "")}`: true, `${base64("}")}`: true,
		`${basic("a,b" + config.sub, cred.token + "+")}`: true, "$": true, "$ {a}": true, "{a}": true, "}": true, "${now(unix_ms)}": true,
		"${": false, "${}": false, "${a": false, "${a}": false, "${cred}": false, "${cred.}": false, "${cred.Token}": false, "${cred.token.x}": false,
		"${env.HOME}": false, "${cred.none}": false, "${config.none}": false, "${client.none}": false, "${client.id}": false,
		"${base64(base64(cred.token))}": false, "${basic(cred.token)}": false, "${base64()}": false, "${base64(cred.token, cred.token)}": false,
		"${sha256(cred.token)}": false, "${now(iso)}": false, "${now()}": false, "${uuid()}": false, "${cred.token + cred.token}": false,
		"${base64(cred.token +)}": false, `${base64("a)}`: false, `${"a"}`: false, "${${cred.token}}": false, "${cred.token|upper}": false,
		"a\x00": false, "a\r": false, strings.Repeat("a", 2049): false, strings.Repeat("${now}", 33): false,
		"${base64(" + strings.TrimSuffix(strings.Repeat("cred.token+", 9), "+") + ")}": false,
	} {
		d := read(t, `
connection_config: {sub: {title: Sub, optional: true}}
base_url: https://a.acme.com/${config.sub}
allowed_hosts: [a.acme.com]
auth: [{mode: bearer, request: {headers: {Authorization: "${cred.token}"}}}]
`)
		d.Auth[0].Request.Headers["X"] = text
		_, err := outbound.Compile(d)
		if want {
			require.NoError(t, err, text)
			continue
		}
		require.Error(t, err, text)
		require.Equal(t, []string{"auth[0].request.headers.X"}, fields(t, err), text)
	}
}

// A definition without outbound fields is empty, and one with any of them is not.
func TestEmpty(t *testing.T) {
	t.Parallel()
	var d outbound.Declaration
	require.True(t, d.Empty())
	for _, text := range []string{"base_url: a", "allowed_hosts: [a]", "auth: []", "request: {user_agent: a}", "health: {}",
		"rate_limit: {}", "errors: {}", "connection_config: {a: {title: A}}"} {
		d := read(t, text)
		require.False(t, d.Empty(), text)
	}
}
