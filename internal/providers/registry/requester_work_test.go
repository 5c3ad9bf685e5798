package registry_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
)

// Asana's documented token response is read without what it says about the user, and the refresh token is revoked with
// the client's credentials: Asana rejects access tokens there.
func TestAsanaRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "asana", "oauth2", nil, []string{"access_token", "f6ds7fdsa69ags7ag9sd5a", "refresh_token",
		"hjkl325hjkl4325hj4kl32fjds"})
	require.Equal(t, []string{"f6ds7fdsa69ags7ag9sd5a", "hjkl325hjkl4325hj4kl32fjds", "1h0m0s", ""}, r.token(t, `{
		"access_token":"f6ds7fdsa69ags7ag9sd5a","expires_in":3600,"token_type":"bearer",
		"refresh_token":"hjkl325hjkl4325hj4kl32fjds",
		"data":{"id":"4673218951","name":"Greg Sanchez","email":"gsanchez@example.com"}}`))
	require.True(t, r.mode.OAuth.PKCE)

	req, err := r.engine.Revocation(t.Context(), r.values)
	require.NoError(t, err)
	require.Equal(t, "POST https://app.asana.com/-/oauth_revoke", target(req))
	form, err := url.ParseQuery(content(t, req))
	require.NoError(t, err)
	require.Equal(t, url.Values{"client_id": {"client-1"}, "client_secret": {"client-secret"},
		"token": {"hjkl325hjkl4325hj4kl32fjds"}}, form)
	require.True(t, r.mode.JudgeRevocation(returned(200, `{}`)))
	require.False(t, r.mode.JudgeRevocation(returned(400, `{}`)))

	req, v, account := r.probe(t, 200, `{"data":{"gid":"12345","resource_type":"user","name":"Greg Sanchez"}}`)
	require.Equal(t, "GET https://app.asana.com/api/1.0/users/me?opt_fields=name", target(req))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "12345", Label: "Greg Sanchez"}, account)

	v = r.judge(429, `{"errors":[{"message":"You've made too many requests and hit a rate limit."}]}`, "Retry-After", "30")
	require.True(t, v.Limited)
	require.Equal(t, 30*time.Second, v.Wait)
	require.Equal(t, "You've made too many requests and hit a rate limit.", v.Message)
	require.True(t, r.judge(401, `{"errors":[{"message":"Not Authorized"}]}`).AuthFailed)
}

// Airtable ends a refresh token with its use and requires PKCE. A limit lasts 30 seconds without a header that says so.
func TestAirtableRequests(t *testing.T) {
	t.Parallel()
	r := requests(t, "airtable", "oauth2", nil, []string{"access_token", "oaa1"})
	require.True(t, r.mode.Refresh.Rotating)
	require.True(t, r.mode.OAuth.PKCE)
	require.Equal(t, outbound.ClientAuthBasic, r.mode.OAuth.ClientAuth)
	require.Equal(t, []string{"airtable.com", "api.airtable.com"}, r.hosts(t))
	req, v, account := r.probe(t, 200, `{"id":"usrL2PNC5o3H4lBEi","scopes":["schema.bases:read"]}`)
	require.Equal(t, "GET https://api.airtable.com/v0/meta/whoami", target(req))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "usrL2PNC5o3H4lBEi"}, account)
	v = r.judge(429, `{"errors":[{"error":"RATE_LIMIT_REACHED"}]}`)
	require.True(t, v.Limited)
	require.Equal(t, 30*time.Second, v.Wait)
	require.Equal(t, "INVALID", r.judge(422, `{"error":{"type":"T","message":"INVALID"}}`).Message)
	require.Equal(t, "NOT_FOUND", r.judge(404, `{"error":"NOT_FOUND"}`).Message)
}

// A Trello user's key and token are in the query and nowhere else; a connected one signs, and its token is deleted.
func TestTrelloRequests(t *testing.T) {
	t.Parallel()
	plain := requests(t, "trello", "key_and_token", nil, []string{"username", "key1", "password", "token1"})
	req, v, account := plain.probe(t, 200, `{"id":"5abbe4b7ddc1b351ef961414","username":"bentleycook"}`)
	require.Equal(t, "/1/members/me", req.URL.Path)
	require.Equal(t, url.Values{"fields": {"id,username"}, "key": {"key1"}, "token": {"token1"}}, req.URL.Query())
	require.Empty(t, req.Header.Get("Authorization"))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "5abbe4b7ddc1b351ef961414", Label: "bentleycook"}, account)

	oauth := requests(t, "trello", "oauth1", nil, []string{"token", "t1", "token_secret", "ts"})
	require.Equal(t, []string{"api.trello.com", "trello.com"}, oauth.hosts(t))
	require.Equal(t, "https://trello.com/1/OAuthGetRequestToken", oauth.endpoints(t).RequestTokenURL)
	signed := oauth.send(t, outbound.Outgoing{Method: "GET", Path: "/members/me"}).Header.Get("Authorization")
	require.Contains(t, signed, `oauth_consumer_key="client-1"`)
	require.Contains(t, signed, `oauth_token="t1"`)
	require.Contains(t, signed, `oauth_signature_method="HMAC-SHA1"`)
	req, err := oauth.engine.Revocation(t.Context(), oauth.values)
	require.NoError(t, err)
	require.Equal(t, "DELETE https://api.trello.com/1/tokens/t1?key=client-1&token=t1", target(req))
	require.True(t, oauth.mode.JudgeRevocation(returned(401, "invalid token")))

	v = plain.judge(429, `{"error":"API_TOKEN_LIMIT_EXCEEDED","message":"Rate limit exceeded"}`)
	require.True(t, v.Limited)
	require.Equal(t, 10*time.Second, v.Wait)
	require.Equal(t, "Rate limit exceeded", v.Message)
	require.True(t, plain.judge(401, "invalid token").AuthFailed)
}
