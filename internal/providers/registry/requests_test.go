package registry_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/oauth"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/registry"
)

// modeCase is what requests of one mode of a definition have to be.
type modeCase struct {
	slug, mode string
	// config are the connection's values besides defaults, and credentials what it is given.
	config, credentials map[string]string
	// authorize, token and revoke are the endpoints; empty for none.
	authorize, token, revoke string
	// params are what the authorization request has besides the protocol's own parameters.
	params map[string]string
	// hosts are all that may get credentials.
	hosts []string
	// probe is the URL of the last probe, header what it has to contain, and body its body.
	probe  string
	header map[string]string
	body   string
	// response is a documented response to the last probe, and account what it names.
	response string
	account  outbound.Account
}

var requestTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func (c *modeCase) engine(t *testing.T) *outbound.Engine {
	t.Helper()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	p, ok := loaded.Get(c.slug)
	require.True(t, ok, c.slug)
	require.NotNil(t, p.Outbound, c.slug)
	return p.Outbound
}

// values resolves the case's values. Credentials have to pass the checks of their fields.
func (c *modeCase) values(t *testing.T, e *outbound.Engine) outbound.Values {
	t.Helper()
	config, problems := e.ResolveConfig(c.mode, c.config)
	require.Empty(t, problems)
	m, ok := e.Mode(c.mode)
	require.True(t, ok)
	given := map[string]secretbox.Secret{}
	for key, value := range c.credentials {
		given[key] = secretbox.Secret(value)
	}
	require.Empty(t, m.CheckCredentials(given))
	return outbound.Values{Target: outbound.Target{Mode: c.mode, Config: config}, Credentials: given,
		Client: outbound.Client{ID: "the-client", Secret: "the-secret"}, Now: requestTime}
}

func (c *modeCase) check(t *testing.T) {
	t.Helper()
	e := c.engine(t)
	v := c.values(t, e)
	m, _ := e.Mode(c.mode)
	require.True(t, strings.HasPrefix(m.DocsURL, "https://"), "the page of the mode")
	endpoints, err := e.Endpoints(v)
	require.NoError(t, err)
	require.Equal(t, c.authorize, endpoints.AuthorizeURL)
	require.Equal(t, c.token, endpoints.TokenURL)
	require.Equal(t, c.token, endpoints.RefreshURL)
	require.Equal(t, c.revoke, endpoints.RevokeURL)
	if c.params == nil {
		c.params = map[string]string{}
	}
	require.Equal(t, c.params, endpoints.AuthorizeParams)
	hosts, err := e.Hosts(v.Target)
	require.NoError(t, err)
	require.Equal(t, c.hosts, hosts)
	probes := e.Probes(c.mode)
	require.NotEmpty(t, probes)
	p := probes[len(probes)-1]
	req, err := e.PrepareProbe(t.Context(), p, v)
	require.NoError(t, err)
	require.Equal(t, c.probe, req.URL.String())
	body, err := io.ReadAll(req.Body)
	require.NoError(t, err)
	require.Equal(t, c.body, string(body))
	for name, want := range c.header {
		require.Equal(t, want, req.Header.Get(name), name)
	}
	verdict, account, _ := e.JudgeProbe(p, nil, outbound.Response{Status: 200, Body: []byte(c.response)}, requestTime)
	require.True(t, verdict.OK)
	require.Equal(t, c.account, account)
	refused, account, _ := e.JudgeProbe(p, nil, outbound.Response{Status: 401, Body: []byte(`{}`)}, requestTime)
	require.False(t, refused.OK)
	require.True(t, refused.AuthFailed)
	require.Empty(t, account)
}

// Requests of every mode go where the providers' pages say, with what they say, and their documented responses to the
// probes name the account.
func TestModes(t *testing.T) {
	t.Parallel()
	covered := map[string][]string{}
	for _, c := range slices.Concat(modesOfSuites(), modesOfTrackers(), modesOfSales()) {
		covered[c.slug] = append(covered[c.slug], c.mode)
		t.Run(c.slug+" "+c.mode, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
	for slug, modes := range covered {
		e := (&modeCase{slug: slug}).engine(t)
		var names []string
		for _, m := range e.Modes() {
			names = append(names, m.Name)
		}
		require.Equal(t, slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(modes)), slug)
	}
	require.Len(t, covered, 9)
}

// tokenCase is a token response as a provider's page has it.
type tokenCase struct {
	slug, mode, response string
	access, refresh      string
	lives                time.Duration
	config               map[string]string
}

// The token responses in the providers' documentation have their parts where the definitions say.
func TestTokenResponses(t *testing.T) {
	t.Parallel()
	for _, c := range tokenCases() {
		t.Run(c.slug+" "+c.mode, func(t *testing.T) {
			t.Parallel()
			m, ok := (&modeCase{slug: c.slug}).engine(t).Mode(c.mode)
			require.True(t, ok)
			token, err := oauth.ParseToken(m.Token, 200, http.Header{}, []byte(c.response), requestTime)
			require.NoError(t, err)
			require.Equal(t, c.access, token.Access.Reveal())
			require.Equal(t, c.refresh, token.Refresh.Reveal())
			require.Equal(t, c.config["instance_url"], token.Metadata["instance_url"])
			if c.lives == 0 {
				require.Zero(t, token.ExpiresAt)
				return
			}
			require.Equal(t, requestTime.Add(c.lives), token.ExpiresAt)
		})
	}
}

// The errors by which the providers' token endpoints refuse a refresh token end a connection, and no others do.
func TestDeadGrants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slug, response string
		status         int
		want           oauth.Kind
	}{
		{"notion", `{"object":"error","status":400,"code":"invalid_grant","message":"Invalid code: this code has been revoked."}`,
			400, oauth.GrantDead},
		{"notion", `{"error":"invalid_client"}`, 401, oauth.ClientRefused},
		{"jira", `{"error":"invalid_grant","error_description":"Unknown or invalid refresh token."}`, 403, oauth.GrantDead},
		{"microsoft", `{"error":"interaction_required","error_description":"AADSTS50076"}`, 400, oauth.GrantDead},
		{"microsoft", `{"error":"bad_token"}`, 400, oauth.GrantDead},
		{"microsoft", `{"error":"temporarily_unavailable"}`, 503, oauth.Temporary},
		{"hubspot", `{"status":"BAD_REFRESH_TOKEN","message":"missing or invalid refresh token"}`, 400, oauth.GrantDead},
		{"gitlab", `{"error":"invalid_grant"}`, 400, oauth.GrantDead},
		{"google", `{"error":"invalid_grant","error_description":"Token has been expired or revoked."}`, 400, oauth.GrantDead},
	} {
		m, ok := (&modeCase{slug: c.slug}).engine(t).Mode("oauth2")
		require.True(t, ok)
		_, err := oauth.ParseToken(m.Token, c.status, http.Header{}, []byte(c.response), requestTime)
		var refused *oauth.TokenError
		require.ErrorAs(t, err, &refused, c.response)
		require.Equal(t, c.want, refused.Kind, c.response)
	}
}

// verdictCase is a response in a form that a provider documents.
type verdictCase struct {
	slug   string
	status int
	header map[string]string
	body   string
	want   outbound.Verdict
}

// Errors in the forms of the providers' documentation mean what the providers say.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range verdictCases() {
		t.Run(c.slug+" "+strconv.Itoa(c.status)+" "+c.body, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			for name, value := range c.header {
				header.Set(name, value)
			}
			got := (&modeCase{slug: c.slug}).engine(t).Judge(outbound.Response{Status: c.status, Header: header,
				Body: []byte(c.body)}, requestTime)
			require.Equal(t, c.want, got)
		})
	}
}

// Requests that revoke a token are those of the providers' pages.
func TestRevocations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		modeCase
		method, url, authorization, body string
		gone                             []int
	}{
		{modeCase: modeCase{slug: "notion", mode: "oauth2", credentials: map[string]string{"access_token": "ntn_a"}},
			method: "POST", url: "https://api.notion.com/v1/oauth/revoke",
			authorization: "Basic dGhlLWNsaWVudDp0aGUtc2VjcmV0", body: `{"token":"ntn_a"}`},
		{modeCase: modeCase{slug: "zendesk", mode: "oauth2", config: map[string]string{"subdomain": "acme.zendesk.com"},
			credentials: map[string]string{"access_token": "gEr"}}, method: "DELETE",
			url: "https://acme.zendesk.com/api/v2/oauth/tokens/current.json", authorization: "Bearer gEr", gone: []int{401, 404}},
	} {
		e := c.engine(t)
		req, err := e.Revocation(t.Context(), c.values(t, e))
		require.NoError(t, err)
		require.Equal(t, c.method, req.Method)
		require.Equal(t, c.url, req.URL.String())
		require.Equal(t, c.authorization, req.Header.Get("Authorization"))
		body, err := io.ReadAll(req.Body)
		require.NoError(t, err)
		require.Equal(t, c.body, string(body))
		m, _ := e.Mode(c.mode)
		for _, status := range c.gone {
			require.True(t, m.JudgeRevocation(outbound.Response{Status: status}), status)
		}
		require.True(t, m.JudgeRevocation(outbound.Response{Status: 204}))
		require.False(t, m.JudgeRevocation(outbound.Response{Status: 403}))
	}
}

// A token response of Salesforce names the instance, and only one of Salesforce's gets the token.
func TestSalesforceInstance(t *testing.T) {
	t.Parallel()
	c := modeCase{slug: "salesforce", mode: "oauth2", credentials: map[string]string{"access_token": "00D!a"}}
	e := c.engine(t)
	for instance, accepted := range map[string]bool{
		"https://acme.my.salesforce.com":              true,
		"https://acme--uat.sandbox.my.salesforce.com": true,
		"https://my.salesforce.com":                   false,
		"https://acme.my.salesforce.com.evil.com":     false,
		"https://acme.my.salesforce.com:8443":         false,
		"https://a.b.my.salesforce.com":               false,
		"https://evil.com/.my.salesforce.com":         false,
	} {
		c.config = map[string]string{"instance_url": instance}
		_, err := e.Prepare(t.Context(), outbound.Outgoing{Method: "GET", Path: "/services/data"}, c.values(t, e))
		require.Equal(t, accepted, err == nil, instance)
	}
	c.config = nil
	endpoints, err := e.Endpoints(c.values(t, e)) // the first token is requested before the instance is known
	require.NoError(t, err)
	require.Equal(t, "https://login.salesforce.com/services/oauth2/token", endpoints.TokenURL)
	_, err = e.Prepare(t.Context(), outbound.Outgoing{Method: "GET", Path: "/"}, c.values(t, e))
	require.ErrorContains(t, err, "connection_config.instance_url")
	for _, host := range []string{"evil.com", "login.salesforce.com.evil.com", "salesforce.com", "a.salesforce.com"} {
		_, problems := e.ResolveConfig("oauth2", map[string]string{"login_host": host})
		require.NotEmpty(t, problems, host)
	}
}

// A token of Salesforce without the scope for the user's name is valid. The first probe refuses an invalid one.
func TestSalesforceProbes(t *testing.T) {
	t.Parallel()
	e := (&modeCase{slug: "salesforce"}).engine(t)
	probes := e.Probes("oauth2")
	require.Len(t, probes, 2)
	forbidden := outbound.Response{Status: 403, Body: []byte("Bad_OAuth_Token")}
	v, account, _ := e.JudgeProbe(probes[1], nil, forbidden, requestTime)
	require.True(t, v.OK)
	require.Empty(t, account)
	v, _, _ = e.JudgeProbe(probes[0], nil, forbidden, requestTime)
	require.False(t, v.OK)
	v, _, _ = e.JudgeProbe(probes[0], nil, outbound.Response{Status: 401,
		Body: []byte(`[{"message":"Session expired or invalid","errorCode":"INVALID_SESSION_ID"}]`)}, requestTime)
	require.True(t, v.AuthFailed)
}

// The assertion of Salesforce's JWT bearer flow has the four claims of its page, and is signed by the connection's key.
func TestSalesforceAssertion(t *testing.T) {
	t.Parallel()
	c := modeCase{slug: "salesforce", mode: "jwt_bearer", config: map[string]string{
		"consumer_key": "3MVG9000000000000000000sample", "audience": "test.salesforce.com", "login_host": "test.salesforce.com"},
		credentials: map[string]string{"key": "the key", "subject": "admin@example.com"}}
	e := c.engine(t)
	a, err := e.Assertion(c.values(t, e))
	require.NoError(t, err)
	require.Equal(t, "RS256", a.Algorithm)
	require.Equal(t, "the key", a.Key.Reveal())
	require.Equal(t, map[string]any{"iss": "3MVG9000000000000000000sample", "sub": "admin@example.com",
		"aud": "https://test.salesforce.com", "iat": requestTime.Unix(), "exp": requestTime.Unix() + 180}, a.Claims)
}

// Gmail and Sheets are reached by the base URL of a provider config; other hosts of Google get no token.
func TestGoogleHosts(t *testing.T) {
	t.Parallel()
	c := modeCase{slug: "google", mode: "oauth2", credentials: map[string]string{"access_token": "ya29.a"}}
	e := c.engine(t)
	v := c.values(t, e)
	for base, accepted := range map[string]bool{
		"https://gmail.googleapis.com":       true,
		"https://sheets.googleapis.com":      true,
		"https://storage.googleapis.com":     false,
		"https://evil.gmail.googleapis.com":  false,
		"https://gmail.googleapis.com.a.com": false,
	} {
		v.BaseURL = base
		req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: "GET", Path: "/gmail/v1/users/me/profile"}, v)
		require.Equal(t, accepted, err == nil, base)
		if accepted {
			require.Equal(t, base+"/gmail/v1/users/me/profile", req.URL.String())
			require.Equal(t, "Bearer ya29.a", req.Header.Get("Authorization"))
		}
	}
}

// The scopes that Microsoft's client credentials ask for are those of the cloud that the connection is in.
func TestMicrosoftClouds(t *testing.T) {
	t.Parallel()
	c := modeCase{slug: "microsoft", mode: "oauth2_client_credentials", config: map[string]string{"tenant": "contoso.com",
		"login_host": "login.microsoftonline.us", "graph_host": "graph.microsoft.us"}, credentials: map[string]string{
		"client_id": "00001111-aaaa-2222-bbbb-3333cccc4444", "client_secret": "s"}}
	e := c.engine(t)
	endpoints, err := e.Endpoints(c.values(t, e))
	require.NoError(t, err)
	require.Equal(t, "https://login.microsoftonline.us/contoso.com/oauth2/v2.0/token", endpoints.TokenURL)
	require.Equal(t, map[string]secretbox.Secret{"scope": "https://graph.microsoft.us/.default"}, endpoints.TokenParams)
	p := e.Probes(c.mode)[0]
	verdict, _, _ := e.JudgeProbe(p, nil, outbound.Response{Status: 403,
		Body: []byte(`{"error":{"code":"Authorization_RequestDenied"}}`)}, requestTime)
	require.True(t, verdict.OK, "the token is valid, also without permission to read the organization")
	for _, tenant := range []string{"a/b", "a?b", "..", "a#b", "%2e"} {
		_, problems := e.ResolveConfig(c.mode, map[string]string{"tenant": tenant})
		require.NotEmpty(t, problems, tenant)
	}
}

// A GitLab of one's own gets its requests below its own URL, and no other host gets any.
func TestGitLabInstances(t *testing.T) {
	t.Parallel()
	c := modeCase{slug: "gitlab", mode: "token", config: map[string]string{"instance_url": "https://code.example.com:8443/git"},
		credentials: map[string]string{"token": "glpat-00000000000000000000"}}
	e := c.engine(t)
	v := c.values(t, e)
	req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: "GET", Path: "/projects/a%2Fb",
		Query: url.Values{"per_page": {"1"}}}, v)
	require.NoError(t, err)
	require.Equal(t, "https://code.example.com:8443/git/api/v4/projects/a%2Fb?per_page=1", req.URL.String())
	hosts, err := e.Hosts(v.Target)
	require.NoError(t, err)
	require.Equal(t, []string{"code.example.com:8443"}, hosts)
	v.BaseURL = "https://gitlab.com/api/v4"
	_, err = e.Prepare(t.Context(), outbound.Outgoing{Method: "GET", Path: "/user"}, v)
	require.Error(t, err)
}

// The version of Notion's API is the connection's: a caller cannot change it request by request.
func TestNotionVersion(t *testing.T) {
	t.Parallel()
	c := modeCase{slug: "notion", mode: "token", config: map[string]string{"notion_version": "2025-09-03"},
		credentials: map[string]string{"token": "ntn_00000000000sample0000000000000"}}
	e := c.engine(t)
	req, err := e.Prepare(t.Context(), outbound.Outgoing{Method: "GET", Path: "/v1/users",
		Header: http.Header{"Notion-Version": {"2022-06-28"}}}, c.values(t, e))
	require.NoError(t, err)
	require.Equal(t, []string{"2025-09-03"}, req.Header.Values("Notion-Version"))
}
