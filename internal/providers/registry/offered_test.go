package registry_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/registry"
)

// kinds are all modes of authentication, with the names that documentation has for them.
func kinds() []outbound.Kind {
	return []outbound.Kind{outbound.None, outbound.APIKey, outbound.Basic, outbound.Bearer, outbound.OAuth2,
		outbound.ClientCredentials, outbound.OAuth1, outbound.JWTBearer, outbound.ServiceAccount, outbound.GitHubApp,
		outbound.SessionToken, outbound.AWSSigV4, outbound.HMAC}
}

// Each of the thirteen modes is used by a definition of a provider, and http offers all of them but the two that are
// one provider's own: what can be connected needs no definition, and no mode is there for nothing.
func TestEveryModeIsUsed(t *testing.T) {
	t.Parallel()
	require.Len(t, kinds(), 13)
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	used := map[outbound.Kind]bool{}
	for _, p := range loaded.List() {
		if p.Outbound == nil || p.Definition.Slug == "http" {
			continue
		}
		for _, m := range p.Outbound.Modes() {
			used[m.Kind] = true
		}
	}
	offered := map[outbound.Kind]bool{}
	for _, m := range engine(t, "http").Modes() {
		offered[m.Kind] = true
	}
	for _, k := range kinds() {
		require.True(t, used[k] || k == outbound.None, "%s is used by a provider", k) // an open API needs no definition
		own := k == outbound.ServiceAccount || k == outbound.GitHubApp
		require.Equal(t, !own, offered[k], "%s is offered by http", k)
	}
}

// The providers that people expect have definitions with all parts: modes with the provider's page, a request that
// tests each of them, refused credentials and limits that are recognized, and a message for people.
func TestExpectedProviders(t *testing.T) {
	t.Parallel()
	// Those that do not document Retry-After.
	unlimited := []string{"twilio", "sendgrid"}
	for _, slug := range []string{"github", "gitlab", "slack", "stripe", "google", "microsoft", "notion", "linear", "jira",
		"hubspot", "salesforce", "zendesk", "shopify", "twilio", "discord", "asana", "airtable", "openai", "anthropic",
		"aws", "trello", "sendgrid", "mailgun", "zoom", "cloudflare", "digitalocean"} {
		e := engine(t, slug)
		for _, m := range e.Modes() {
			require.NotEmpty(t, m.DocsURL, "%s %s", slug, m.Name)
			require.NotEmpty(t, e.Probes(m.Name), "%s %s: a test of credentials", slug, m.Name)
		}
		limited := e.Judge(outbound.Response{Status: http.StatusTooManyRequests,
			Header: http.Header{"Retry-After": {"7"}}}, requestTime)
		require.True(t, limited.Limited, slug)
		require.True(t, limited.Wait > 0 || slices.Contains(unlimited, slug), "%s: how long to wait", slug)
		if slug != "aws" { // has no status for refused credentials
			require.True(t, e.Judge(outbound.Response{Status: http.StatusUnauthorized}, requestTime).AuthFailed, slug)
		}
	}
	for _, m := range engine(t, "http").Modes() {
		probes := engine(t, "http").Probes(m.Name)
		require.Equal(t, m.Name != "none", len(probes) == 1, m.Name)
		for _, p := range probes {
			require.False(t, p.Sent(nil), "no request is known that every API has")
			require.True(t, p.Sent(outbound.Config{"test_url": "https://api.example.com/me"}))
		}
	}
}

// Shopify's API is at the host of the shop, which is below a public suffix of Shopify's own, and at no other.
func TestShopifyRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "shopify", "oauth2", []string{"shop", "acme.myshopify.com"}, []string{"access_token", "shpat_1"})
	require.Equal(t, []string{"acme.myshopify.com"}, r.hosts(t))
	endpoints := r.endpoints(t)
	require.Equal(t, "https://acme.myshopify.com/admin/oauth/authorize", endpoints.AuthorizeURL)
	require.Equal(t, "https://acme.myshopify.com/admin/oauth/access_token", endpoints.TokenURL)
	require.Equal(t, "1", endpoints.TokenParams["expiring"].Reveal())
	require.True(t, r.mode.Refresh.Rotating && r.mode.OAuth.JSONBody && !r.mode.OAuth.PKCE)
	require.Equal(t, ",", r.mode.OAuth.ScopeSeparator)
	require.Equal(t, []string{"shpat_2", "shprt_2", "1h0m0s", "read_products,write_products"}, r.token(t,
		`{"access_token":"shpat_2","scope":"read_products,write_products","expires_in":3600,"refresh_token":"shprt_2",`+
			`"refresh_token_expires_in":7776000}`))
	req, v, account := r.probe(t, 200, `{"data":{"shop":{"id":"gid://shopify/Shop/1","name":"Acme"}}}`)
	require.Equal(t, "POST https://acme.myshopify.com/admin/api/2026-07/graphql.json", target(req))
	require.Equal(t, "shpat_1", req.Header.Get("X-Shopify-Access-Token"))
	require.Empty(t, req.Header.Get("Authorization"))
	require.JSONEq(t, `{"query":"{ shop { id name } }"}`, content(t, req))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "gid://shopify/Shop/1", Label: "acme"}, account)
	v = r.judge(200, `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}]}`)
	require.True(t, v.Limited && !v.OK)
	v = r.judge(200, `{"errors":[{"message":"Access denied for orders field.","extensions":{"code":"ACCESS_DENIED"}}]}`)
	require.Equal(t, outbound.Verdict{ScopeMissing: true, Message: "Access denied for orders field."}, v)
	v = r.judge(401, `{"errors":"[API] Invalid API key or access token (unrecognized login or wrong password)"}`)
	require.True(t, v.AuthFailed)
	require.NotEmpty(t, v.Message)
	for _, value := range []string{"evil.com", "acme.myshopify.com.evil", "a/b", "myshopify.com#"} {
		_, problems := r.engine.ResolveConfig("oauth2", map[string]string{"shop": value})
		require.Len(t, problems, 1, value)
	}
	for _, mode := range []string{"oauth2_client_credentials", "token"} {
		m, ok := r.engine.Mode(mode)
		require.True(t, ok)
		require.Equal(t, "shop", m.Config[0].Name)
	}
}

// A connection with Jira's OAuth learns its site from the first test, and keeps the one that it was given.
func TestJiraSites(t *testing.T) {
	t.Parallel()
	e := engine(t, "jira")
	probes := e.Probes("oauth2")
	require.Len(t, probes, 2)
	req, err := e.PrepareProbe(t.Context(), probes[0], outbound.Values{Target: outbound.Target{Mode: "oauth2"},
		Credentials: map[string]secretbox.Secret{"access_token": "a"}})
	require.NoError(t, err)
	require.Equal(t, "GET https://api.atlassian.com/oauth/token/accessible-resources", target(req))
	const cloud = "1324a887-45db-1bf4-1e99-ef0ff456d421"
	sites := outbound.Response{Status: 200,
		Body: []byte(`[{"id":"` + cloud + `","name":"Site name","url":"https://your-domain.atlassian.net"}]`)}
	_, _, found := e.JudgeProbe(probes[0], nil, sites, requestTime)
	require.Equal(t, map[string]string{"cloud_id": cloud}, found)
	_, _, found = e.JudgeProbe(probes[0], outbound.Config{"cloud_id": "11223344-a1b2-3b33-c444-def123456789"}, sites,
		requestTime)
	require.Empty(t, found)
	_, problems := e.ResolveConfig("scoped_api_token", nil)
	require.Len(t, problems, 1)
	require.Equal(t, "connection_config.cloud_id", problems[0].Field)
	require.Equal(t, []string{"api.atlassian.com", "auth.atlassian.com"}, hostsOf(t, "jira", "oauth2"))
}

// Jira's headers are about one endpoint, one issue or the app: they say nothing about what a connection may send.
func TestJiraLimits(t *testing.T) {
	t.Parallel()
	require.Empty(t, engine(t, "jira").Limits().Learn(returned(200, `{}`, "X-RateLimit-Limit", "100", "X-RateLimit-Remaining",
		"0", "X-RateLimit-Reset", "2026-03-04T05:07Z"), requestTime))
}
