package registry_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/registry"
)

// everyOutbound uses each field of the outbound half once at least.
const everyOutbound = minimal + `connection_config:
  subdomain: {type: string, title: Subdomain, description: The first part., pattern: "[a-z0-9-]+", example: shop, suffix: .acme.com, source: user}
  size: {title: Size, enum: [s, m], default: s}
  key: {title: Key, secret: true, optional: true}
  site: {title: Site, source: token_response, pattern: "[a-z]+", example: eu, required_for: [oauth1]}
  realm: {title: Realm, source: redirect}
  cloud: {title: Cloud, source: probe}
base_url: ["https://${config.subdomain}.acme.com/${config.size}", "https://fallback.acme.com"]
allowed_hosts: ["*.acme.com", "*.myshopify.com"]
own_suffixes: [myshopify.com]
auth:
  - mode: oauth2
    name: user
    title: A user
    description: Acts for a user.
    docs_url: https://acme.example/docs/oauth#code
    setup: Register a client.
    fields: {access_token: {title: Token, description: The token., pattern: ".+", example: t, optional: false}}
    request: {headers: {X-Key: "${config.key}"}, query: {c: "${client.id}"}}
    authorize_url: https://login.acme.com/authorize
    token_url: https://login.acme.com/token
    refresh_url: https://login.acme.com/refresh
    revoke_url: https://login.acme.com/revoke
    issuer: https://login.acme.com
    pkce: S256
    scope_separator: ","
    default_scopes: [read]
    param_rename: {client_id: client}
    authorize_params: {access_type: offline}
    token_params: {expiring: "1"}
    refresh_params: {r: "1"}
    client_auth: basic
    body_format: json
    code_param: code
    redirect_metadata: {realm: realmId}
    token_metadata: {site: /site}
    token: {access: /a, alternate: /b, refresh: /r, expires_in: /e, unit: s, default_ttl: 24h, buffer: 15m, scope: /s, success_when: {body: /ok, equals: true}}
    refresh: {grant: refresh_token, rotating: true, max_idle: 90d, dead_when: [{body: /error, in: [invalid_grant]}]}
  - mode: oauth1
    base_url: ["https://${config.site}.acme.com"]
    request_token_url: https://login.acme.com/1
    authorize_url: https://login.acme.com/2
    token_url: https://login.acme.com/3
    signature_method: HMAC-SHA256
  - mode: session_token
    login: {method: POST, url: "https://login.acme.com/l", headers: {A: b}, form: {u: "${cred.username}"}, ok: 200, success_when: {body: /t}}
    token: {access: /t, expires_at: /e}
    revoke: {method: DELETE, url: "https://login.acme.com/l", json: {t: "${cred.access_token}"}, ok: [204], gone: [404], gone_when: [{status: 4xx, header: x-gone}]}
  - {mode: jwt_bearer, jwt: {algorithm: RS256, key_id: k, iss: i, sub: s, aud: a, claims: {c: d}, lifetime: 5m}}
  - {mode: aws_sigv4, aws: {region: eu, service: s3}}
  - {mode: hmac, signature: {algorithm: sha1, key: hex, content: "${request.body}", encoding: base64, header: X-Sig, prefix: "v1="}}
scopes: {read: "See <all> you can see", "write:all": Change it}
request: {headers: {Accept: application/json}, query: {v: "1"}, user_agent: acme/1, follow_redirects: reads}
health: {probes: [{method: POST, path: /me, body: "{}", ok: [200], modes: [user], account: {id: /id, label: /name}, config: {cloud: /cloud}}, {url: "https://login.acme.com/me", headers: {A: b}, aws: {region: eu, service: sts}, modes: [aws_sigv4], account: {id: {header: x-id}, label: {config: size}}}, {path: /x, modes: [hmac], account: {id: {body: /id}}}]}
rate_limit:
  retry_statuses: [429, "5xx"]
  limited_when: [{status: 403, header: x-left, equals: 0}, {body: /e, contains: slow}, {status: 503, body_contains: slow}, {status: 400, body: /e, absent: true}]
  wait: [{header: retry-after, kind: seconds_or_date, when: {status: 429}}]
  min_wait: 1s
  max_wait: 60s
  budget: [{limit: 5000, per: 1h, scope: connection}]
  learn: [{limit: x-limit, remaining: x-left, reset: x-reset, reset_kind: epoch_s, when: {header: x-kind, equals: core}}]
errors: {success_when: {body: /ok, equals: true}, message: /m, request_id_header: x-id, auth_failed_when: [{status: 401}], scope_missing_when: [{status: 403}]}
`

// Every field of the outbound half is read from YAML as it is documented.
func TestLoadEveryOutboundField(t *testing.T) {
	t.Parallel()
	p := load(t, everyOutbound)
	require.Nil(t, p.Webhooks)
	require.NotNil(t, p.Outbound)
	fields := p.Outbound.ConfigFields()
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	require.Equal(t, []string{"subdomain", "size", "key", "site", "realm", "cloud"}, names, "in the order of the file")
	require.Equal(t, outbound.RedirectsReads, p.Outbound.FollowRedirects())
	c, problems := p.Outbound.ResolveConfig("user", map[string]string{"subdomain": "x", "realm": "r"})
	require.Empty(t, problems)
	hosts, err := p.Outbound.Hosts(outbound.Target{Config: c})
	require.NoError(t, err)
	require.Equal(t, []string{"fallback.acme.com", "login.acme.com", "x.acme.com"}, hosts)
	require.Nil(t, load(t, minimal).Outbound)
}

// An error of the outbound half names file, line and field, and a wrong kind of value is found before that.
func TestLoadRefusesOutbound(t *testing.T) {
	t.Parallel()
	const good = "base_url: https://a.acme.com\nallowed_hosts:\n  - a.acme.com\nauth:\n  - mode: bearer\n"
	tests := map[string]struct{ text, want string }{
		"unknown field":          {good + "    scopes: []\n", "acme.yaml:11: auth[0].scopes: is not a field of the format; here it has authorize_params, authorize_url"},
		"mistyped field":         {good + "    autorize_url: https://a.acme.com\n", "acme.yaml:11: auth[0].autorize_url: is not a field of the format. Did you mean authorize_url?"},
		"mistyped mode":          {strings.Replace(good, "mode: bearer", "mode: oauth", 1), "acme.yaml:10: auth[0].mode: is no mode of the format. Did you mean oauth2?"},
		"field of the design":    {good + "proxy: {}\n", "acme.yaml:11: proxy: is not a field of the format"},
		"list for a text":        {good + "    name: [a]\n", "acme.yaml:11: auth[0].name: must be text"},
		"text for a list":        {"auth: bearer\n", "acme.yaml:6: auth: must be a list"},
		"mapping for a URL":      {"base_url: {a: b}\n", "acme.yaml:6: base_url: must be a list"},
		"number in a list":       {"base_url:\n  - a: b\n", "acme.yaml:7: base_url[0]: must be text"},
		"list of fields":         {"connection_config: [a]\n", "acme.yaml:6: connection_config: must be a mapping"},
		"number for a place":     {good + "health:\n  probes:\n    - path: /a\n      account: {id: [a]}\n", "acme.yaml:14: health.probes[0].account.id: must be a mapping"},
		"field of a place":       {good + "health:\n  probes:\n    - path: /a\n      account:\n        id: {heder: a}\n", "acme.yaml:15: health.probes[0].account.id.heder: is not a field of the format. Did you mean header? Here it has body, config, header"},
		"own suffix":             {good + "own_suffixes:\n  - acme.com\n", "acme.yaml:12: own_suffixes[0]: must be a name of the private part"},
		"base URL of a mode":     {good + "    base_url: https://b.acme.com\n  - mode: basic\n", "acme.yaml:11: auth[0].base_url: has a host that is not among the allowed_hosts"},
		"required for":           {good + "connection_config:\n  a: {title: A, optional: true, required_for: [x]}\nrequest: {query: {a: \"${config.a}\"}}\n", "acme.yaml:12: connection_config.a.required_for[0]: is not a mode of auth"},
		"unknown inner field":    {"connection_config:\n  a:\n    titel: A\n", "acme.yaml:8: connection_config.a.titel: is not a field of the format. Did you mean title?"},
		"text for a flag":        {"connection_config:\n  a: {title: A, secret: maybe}\n", "acme.yaml:7: connection_config.a.secret: must be true or false"},
		"field twice":            {"connection_config:\n  a: {title: A}\n  a: {title: B}\n", `acme.yaml:8: mapping key "a" already defined`},
		"text for a number":      {good + "rate_limit: {budget: [{limit: many, per: 1h}]}\n", "acme.yaml:11: rate_limit.budget[0].limit: must be a whole number"},
		"host elsewhere":         {strings.Replace(good, "base_url: https://a.", "base_url: https://b.", 1), "acme.yaml:6: base_url: has a host that is not among the allowed_hosts of the definition; if credentials may go there, add the line: - b.acme.com"},
		"host of a setting":      {strings.Replace(good, "base_url: https://a.acme.com", "connection_config:\n  shop: {title: Shop, pattern: '[a-z]+', example: x}\nbase_url: https://${config.shop}.acme.com:8443", 1), `add the line: - "${config.shop}.acme.com:8443"`},
		"pattern of hosts":       {strings.Replace(good, "- a.acme.com", "- '*.com'", 1), "acme.yaml:8: allowed_hosts[0]: leaves a label open over the public suffix com"},
		"template":               {good + "    request:\n      headers:\n        X: ${cred.none}\n", "acme.yaml:13: auth[0].request.headers.X: has ${cred.none}, which does not exist here; there are cred.token"},
		"condition":              {good + "errors:\n  auth_failed_when:\n    - {status: 600}\n", "acme.yaml:13: errors.auth_failed_when[0].status[0]: must be a status"},
		"list of base URLs":      {strings.Replace(good, "base_url: https://a.acme.com", "base_url: [https://a.acme.com, ftp://x]", 1), "acme.yaml:6: base_url[1]: must be an absolute URL"},
		"evidence without hooks": {good + evidence, "evidence: describes the check of webhooks, but there is no webhooks section"},
	}
	for name, tt := range tests {
		_, err := registry.Load(folder("acme.yaml", minimal+tt.text))
		require.ErrorContains(t, err, tt.want, name)
	}
}

// The texts about a definition show its modes, hosts, credentials and settings; nothing of it ends a table's cell.
func TestOutboundTexts(t *testing.T) {
	t.Parallel()
	p := load(t, everyOutbound)
	s := p.Summary()
	require.Equal(t, []string{"*.acme.com", "*.myshopify.com"}, s.Outbound.AllowedHosts)
	require.Equal(t, "user, oauth1, session_token, jwt_bearer, aws_sigv4, hmac", s.Outbound.ModesText())
	text := s.Text()
	require.Contains(t, text, `
API             https://${config.subdomain}.acme.com/${config.size}, https://fallback.acme.com, https://${config.site}.acme.com
Hosts           *.acme.com, *.myshopify.com
Auth            user, oauth1, session_token, jwt_bearer, aws_sigv4, hmac
Webhooks        none

Authentication
  user: A user (oauth2)
      Acts for a user.
      Credentials: from the provider, after the user's consent, with the OAuth client of the provider config.
      Scopes by default: read.
      Settings: subdomain, size, key, site, realm, cloud.
      https://acme.example/docs/oauth#code
      Register a client.
`)
	require.Contains(t, text, `
  session_token: Login
      Credentials: username, password.
      Settings: subdomain, size.
`)
	require.Contains(t, text, `
Scopes
  read: See <all> you can see.
  write:all: Change it.
`)
	require.Contains(t, text, `
  subdomain
      The first part. For user, session_token, jwt_bearer, aws_sigv4, hmac.
      Values: matching [a-z0-9-]+, before .acme.com, such as shop. Default: required.
  size
      Size. For user, session_token, jwt_bearer, aws_sigv4, hmac.
      Values: s, m. Default: s.
  key
      Key. For user.
      Values: string, secret. Default: none.
  site
      Site. For user, oauth1.
      Values: matching [a-z]+, such as eu. Default: from the token response, required for oauth1.
`)
	require.Contains(t, text, `
  oauth1: OAuth 1.0a
      Credentials: from the provider, after the user's consent, with the OAuth client of the provider config.
      API: https://${config.site}.acme.com.
      Settings: site.
`)
	out := page(t, strings.Replace(everyOutbound, "Acts for a user.", `"a | [b] <c>"`, 1))
	require.Contains(t, out, "\nRequests go below `https://${config.subdomain}.acme.com/${config.size}`, `https://fallback.acme.com`. "+
		"Credentials go to `*.acme.com`, `*.myshopify.com`, and to no other host; `*` is one label.\n"+
		"A connection uses one of the modes `user`, `oauth1`, `session_token`, `jwt_bearer`, `aws_sigv4`, `hmac`; the first is the default.\n")
	require.Contains(t, out, "\n### `user`: A user (oauth2)\n\na | \\[b\\] \\<c>\n")
	require.Contains(t, out, "\nScopes by default: `read`.\n")
	require.Contains(t, out, "[The provider's page](https://acme.example/docs/oauth#code).\n")
	require.Contains(t, out, "\n### `oauth1`: OAuth 1.0a\n\nRequests of this mode go below `https://${config.site}.acme.com`.\n")
	require.Contains(t, out, "\nsallyport connections create --provider acme --auth-mode oauth1 --connect --connection-config site=VALUE\n")
	require.Contains(t, out, "\n| `read` | See \\<all> you can see. |\n| `write:all` | Change it. |\n")
	require.Contains(t, out, "\n| `key` | string, secret | none | Key. For `user`. |\n")
}

// The definitions that ship name the provider's page for each mode, say in words what scopes permit that they request
// by default, and never send anything unencrypted.
func TestShippedOutbound(t *testing.T) {
	t.Parallel()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	for _, p := range loaded.List() {
		if p.Outbound == nil {
			continue
		}
		slug := p.Definition.Slug
		for _, m := range p.Outbound.Modes() {
			require.NotEmpty(t, m.DocsURL, "%s %s", slug, m.Name)
			require.True(t, m.Kind == outbound.None || !m.Client || m.Setup != "", "%s %s: how to register a client", slug, m.Name)
			if m.Kind == outbound.OAuth2 || m.Kind == outbound.OAuth1 {
				require.Contains(t, m.Setup, "`{public-url}/oauth/callback/{environment_id}/{provider_config_key}`", "%s %s", slug, m.Name)
			}
			for _, scope := range m.OAuth.DefaultScopes {
				require.NotEmpty(t, m.Scopes[scope], "%s: what the scope %s permits", slug, scope)
			}
		}
		for _, base := range p.Outbound.BaseURLs() {
			require.False(t, strings.HasPrefix(base, "http://"), slug)
		}
	}
	checked, problems, err := registry.Lint(folder("acme.yaml", everyOutbound), registry.LintOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, checked)
	require.Len(t, problems, 5)
	require.Equal(t, "auth[1].docs_url", problems[0].Field)
}

// hostsOf returns where the credentials of a shipped mode go.
func hostsOf(t *testing.T, slug, mode string, pairs ...string) []string {
	t.Helper()
	e := engine(t, slug)
	given := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		given[pair[0]] = pair[1]
	}
	c, problems := e.ResolveConfig(mode, given)
	require.Empty(t, problems)
	hosts, err := e.Hosts(outbound.Target{Mode: mode, Config: c})
	require.NoError(t, err)
	return hosts
}

func engine(t *testing.T, slug string) *outbound.Engine {
	t.Helper()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	p, ok := loaded.Get(slug)
	require.True(t, ok)
	require.NotNil(t, p.Outbound)
	return p.Outbound
}

func responseOf(status int, body string, pairs ...string) outbound.Response {
	h := http.Header{}
	for pair := range slices.Chunk(pairs, 2) {
		h.Set(pair[0], pair[1])
	}
	return outbound.Response{Status: status, Header: h, Body: []byte(body)}
}

// GitHub's tokens go to api.github.com, and those of OAuth to github.com too; its two kinds of limits are known.
func TestGitHubOutbound(t *testing.T) {
	t.Parallel()
	e := engine(t, "github")
	require.Equal(t, []string{"api.github.com"}, hostsOf(t, "github", "token"))
	require.Equal(t, []string{"api.github.com"}, hostsOf(t, "github", "github_app"))
	require.Equal(t, []string{"api.github.com", "github.com"}, hostsOf(t, "github", "oauth2"))
	now := time.Unix(1772600767, 0)
	req, err := e.PrepareProbe(t.Context(), e.Probes("token")[0], outbound.Values{Target: outbound.Target{Mode: "token"},
		Credentials: map[string]secretbox.Secret{"token": "ghp_x"}, Now: now})
	require.NoError(t, err)
	require.Equal(t, "https://api.github.com/user", req.URL.String())
	require.Equal(t, http.Header{"Authorization": {"Bearer ghp_x"}, "Accept": {"application/vnd.github+json"},
		"X-Github-Api-Version": {"2022-11-28"}, "User-Agent": {"Sallyport"}}, req.Header)
	_, account, _ := e.JudgeProbe(e.Probes("token")[0], nil, responseOf(200, `{"login":"octocat","id":1}`), now)
	require.Equal(t, outbound.Account{ID: "1", Label: "octocat"}, account)
	_, account, _ = e.JudgeProbe(e.Probes("github_app")[0], nil, responseOf(200, `{"repositories":[{"owner":{"id":9,"login":"org"}}]}`), now)
	require.Equal(t, outbound.Account{ID: "9", Label: "org"}, account)

	primary := e.Judge(responseOf(403, `{"message":"API rate limit exceeded"}`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset",
		"1772600797", "X-GitHub-Request-Id", "A:B"), now)
	require.Equal(t, outbound.Verdict{Limited: true, Retryable: true, Wait: 30 * time.Second,
		Message: "API rate limit exceeded", RequestID: "A:B"}, primary)
	secondary := e.Judge(responseOf(403, `{"message":"You have exceeded a secondary rate limit."}`, "X-RateLimit-Remaining", "4999",
		"X-RateLimit-Reset", "1772604367"), now)
	require.True(t, secondary.Limited)
	require.Equal(t, time.Minute, secondary.Wait)
	require.True(t, e.Judge(responseOf(401, `{"message":"Bad credentials"}`), now).AuthFailed)
	require.True(t, e.Judge(responseOf(403, `{"message":"Resource not accessible by integration"}`), now).ScopeMissing)

	m, _ := e.Mode("oauth2")
	v := outbound.Values{Credentials: map[string]secretbox.Secret{"access_token": "gho_x"}, Client: outbound.Client{ID: "C", Secret: "S"}}
	req, err = e.Revocation(t.Context(), v)
	require.NoError(t, err)
	require.Equal(t, "DELETE https://api.github.com/applications/C/token", req.Method+" "+req.URL.String())
	require.Equal(t, "Basic QzpT", req.Header.Get("Authorization"))
	require.True(t, m.JudgeRevocation(responseOf(404, ``)))
	appMode, _ := e.Mode("github_app")
	token, err := oauth.ParseToken(appMode.Token, 201, http.Header{}, []byte(`{"token":"ghs_1","expires_at":"2026-03-04T06:06:07Z"}`), now)
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 3, 4, 6, 6, 7, 0, time.UTC), token.ExpiresAt.UTC())
	app, err := e.Endpoints(outbound.Values{Target: outbound.Target{Mode: "github_app"}, Client: outbound.Client{ID: "C"},
		Credentials: map[string]secretbox.Secret{"installation_id": "42"}})
	require.NoError(t, err)
	require.Equal(t, "https://api.github.com/app/installations/42/access_tokens", app.TokenURL)
}

// Slack fails with a status of 200.
func TestSlackOutbound(t *testing.T) {
	t.Parallel()
	e := engine(t, "slack")
	for _, mode := range []string{"oauth2", "oauth2_user", "token"} {
		require.Equal(t, []string{"slack.com"}, hostsOf(t, "slack", mode))
	}
	now := time.Unix(1772600767, 0)
	require.True(t, e.Judge(responseOf(200, `{"ok":true}`), now).OK)
	require.Equal(t, outbound.Verdict{AuthFailed: true, Message: "invalid_auth"}, e.Judge(responseOf(200, `{"ok":false,"error":"invalid_auth"}`), now))
	require.Equal(t, outbound.Verdict{ScopeMissing: true, Message: "missing_scope"}, e.Judge(responseOf(200,
		`{"ok":false,"error":"missing_scope","needed":"chat:write"}`), now))
	require.Equal(t, outbound.Verdict{Limited: true, Retryable: true, Wait: 30 * time.Second, Message: "ratelimited"},
		e.Judge(responseOf(429, `{"ok":false,"error":"ratelimited"}`), now))
	_, account, _ := e.JudgeProbe(e.Probes("token")[0], nil, responseOf(200, `{"ok":true,"team":"Acme","team_id":"T1"}`), now)
	require.Equal(t, outbound.Account{ID: "T1", Label: "Acme"}, account)
	m, _ := e.Mode("oauth2")
	require.False(t, m.OAuth.PKCE)
	require.Equal(t, "/authed_user/access_token", m.Token.Alternate)
	token, err := oauth.ParseToken(m.Token, 200, http.Header{}, []byte(`{"ok":true,"authed_user":{"access_token":"xoxp-1","scope":"a,b"}}`), now)
	require.NoError(t, err)
	require.Equal(t, "xoxp-1", token.Access.Reveal())
	require.Equal(t, []string{"a", "b"}, token.Scopes)
	_, err = oauth.ParseToken(m.Token, 200, http.Header{}, []byte(`{"ok":false,"error":"invalid_refresh_token"}`), now)
	var refused *oauth.TokenError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, oauth.GrantDead, refused.Kind)
	require.True(t, m.JudgeRevocation(responseOf(200, `{"ok":false,"error":"token_revoked"}`)))
	require.False(t, m.JudgeRevocation(responseOf(200, `{"ok":false,"error":"internal_error"}`)))
	require.True(t, m.JudgeRevocation(responseOf(200, `{"ok":true,"revoked":true}`)))
	user, _ := e.Mode("oauth2_user")
	token, err = oauth.ParseToken(user.Token, 200, http.Header{}, []byte(`{"ok":true,"access_token":"xoxe.xoxp-2","refresh_token":"xoxe-2",`+
		`"expires_in":43200}`), now)
	require.NoError(t, err)
	require.Equal(t, "xoxe-2", token.Refresh.Reveal(), "a refresh has the token at its top")
	require.Equal(t, map[string]string{"scope": "user_scope"}, user.OAuth.ParamRename)
}

// Stripe's keys are bearer tokens; a request may name a connected account.
func TestStripeOutbound(t *testing.T) {
	t.Parallel()
	e := engine(t, "stripe")
	require.Equal(t, []string{"api.stripe.com"}, hostsOf(t, "stripe", ""))
	m, _ := e.Mode("")
	require.Empty(t, m.CheckCredentials(map[string]secretbox.Secret{"api_key": "rk_live_0123456789"}))
	require.NotEmpty(t, m.CheckCredentials(map[string]secretbox.Secret{"api_key": "pk_live_0123456789"}), "a publishable key")
	c, problems := e.ResolveConfig("", map[string]string{"account": "acct_1"})
	require.Empty(t, problems)
	req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/v1/charges"}, outbound.Values{
		Target: outbound.Target{Config: c}, Credentials: map[string]secretbox.Secret{"api_key": "sk_test_x"}})
	require.NoError(t, err)
	require.Equal(t, http.Header{"Authorization": {"Bearer sk_test_x"}, "Stripe-Account": {"acct_1"}, "User-Agent": {"Sallyport"}}, req.Header)
	now := time.Unix(1772600767, 0)
	verdict, account, _ := e.JudgeProbe(e.Probes("")[0], nil, responseOf(200, `{"id":"acct_9","settings":{"dashboard":{"display_name":"Shop"}}}`), now)
	require.True(t, verdict.OK)
	require.Equal(t, outbound.Account{ID: "acct_9", Label: "Shop"}, account)
	verdict, _, _ = e.JudgeProbe(e.Probes("")[0], nil, responseOf(403, `{"error":{"message":"no"}}`), now)
	require.True(t, verdict.OK, "a restricted key is valid")
	require.Equal(t, outbound.Verdict{AuthFailed: true, Message: "Invalid API Key", RequestID: "req_1"}, e.Judge(responseOf(401,
		`{"error":{"message":"Invalid API Key"}}`, "Request-Id", "req_1"), now))
}

// With http, credentials go to the host of the base URL and of the token endpoint that the connection names, and to no
// other; each mode asks only for what its requests use.
func TestHTTPOutbound(t *testing.T) {
	t.Parallel()
	e := engine(t, "http")
	require.Equal(t, []string{"10.0.0.1:8443"}, hostsOf(t, "http", "bearer", "base_url", "https://10.0.0.1:8443/v1"))
	require.Equal(t, []string{"api.example.com", "login.example.com"}, hostsOf(t, "http", "oauth2_client_credentials",
		"base_url", "https://api.example.com", "token_url", "https://login.example.com/token"))
	require.Equal(t, []string{"api.example.com", "login.example.com"}, hostsOf(t, "http", "bearer", "base_url",
		"https://api.example.com", "test_url", "https://login.example.com/me"))
	for mode, want := range map[string]string{"bearer": "base_url test_url", "api_key": "base_url test_url header_name header_prefix",
		"api_key_query": "base_url test_url query_name", "basic": "base_url test_url", "none": "base_url", "oauth2": "base_url test_url authorize_url token_url audience",
		"oauth2_private_key":                    "base_url test_url authorize_url token_url audience",
		"oauth2_client_credentials_private_key": "base_url test_url token_url scope audience",
		"oauth2_client_credentials":             "base_url test_url token_url scope audience", "session_token": "base_url test_url login_url",
		"jwt_bearer": "base_url test_url token_url scope audience issuer", "aws_sigv4": "base_url test_url region service",
		"hmac": "base_url test_url signature_header key_id_header", "hmac_request": "base_url test_url signature_header timestamp_header key_id_header",
		"oauth1": "base_url test_url authorize_url request_token_url token_url"} {
		m, ok := e.Mode(mode)
		require.True(t, ok)
		var names []string
		for i := range m.Config {
			names = append(names, m.Config[i].Name)
		}
		require.Equal(t, want, strings.Join(names, " "), mode)
	}
	_, problems := e.ResolveConfig("oauth2_client_credentials", map[string]string{"base_url": "https://a.example"})
	require.Len(t, problems, 1)
	require.Equal(t, "connection_config.token_url", problems[0].Field)
	_, problems = e.ResolveConfig("jwt_bearer", map[string]string{"base_url": "https://a.example", "token_url": "https://a.example/t",
		"issuer": "i"})
	require.Len(t, problems, 1, "an assertion has an audience (RFC 7523 section 3), and a token request may have one")
	require.Equal(t, "connection_config.audience", problems[0].Field)

	c, problems := e.ResolveConfig("api_key", map[string]string{"base_url": "https://api.example.com/v1/", "header_name": "Authorization",
		"header_prefix": "Token "})
	require.Empty(t, problems)
	v := outbound.Values{Target: outbound.Target{Mode: "api_key", Config: c}, Credentials: map[string]secretbox.Secret{"api_key": "K"}}
	req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/a"}, v)
	require.NoError(t, err)
	require.Equal(t, "https://api.example.com/v1/a", req.URL.String())
	require.Equal(t, "Token K", req.Header.Get("Authorization"))
	v.BaseURL = "https://evil.example"
	_, err = e.Prepare(t.Context(), outbound.Outgoing{Method: http.MethodGet, Path: "/a"}, v)
	require.Error(t, err)
}
