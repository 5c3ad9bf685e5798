package outbound_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
)

const flows = `
connection_config:
  tenant: {title: Tenant, example: t1, optional: true}
  key: {title: Key, secret: true, optional: true}
base_url: https://api.acme.com
allowed_hosts: ["*.acme.com"]
auth:
  - mode: oauth2
    authorize_url: "https://${config.tenant}.acme.com/authorize?x=1"
    token_url: "https://login.acme.com/${config.tenant}/token"
    request: {headers: {A: "${config.key}"}}
    revoke_url: https://login.acme.com/revoke
    issuer: "https://login.acme.com/${config.tenant}"
    pkce: none
    client_auth: basic
    body_format: json
    code_param: oauth_code
    scope_separator: ","
    default_scopes: [a, b]
    param_rename: {scope: scopes}
    authorize_params: {access_type: offline, tenant: "${config.tenant}"}
    token_params: {key: "${config.key}", client: "${client.id}"}
    refresh_params: {r: "1"}
    token: {access: /a, alternate: /b, unit: ms, default_ttl: 24h, buffer: 1m, success_when: {body: /ok, equals: true}}
    refresh: {rotating: true, max_idle: 90d, dead_when: [{body: /error, in: [gone]}, {status: 410}]}
  - mode: session_token
    login: {method: PUT, url: "https://login.acme.com/${config.tenant}", headers: {X: "${basic(cred.username, cred.password)}"}, form: {u: "${cred.username}", p: "${cred.password}", t: "${config.key}"}, ok: [201], success_when: {body: /t}}
    token: {access: /t}
    revoke: {method: DELETE, url: "https://login.acme.com/s/${cred.access_token}", json: {t: "${cred.access_token}"}, ok: [204], gone: [404], gone_when: [{body: /error, equals: gone}]}
  - mode: jwt_bearer
    token_url: https://login.acme.com/token
    jwt: {algorithm: ES256, key_id: k1, iss: i, sub: "${cred.subject}", aud: "https://login.acme.com", claims: {t: "${config.tenant}"}, lifetime: 10m}
`

// The endpoints and parameters of a mode are rendered from the connection and the client, and are on allowed hosts.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	e := compile(t, flows)
	v := outbound.Values{Target: outbound.Target{Mode: "oauth2", Config: config(t, e, "oauth2", "tenant", "t1", "key", "K")},
		Client: outbound.Client{ID: "C", Secret: "S"}, Now: now}
	got, err := e.Endpoints(v)
	require.NoError(t, err)
	require.Equal(t, &outbound.Endpoints{AuthorizeURL: "https://t1.acme.com/authorize?x=1",
		TokenURL: "https://login.acme.com/t1/token", RefreshURL: "https://login.acme.com/t1/token",
		RevokeURL: "https://login.acme.com/revoke", Issuer: "https://login.acme.com/t1",
		AuthorizeParams: map[string]string{"access_type": "offline", "tenant": "t1"},
		TokenParams:     credentials("key", "K", "client", "C"), RefreshParams: credentials("r", "1")}, got)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", got, got, got), `"K"`)

	v.Config = outbound.Config(credentials("tenant", "a/b?c"))
	_, err = e.Endpoints(v)
	require.Error(t, err, "no part of a host")
	v.Config = nil
	_, err = e.Endpoints(v)
	require.Error(t, err)
	_, err = e.Endpoints(outbound.Values{Target: outbound.Target{Mode: "x"}})
	require.Equal(t, []string{"mode"}, fields(t, err))
}

// A compiled mode has every rule of the declaration, with the defaults of the protocol for others.
func TestModes(t *testing.T) {
	t.Parallel()
	e := compile(t, flows)
	m, ok := e.Mode("")
	require.True(t, ok)
	require.Equal(t, outbound.OAuthRules{ScopeSeparator: ",", DefaultScopes: []string{"a", "b"}, JSONBody: true,
		ParamRename: map[string]string{"scope": "scopes"}, ClientAuth: outbound.ClientAuthBasic, CodeParam: "oauth_code"}, m.OAuth)
	require.True(t, m.Client)
	require.False(t, m.ClientKey)
	require.False(t, m.Entered())
	require.False(t, m.Mints())
	require.True(t, m.Refresh.Rotating)
	require.Equal(t, 90*24*time.Hour, m.Refresh.MaxIdle)
	spec := m.Token
	require.True(t, spec.SuccessWhen(200, nil, []byte(`{"ok":true}`)))
	require.False(t, spec.SuccessWhen(200, nil, []byte(`{"ok":false}`)))
	require.Len(t, spec.DeadWhen, 2)
	require.True(t, spec.DeadWhen[0](400, nil, []byte(`{"error":"gone"}`)))
	require.True(t, spec.DeadWhen[1](410, nil, nil))
	require.False(t, spec.DeadWhen[1](400, nil, nil))
	spec.SuccessWhen, spec.DeadWhen = nil, nil
	require.Equal(t, oauth.TokenSpec{Access: "/a", Alternate: "/b", Refresh: "/refresh_token", ExpiresIn: "/expires_in",
		Scope: "/scope", Unit: time.Millisecond, DefaultTTL: 24 * time.Hour}, spec)
	require.Equal(t, time.Minute, m.TokenBuffer)
	plain := compile(t, withAuth(", {mode: oauth2, name: p, authorize_url: \"https://a.acme.com\", token_url: \"https://a.acme.com\"}"))
	m, _ = plain.Mode("p")
	require.Equal(t, outbound.OAuthRules{PKCE: true, ScopeSeparator: " ", ClientAuth: outbound.ClientAuthBody, CodeParam: "code"}, m.OAuth)
	require.Equal(t, 15*time.Minute, m.TokenBuffer)
	m, _ = e.Mode("session_token")
	require.True(t, m.Entered() && m.Mints())
}

// A login has the body that the definition describes, without values that are not there, and is judged by it.
func TestLogin(t *testing.T) {
	t.Parallel()
	e := compile(t, flows)
	v := outbound.Values{Target: outbound.Target{Mode: "session_token", Config: outbound.Config(credentials("tenant", "t/1"))},
		Credentials: credentials("username", "u", "password", "p&q"), Now: now}
	req, err := e.Login(t.Context(), v)
	require.NoError(t, err)
	require.Equal(t, "PUT https://login.acme.com/t%2F1", req.Method+" "+req.URL.String())
	require.Equal(t, http.Header{"Accept": {"application/json"}, "Content-Type": {"application/x-www-form-urlencoded"},
		"User-Agent": {"Sallyport"}, "X": {"dTpwJnE="}}, req.Header)
	body, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	require.Equal(t, "p=p%26q&u=u", string(body))
	m, _ := e.Mode("session_token")
	for body, want := range map[string]bool{`{"t":"x"}`: true, `{}`: false, ``: false} {
		require.Equal(t, want, m.JudgeLogin(response(201, body)), body)
	}
	require.False(t, m.JudgeLogin(response(200, `{"t":"x"}`)))
	v.Mode = "oauth2"
	_, err = e.Login(t.Context(), v)
	require.Equal(t, []string{"mode"}, fields(t, err))
	v.Mode, v.Credentials = "session_token", credentials("username", "u")
	_, err = e.Login(t.Context(), v)
	require.Equal(t, []string{"credentials.password"}, fields(t, err))
}

// A revocation carries the token to the allowed host only; a token that does not exist any more counts as revoked.
func TestRevocation(t *testing.T) {
	t.Parallel()
	e := compile(t, flows)
	v := outbound.Values{Target: outbound.Target{Mode: "session_token"}, Credentials: credentials("access_token", "a/b")}
	req, err := e.Revocation(t.Context(), v)
	require.NoError(t, err)
	require.Equal(t, "DELETE https://login.acme.com/s/a%2Fb", req.Method+" "+req.URL.String())
	body, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"t":"a/b"}`, string(body))
	m, _ := e.Mode("session_token")
	for _, tt := range []struct {
		r    outbound.Response
		want bool
	}{{response(204, ``), true}, {response(404, ``), true}, {response(400, `{"error":"gone"}`), true}, {response(400, ``), false},
		{response(500, ``), false}, {response(200, ``), false}} {
		require.Equal(t, tt.want, m.JudgeRevocation(tt.r), tt.r.Status)
	}
	v.Mode = "oauth2"
	req, err = e.Revocation(t.Context(), v)
	require.NoError(t, err)
	require.Nil(t, req)
	v.Mode, v.Credentials = "session_token", credentials("access_token", "..")
	_, err = e.Revocation(t.Context(), v)
	require.Equal(t, []string{"credentials.access_token"}, fields(t, err))
}

// An assertion has the declared claims, its times, and no claim without a value.
func TestAssertion(t *testing.T) {
	t.Parallel()
	e := compile(t, flows)
	v := outbound.Values{Target: outbound.Target{Mode: "jwt_bearer"}, Credentials: credentials("key", "PEM"), Now: now}
	got, err := e.Assertion(v)
	require.NoError(t, err)
	require.Equal(t, &outbound.Assertion{Algorithm: "ES256", KeyID: "k1", Key: "PEM", Expires: now.Add(10 * time.Minute),
		Claims: map[string]any{"iss": "i", "aud": "https://login.acme.com", "iat": now.Unix(), "exp": now.Unix() + 600}}, got)
	v.Credentials = credentials("key", "PEM", "subject", "s")
	got, err = e.Assertion(v)
	require.NoError(t, err)
	require.Equal(t, "s", got.Claims["sub"])
	v.Credentials = nil
	_, err = e.Assertion(v)
	require.Equal(t, []string{"credentials.key"}, fields(t, err))
	v.Mode = "oauth2"
	_, err = e.Assertion(v)
	require.Equal(t, []string{"mode"}, fields(t, err))
}

// A connection's values are checked by type, pattern and list; only those that its mode uses have to be there.
func TestResolveConfig(t *testing.T) {
	t.Parallel()
	e := compile(t, `
connection_config:
  sub: {title: Sub}
  count: {title: Count, type: integer, default: "5"}
  flag: {title: Flag, type: boolean, optional: true}
  size: {title: Size, enum: [s, m], optional: true}
  code: {title: Code, pattern: "[A-Z]{3}", example: ABC, optional: true}
  token_url: {title: Token URL, type: url, example: "https://login.acme.com"}
  at: {title: At, source: token_response, optional: true}
base_url: https://${config.sub}.acme.com/${config.count}/${config.flag}/${config.size}/${config.code}/${config.at}
allowed_hosts: ["*.acme.com", "${config.token_url}"]
auth:
  - {mode: bearer}
  - {mode: oauth2_client_credentials, token_url: "${config.token_url}", token_metadata: {at: /at}}
`)
	bearer, _ := e.Mode("bearer")
	client, _ := e.Mode("oauth2_client_credentials")
	require.Len(t, bearer.Config, 6)
	require.Len(t, client.Config, 7)
	require.Len(t, e.ConfigFields(), 7)
	resolved := config(t, e, "", "sub", "x", "code", "ABC")
	require.Equal(t, outbound.Config(credentials("sub", "x", "count", "5", "code", "ABC")), resolved)
	require.NotContains(t, fmt.Sprintf("%v %+v", resolved, outbound.Target{Config: resolved}), "ABC")
	for field, value := range map[string]string{"count": "five", "flag": "yes", "size": "l", "code": "ABCD", "token_url": "login.acme.com",
		"sub": "a.b", "at": "a\x00", "other": "x"} {
		for _, bad := range []string{value, strings.Repeat("9", 1100)} {
			_, problems := e.ResolveConfig("", map[string]string{"sub": "x", field: bad})
			require.Equal(t, []string{"connection_config." + field}, fieldsOf(t, problems), "%s %q", field, bad)
		}
	}
	for _, number := range []string{"+1", "01", "1.0", " 1", "-", "0x1", "99999999999999999999"} {
		_, problems := e.ResolveConfig("", map[string]string{"sub": "x", "count": number})
		require.Equal(t, []string{"connection_config.count"}, fieldsOf(t, problems), number)
	}
	_, problems := e.ResolveConfig("", nil)
	require.Equal(t, []string{"connection_config.sub"}, fieldsOf(t, problems))
	_, problems = e.ResolveConfig("oauth2_client_credentials", nil)
	require.Equal(t, []string{"connection_config.sub", "connection_config.token_url"}, fieldsOf(t, problems))
	_, problems = e.ResolveConfig("x", nil)
	require.Equal(t, []string{"mode"}, fieldsOf(t, problems))
}

// Credentials are those of the mode, with the forms that the definition gives them; no problem quotes a value.
func TestCredentials(t *testing.T) {
	t.Parallel()
	want := map[string]string{"none": "", "api_key": "api_key*", "bearer": "token*", "basic": "username password*",
		"session_token": "username password* access_token*?m", "oauth2": "access_token*m refresh_token*?m expires_at?m scopes?m",
		"oauth2_client_credentials": "client_id client_secret* access_token*?m", "oauth1": "token*m token_secret*m",
		"client_key": "client_id key* key_id? access_token*?m", "jwt_named": "key* key_id? subject? access_token*?m",
		"jwt_bearer": "key* subject? access_token*?m", "service_account": "key* subject? access_token*?m",
		"github_app": "installation_id access_token*?m", "aws_sigv4": "access_key_id secret_access_key* session_token*?", "hmac": "key_id secret*"}
	e := compile(t, `
base_url: https://a.acme.com
allowed_hosts: [a.acme.com]
auth:
  - {mode: none}
  - {mode: api_key, request: {headers: {X: "${cred.api_key}"}}, fields: {api_key: {title: Secret key, description: The key., pattern: "sk_[a-z]+", example: sk_abc}}}
  - {mode: bearer}
  - {mode: basic, fields: {password: {optional: true}}, name: basic_user}
  - {mode: basic}
  - {mode: session_token, login: {url: "https://a.acme.com"}, token: {}}
  - {mode: oauth2, authorize_url: "https://a.acme.com", token_url: "https://a.acme.com"}
  - {mode: oauth2_client_credentials, token_url: "https://a.acme.com"}
  - {mode: oauth2_client_credentials, name: client_key, token_url: "https://a.acme.com", client_auth: private_key_jwt}
  - {mode: jwt_bearer, name: jwt_named, jwt: {algorithm: RS256, key_id: "${cred.key_id}"}}
  - {mode: oauth1, request_token_url: "https://a.acme.com", authorize_url: "https://a.acme.com", token_url: "https://a.acme.com"}
  - {mode: jwt_bearer, jwt: {algorithm: RS256}}
  - {mode: service_account, token_url: "https://a.acme.com"}
  - {mode: github_app, token_url: "https://a.acme.com/${cred.installation_id}"}
  - {mode: aws_sigv4, aws: {region: us-east-1, service: s3}}
  - {mode: hmac, signature: {algorithm: sha256, content: "${request.body}", header: X}}
`)
	for mode, text := range want {
		m, ok := e.Mode(mode)
		require.True(t, ok)
		var got []string
		for _, f := range m.Fields {
			name := f.Name
			for mark, set := range map[string]bool{"*": f.Secret} {
				if set {
					name += mark
				}
			}
			if f.Optional {
				name += "?"
			}
			if f.Minted {
				name += "m"
			}
			require.NotEmpty(t, f.Title)
			got = append(got, name)
		}
		require.Equal(t, text, strings.Join(got, " "), mode)
	}
	key, _ := e.Mode("api_key")
	require.Empty(t, key.CheckCredentials(credentials("api_key", "sk_abc")))
	for _, bad := range []string{"", "pk_mark", "sk_mark1", "sk_mark\n", "\xff", "sk_" + strings.Repeat("mark", 5000)} {
		problems := key.CheckCredentials(credentials("api_key", bad))
		require.Equal(t, []string{"credentials.api_key"}, fieldsOf(t, problems))
		require.NotContains(t, problems[0].Message, "mark")
	}
	require.Equal(t, []string{"credentials.token"}, fieldsOf(t, key.CheckCredentials(credentials("api_key", "sk_abc", "token", "x"))))
	user, _ := e.Mode("basic_user")
	require.Empty(t, user.CheckCredentials(credentials("username", "u")))
	jwt, _ := e.Mode("jwt_bearer")
	require.Empty(t, jwt.CheckCredentials(credentials("key", "-----BEGIN\nx\r\n-----")))
	imported, _ := e.Mode("oauth2")
	require.Equal(t, []string{"credentials.access_token"}, fieldsOf(t, imported.CheckCredentials(nil)))

	schema, err := json.Marshal(outbound.Schema(key.Fields))
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["api_key"],"properties":{"api_key":{"type":"string",
		"title":"Secret key","description":"The key.","pattern":"^(?:sk_[a-z]+)$","examples":["sk_abc"],"writeOnly":true}}}`, string(schema))
}
