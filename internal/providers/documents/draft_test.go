package documents_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/registry"
)

// draft makes the draft of a document, which the registry has to accept.
func draft(t *testing.T, text string, o documents.DraftOptions) *documents.Draft {
	t.Helper()
	d, err := documents.Open([]byte(text))
	require.NoError(t, err)
	o.Slug = "acme"
	out, err := d.Draft(o)
	require.NoError(t, err)
	accepted(t, out)
	return out
}

// accepted requires that the registry accepts a draft.
func accepted(t *testing.T, d *documents.Draft) {
	t.Helper()
	_, err := registry.Import("acme", d.Definition)
	require.NoError(t, err, string(d.Definition))
	require.LessOrEqual(t, len(d.Definition), 256<<10)
}

// api is a document of OpenAPI 3 with servers, security schemes and what all operations need.
func api(servers, schemes, security string) string {
	return fmt.Sprintf(`{"openapi":"3.0.3","info":{"title":"Acme API"},"externalDocs":{"url":"https://docs.acme.com/"},
"servers":%s,"components":{"securitySchemes":%s},"security":%s,"paths":{}}`, servers, schemes, security)
}

const head = `schema: 1
slug: acme
display_name: Acme API
categories: [imported]
docs_url: https://docs.acme.com/
`

const (
	one   = `[{"url":"https://api.acme.com/v1/"}]`
	token = `{"token":{"type":"http","scheme":"bearer"}}`
)

// The definition is what someone would write from the document, word for word.
func TestDraftDefinitions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		document, want string
	}{
		"OAuth with scopes, and an API key": {
			`{"openapi":"3.1.0","info":{"title":"Acme API"},"externalDocs":{"url":"https://docs.acme.com/"},
			"servers":[{"url":"https://API.acme.com/v1/"}],"security":[{"login":["read"]}],
			"components":{"securitySchemes":{"apiKey":{"type":"apiKey","in":"query","name":"api_key"},"login":{
				"type":"oauth2","description":"Log in.","flows":{
				"authorizationCode":{"authorizationUrl":"https://login.acme.com/authorize",
					"tokenUrl":"https://login.acme.com/token",
					"refreshUrl":"/refresh","scopes":{"read":"See all.","a b":"no scope"}},
				"clientCredentials":{"tokenUrl":"/v1/token","scopes":{"write":"Change ${all}"}}}}}},
			"paths":{"/a":{"get":{"security":[{"apiKey":[]}]}}}}`,
			head + `base_url: https://api.acme.com/v1
allowed_hosts: [api.acme.com, login.acme.com]
auth:
  - mode: oauth2
    name: login
    description: Log in.
    authorize_url: https://login.acme.com/authorize
    token_url: https://login.acme.com/token
    refresh_url: https://api.acme.com/refresh
    default_scopes: [read]
  - mode: oauth2_client_credentials
    name: login_client
    description: Log in.
    token_url: https://api.acme.com/v1/token
    default_scopes: [read]
  - mode: api_key
    request:
      query:
        api_key: ${cred.api_key}
scopes:
  read: See all
  write: Change {all}
`,
		},
		"two keys in headers": {
			api(one, `{"App":{"type":"apiKey","in":"header","name":"X-App"},
				"Secret":{"type":"apiKey","in":"header","name":"X-Secret","description":"Of the app."}}`, `[{"App":[],
					"Secret":[]}]`),
			head + `connection_config:
  secret:
    title: Secret
    description: Of the app.
    secret: true
base_url: https://api.acme.com/v1
allowed_hosts: [api.acme.com]
auth:
  - mode: api_key
    name: app_secret
    request:
      headers:
        X-App: ${cred.api_key}
        X-Secret: ${config.secret}
`,
		},
		"a server for each customer": {
			api(`[{"url":"{scheme}://{subDomain}.{site}/api/{version}","variables":{"scheme":{"default":"https"},
				"subDomain":{"default":"demo","description":"Your\nsubdomain"},"site":{"enum":["acme.com","acme.de"],
					"default":"acme.de"},
				"version":{"default":"v2"}}}]`, token, `[{"token":[]},{}]`),
			head + `connection_config:
  sub_domain:
    title: Sub domain
    description: Your subdomain
    example: demo
  site:
    title: Site
    enum: [acme.com, acme.de]
    default: acme.de
  version:
    title: Version
    default: v2
base_url: https://${config.sub_domain}.${config.site}/api/${config.version}
allowed_hosts: ["${config.sub_domain}.${config.site}"]
auth:
  - mode: bearer
    name: token
  - mode: none
`,
		},
		"servers in the operator's own network": {
			api(`[{"url":"http://localhost:8080/api"},{"url":"https://10.0.0.1"},{"url":"https://wiki.internal"}]`,
				`{"basic":{"type":"http","scheme":"Basic"}}`, `[{"basic":[]}]`),
			head + `connection_config:
  base_url:
    type: url
    title: Base URL
    description: The URL that the paths of requests follow. Credentials go to its host.
    example: https://api.example.com
base_url: ${config.base_url}
allowed_hosts: ["${config.base_url}"]
auth:
  - mode: basic
`,
		},
		"Swagger 2.0": {
			`{"swagger":"2.0","info":{"title":"Acme API"},"externalDocs":{"url":"https://docs.acme.com/"},
				"host":"api.acme.com:8443",
			"schemes":["http","https","wss"],"basePath":"v1","paths":{},"securityDefinitions":{
			"o":{"type":"oauth2","flow":"accessCode","authorizationUrl":"http://acme.com/a","tokenUrl":"https://acme.com/t"},
			"Authorization":{"type":"apiKey","in":"header","name":"Authorization"}}}`,
			head + `base_url: https://api.acme.com:8443/v1
allowed_hosts: ["api.acme.com:8443", acme.com]
auth:
  - mode: oauth2
    name: o
    authorize_url: https://acme.com/a
    token_url: https://acme.com/t
  - mode: api_key
    name: authorization
    fields:
      api_key:
        title: Authorization
        description: The whole value of the header Authorization, such as the word Bearer, a space and the token.
    request:
      headers:
        Authorization: ${cred.api_key}
`,
		},
		"signatures of AWS": {
			`{"openapi":"3.0.0","info":{"title":"Acme API","x-aws-signingName":"ses"},
			"externalDocs":{"url":"https://docs.acme.com/"},"servers":[{"url":"http://email.{region}.acme.com"},
				{"url":"https://email.{region}.acme.com","variables":{"region":{"enum":["eu-west-1","us-east-1"],
					"default":"us-east-1"}}}],
			"components":{"securitySchemes":{"hmac":{"type":"apiKey","in":"header","name":"Authorization",
				"x-amazon-apigateway-authtype":"awsSigv4"}}},"security":[{"hmac":[]}],"paths":{}}`,
			head + `connection_config:
  region:
    title: Region
    enum: [eu-west-1, us-east-1]
    default: us-east-1
base_url: https://email.${config.region}.acme.com
allowed_hosts: ["email.${config.region}.acme.com"]
auth:
  - mode: aws_sigv4
    name: hmac
    aws:
      region: ${config.region}
      service: ses
`,
		},
		"a whole URL for each connection, and grants that are left": {
			api(`[{"url":"{Endpoint}/v1","variables":{"Endpoint":{"default":"https://eu.acme.com"}}}]`,
				`{"old":{"type":"oauth2","flows":{"implicit":{"authorizationUrl":"https://acme.com/a","scopes":{"x":"y"}}}}}`,
				`[{"old":["x"]}]`),
			head + `connection_config:
  endpoint:
    type: url
    title: Endpoint
    example: https://eu.acme.com
base_url: ${config.endpoint}/v1
allowed_hosts: ["${config.endpoint}"]
auth:
  - mode: bearer
    name: old
    description: An access token that was made elsewhere. It is not renewed.
`,
		},
		"nothing about security": {
			`{"openapi":"3.0.0","info":{"title":"Acme API"},"externalDocs":{"url":"https://docs.acme.com/"},
				"servers":` + one + `,
			"paths":{}}`,
			head + `connection_config:
  header_name:
    title: Header
    description: The header that carries the API key.
    pattern: "[A-Za-z0-9_-]{1,64}"
    default: X-Api-Key
base_url: https://api.acme.com/v1
allowed_hosts: [api.acme.com]
auth:
  - mode: bearer
  - mode: api_key
    request:
      headers:
        ${config.header_name}: ${cred.api_key}
  - mode: basic
  - mode: none
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, strings.TrimRight(string(draft(t, c.document, documents.DraftOptions{}).Definition),
				"\n")+"\n")
		})
	}
}

// Anything that is not taken over is named with its place, and so are the endpoints that get secrets.
func TestDraftNotes(t *testing.T) {
	t.Parallel()
	got := draft(t, api(`[{"url":"https://user:pw@api.acme.com"},{"url":"http://api.acme.com"},
{"url":"https://sandbox.acme.com","description":"Sandbox"},{"url":"https://api.acme.com/v1"},{"url":"//[::1]"}]`,
		`{"cookie":{"type":"apiKey","in":"cookie","name":"s"},"cert":{"type":"mutualTLS"},"digest":{"type":"http",
			"scheme":"digest"},
"unused":{"type":"http","scheme":"basic"},"id":{"type":"openIdConnect","openIdConnectUrl":"https://acme.com/c"},
"login":{"type":"oauth2","flows":{"password":{"tokenUrl":"https://acme.com/t"},"clientCredentials":{
	"tokenUrl":"https://login.acme.com/t?x=1"},"authorizationCode":{"tokenUrl":"https://10.0.0.1/t"}}},
"host":{"type":"apiKey","in":"header","name":"Host"}}`,
		`[{"login":[]},{"cookie":[]},{"cert":[]},{"digest":[]},{"missing":[]},{"host":[]},{"id":[],"login":[]},{"id":[]}]`),
		documents.DraftOptions{})
	require.Equal(t, []string{"login", "id"}, got.AuthModes)
	require.Equal(t, []string{"sandbox.acme.com", "login.acme.com"}, got.Hosts)
	require.Equal(t, []string{"https://login.acme.com/t?x=1"}, got.TokenEndpoints)
	require.Equal(t, []string{
		`line 2, column 12: the server "https://…@api.acme.com" is not used: it has a user name`,
		`line 3, column 94: the server "//[::1]" is not used: it has a port that is no number, or an address`,
		`line 2, column 51: the server "http://api.acme.com" is another one, and is not used`,
		`line 3, column 60: the server "https://api.acme.com/v1" is another one, and is not used`,
		`line 6, column 9: the security scheme "login" loses its flow authorizationCode: tokenUrl has an ` +
			`address in place of a name`,
		`line 6, column 9: the security scheme "login" loses its flow password`,
		`line 3, column 155: the security scheme "cookie" is left out: connections have no cookies`,
		`line 3, column 205: the security scheme "cert" is left out: connections have no client certificates`,
		`line 3, column 235: the security scheme "digest" is left out: the scheme "digest" of HTTP is neither ` +
			`basic nor bearer`,
		`line 8, column 121: the security scheme "missing" does not exist`,
		`line 8, column 8: the security scheme "host" is left out: its header "Host" is none that a connection can set`,
		`line 5, column 48: the security scheme "id" names its endpoints in another document, which is not read; ` +
			`connections take a token that was made elsewhere`,
		`line 8, column 148: the security schemes "id" and "login" are left out: a request cannot have both`,
		`line 5, column 10: the security scheme "unused" is needed by no operation, and is left out`,
	}, got.Notes)
}

// A base URL that is given replaces the servers, also with a host that no document may name.
func TestDraftBaseURL(t *testing.T) {
	t.Parallel()
	document := api(one, token, `[{"token":[]}]`)
	got := draft(t, document, documents.DraftOptions{BaseURL: "https://10.0.0.1:8443/api/", DisplayName: "Mine"})
	require.Equal(t, []string{"10.0.0.1:8443"}, got.Hosts)
	require.Contains(t, string(got.Definition), "base_url: https://10.0.0.1:8443/api\n")
	require.Contains(t, string(got.Definition), "display_name: Mine\n")
	d, err := documents.Open([]byte(document))
	require.NoError(t, err)
	for given, want := range map[string]string{
		"http://api.acme.com":      "must be an absolute https URL",
		"https://u@api.acme.com":   "must have no user name",
		"https://api.acme.com?a=b": "no query",
		"https://${config.x}.com":  "must be an absolute https URL",
		"https://a b.com":          "must be an absolute https URL",
		"https://[::1]":            "the definition would not be accepted",
		"https://api.acme.com/../": "the definition would not be accepted",
	} {
		_, err := d.Draft(documents.DraftOptions{Slug: "acme", BaseURL: given})
		var problem *documents.Problem
		require.ErrorAs(t, err, &problem, given)
		require.ErrorContains(t, err, want, given)
	}
}

// Relative servers follow from the URL of the document; without one each connection names its URL.
func TestDraftRelativeServers(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"/api":     "https://acme.com/api",
		"./v2/":    "https://acme.com/docs/v2",
		"v2":       "https://acme.com/docs/v2",
		"../up":    "${config.base_url}",
		"ftp://x":  "${config.base_url}",
		"/a?b=c":   "${config.base_url}",
		"/a b":     "${config.base_url}",
		"/{a}/{b":  "${config.base_url}",
		"/$x":      "${config.base_url}",
		"/a/..%2f": "${config.base_url}",
	} {
		document := api(fmt.Sprintf(`[{"url":%q}]`, url), token, `[{"token":[]}]`)
		got := draft(t, document, documents.DraftOptions{Source: "https://acme.com/docs/openapi.json"})
		require.Contains(t, string(got.Definition), "\nbase_url: "+want+"\n", url)
		got = draft(t, document, documents.DraftOptions{Source: "https://intranet/openapi.json"})
		require.Contains(t, string(got.Definition), "\nbase_url: ${config.base_url}\n", url)
	}
	got := draft(t, `{"swagger":"2.0","basePath":"/v3","info":{"title":"A"},"paths":{}}`,
		documents.DraftOptions{Source: "https://acme.com/x"})
	require.Equal(t, []string{"acme.com"}, got.Hosts)
}

// A host part that connections choose, directly over a name that anyone can register, is not accepted: credentials
// could be sent anywhere.
func TestDraftOpenHosts(t *testing.T) {
	t.Parallel()
	for url, variables := range map[string]string{
		"https://{name}.com":             `{}`,
		"https://{name}.co.uk/x":         `{"name":{"default":"acme"}}`,
		"https://{name}":                 `{"name":{"default":"api.acme.com"}}`,
		"https://{a}.{b}.acme":           `{"b":{"enum":["x","y"]}}`,
		"https://{name}.herokuapp.com":   `{}`,
		"https://{name}.amazonaws.com":   `{}`,
		"https://api.acme.com:{port}":    `{"port":{"default":"443"}}`,
		"https://{host}/x":               `{"host":{"enum":["api.acme.com","localhost"]}}`,
		"https://{host}/y":               `{"host":{"enum":["api.acme.com","evil.com/@"]}}`,
		"https://api.acme.com{x}":        `{"x":{"default":".evil.com"}}`,
		"https://{a}{b}.com":             `{"a":{"enum":["x.","y."]}}`,
		"{a}{b}":                         `{}`,
		"https://co.uk":                  `{}`,
		"https://api.example.com":        `{}`,
		"https://0x7f.1":                 `{}`,
		"https://api.acme.com.":          `{}`,
		"https://bücher.acme.com":        `{}`,
		"https://api.acme.com\\@x":       `{}`,
		"https://*.acme.com":             `{}`,
		"https://${config.x}.acme.com":   `{}`,
		"https://api.acme.com/${cred.x}": `{}`,
	} {
		got := draft(t, api(fmt.Sprintf(`[{"url":%q,"variables":%s}]`, url, variables), token, `[{"token":[]}]`),
			documents.DraftOptions{})
		require.Equal(t, []string{"${config.base_url}"}, got.Hosts, url)
		require.NotEmpty(t, got.Notes, url)
	}
}

// A document without any way to authenticate that connections can use is an error with the reason.
func TestDraftWithoutModes(t *testing.T) {
	t.Parallel()
	d, err := documents.Open([]byte(api(one, `{"s":{"type":"apiKey","in":"cookie","name":"s"}}`, `[{"s":[]}]`)))
	require.NoError(t, err)
	_, err = d.Draft(documents.DraftOptions{Slug: "acme"})
	require.EqualError(t, err,
		"line 2, column 142: the document has no way to authenticate that connections can use: line 2, "+
			`column 85: the security scheme "s" is left out: connections have no cookies`)
}

// Texts of a document are neither YAML nor templates, and are bounded.
func TestDraftHostileTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("${cred.token}", 2000)
	for _, text := range []string{"a: b\\n- c", "'\\\"\\n\\u0000\\u001b[31m", "${config.x}", "$${{x}", long, "#",
		"&a *a", "!!binary x",
		"null", "1e3", "\\u2028\\u202e", "- ", "? x", "%YAML 2", "{a: [b", "true", "💥", " ", "~", "<<", "=", "0x1F",
		"12:30:45", "@a", "`",
		"|", ">-", "---", "...", "a # b", "a:", "\\ud800", "'", "\\\"", "\\\\", "2001-01-01", ".inf", "y", "No"} {
		document := fmt.Sprintf(`{"openapi":"3.0.0","info":{"title":"%[1]s"},"externalDocs":{"url":"%[1]s"},
			"servers":[{"url":"https://{%[2]s}.acme.com/{v}/","variables":{"%[2]s":{"description":"%[1]s","default":"%[1]s"},
				"v":{"enum":["%[1]s","v1"],"default":"%[1]s"}}},{"url":"%[1]s","description":"%[1]s"}],
			"components":{"securitySchemes":{"%[1]s":{"type":"oauth2","description":"%[1]s","flows":{"authorizationCode":{
				"authorizationUrl":"https://acme.com/%[1]s","tokenUrl":"https://acme.com/t","scopes":{
				"%[1]s":"%[1]s","ok":"%[1]s"}}}},
				"k":{"type":"apiKey","in":"header","name":"%[1]s"},"q":{"type":"apiKey","in":"query","name":"%[1]s"},
				"b":{"type":"http","scheme":"bearer","description":"%[1]s"}}},
			"security":[{"%[1]s":["%[1]s"]},{"k":[]},{"q":[]},{"b":[]}],"paths":{}}`, text, "name")
		got := draft(t, document, documents.DraftOptions{})
		require.LessOrEqual(t, len(got.Definition), 20_000)
		require.NotRegexp(t, `\$\{(config\.x|cred\.token|\{x)`, string(got.Definition))
		for _, h := range got.Hosts {
			require.Contains(t, []string{"${config.name}.acme.com", "acme.com", "${config.base_url}"}, h, text)
		}
	}
}

// FuzzDraft makes drafts of any document. Nothing panics, the registry accepts each, and no host in it is one that the
// document does not have.
func FuzzDraft(f *testing.F) {
	for _, s := range []string{api(one, token, `[{"token":[]}]`),
		api(`[{"url":"{s}://{a}.{b}/x/{c}","variables":{"b":{"enum":["acme.com"]},"s":{"default":"https"}}}]`,
			`{"o":{"type":"oauth2","flows":{"authorizationCode":{"authorizationUrl":"https://a.acme.com/a","tokenUrl":"/t"},
			"clientCredentials":{"tokenUrl":"http://b.acme.com"}}},"k":{"type":"apiKey","in":"query","name":"k"}}`,
			`[{"o":["x"],"k":[]},{"k":[]}]`),
		`{"swagger":"2.0","host":"acme.com","basePath":"/a","schemes":["http"],"securityDefinitions":{"a":{"type":"basic"},
			"h":{"type":"apiKey","in":"header","name":"x","x-amazon-apigateway-authtype":"awsSigv4"}}}`,
		`{"swagger":"2.0","x-ms-parameterized-host":{"hostTemplate":"{e}.acme.com","useSchemePrefix":true,
			"parameters":[{"name":"e"}]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := documents.Open(text)
		if err != nil {
			return
		}
		got, err := d.Draft(documents.DraftOptions{Slug: "acme"})
		if err != nil {
			return
		}
		accepted(t, got)
		lower := strings.ToLower(string(text))
		for _, h := range got.Hosts {
			for part := range strings.SplitSeq(h, "${config.") {
				_, fixed, found := strings.Cut(part, "}")
				if !found {
					fixed = part
				}
				for label := range strings.SplitSeq(fixed, ".") {
					name, _, _ := strings.Cut(label, ":")
					require.True(t, strings.Contains(lower, name) || strings.Contains(lower, `\u`), h)
				}
			}
		}
	})
}
