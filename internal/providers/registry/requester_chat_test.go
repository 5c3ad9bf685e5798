package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
)

// A bot's token has the word that Discord requires, a user's is a bearer token, and both have Discord's User-Agent. The
// user is that of the response in Discord's documentation.
func TestDiscordRequests(t *testing.T) {
	t.Parallel()
	const user = `{"id":"80351110224678912","username":"Nelly","global_name":null,"discriminator":"1337"}`
	bot := requests(t, "discord", "bot", nil, []string{"token", "MTk4.Cl2FMQ.ZnCj"})
	req, v, account := bot.probe(t, 200, user)
	require.Equal(t, "GET https://discord.com/api/v10/users/@me", target(req))
	require.Equal(t, "Bot MTk4.Cl2FMQ.ZnCj", req.Header.Get("Authorization"))
	require.Regexp(t, `^DiscordBot \(.+, .+\)$`, req.Header.Get("User-Agent"))
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "80351110224678912", Label: "Nelly"}, account)

	oauth := requests(t, "discord", "oauth2", nil, []string{"access_token", "6qrZcUqja7812RVdnEKjpzOL4CvHBFG"})
	require.Equal(t, "Bearer 6qrZcUqja7812RVdnEKjpzOL4CvHBFG",
		oauth.send(t, outbound.Outgoing{Method: "GET", Path: "/users/@me"}).Header.Get("Authorization"))
	require.Equal(t, []string{"6qrZcUqja7812RVdnEKjpzOL4CvHBFG", "D43f5y0ahjqew82jZ4NViEr2YafMKhue", "168h0m0s", "identify"},
		oauth.token(t, `{"access_token":"6qrZcUqja7812RVdnEKjpzOL4CvHBFG","token_type":"Bearer","expires_in":604800,
			"refresh_token":"D43f5y0ahjqew82jZ4NViEr2YafMKhue","scope":"identify"}`))
	require.Equal(t, "https://discord.com/api/oauth2/token/revoke", oauth.endpoints(t).RevokeURL)
	require.Equal(t, []string{"discord.com"}, oauth.hosts(t))
}

// Discord's documented responses mean a limit with its time, refused credentials and a missing scope.
func TestDiscordErrors(t *testing.T) {
	t.Parallel()
	bot := requests(t, "discord", "bot", nil, []string{"token", "t"})
	v := bot.judge(429, `{"message":"You are being rate limited.","retry_after":64.57,"global":false}`, "Retry-After", "65",
		"X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "64.57")
	require.True(t, v.Limited)
	require.Equal(t, 65*time.Second, v.Wait)
	require.Equal(t, "You are being rate limited.", v.Message)
	require.True(t, bot.judge(401, `{"message":"401: Unauthorized","code":0}`).AuthFailed)
	require.True(t, bot.judge(403, `{"message":"Missing required OAuth2 scope","code":50026}`).ScopeMissing)
	missing := bot.judge(403, `{"message":"Missing Access","code":50001}`)
	require.False(t, missing.ScopeMissing || missing.AuthFailed, "a right in a server is no scope")
}

// An API key, an account and an OAuth app authenticate at Twilio, each with a probe that it may make.
func TestTwilioRequests(t *testing.T) {
	t.Parallel()
	const (
		account = "AC0123456789abcdef0123456789abcdef"
		key     = "SK0123456789abcdef0123456789abcdef"
	)
	whole := requests(t, "twilio", "basic", nil, []string{"username", account, "password", "secret"})
	req, v, found := whole.probe(t, 200, `{"sid":"`+account+`","friendly_name":"My account","status":"active"}`)
	require.Equal(t, "GET https://api.twilio.com/2010-04-01/Accounts/"+account+".json", target(req))
	user, password, _ := req.BasicAuth()
	require.Equal(t, []string{account, "secret"}, []string{user, password})
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: account, Label: "My account"}, found)

	one := requests(t, "twilio", "api_key", []string{"host", "api.dublin.ie1.twilio.com", "account_sid", account},
		[]string{"username", key, "password", "secret"})
	req, _, found = one.probe(t, 200, `{"incoming_phone_numbers":[{"account_sid":"`+account+`"}]}`)
	require.Equal(t, "GET https://api.dublin.ie1.twilio.com/2010-04-01/Accounts/"+account+
		"/IncomingPhoneNumbers.json?PageSize=1", target(req))
	require.Equal(t, account, found.ID)
	require.Equal(t, []string{"api.dublin.ie1.twilio.com"}, one.hosts(t))

	app := requests(t, "twilio", "oauth2_client_credentials", []string{"account_sid", account},
		[]string{"client_id", "OQ1", "client_secret", "s", "access_token", "t"})
	require.Equal(t, []string{"api.twilio.com", "oauth.twilio.com"}, app.hosts(t))
	require.Equal(t, []string{"T", "", "1h0m0s", ""}, app.token(t, `{"access_token":"T","id_token":null,"token_type":"Bearer",
		"expires_in":3600,"refresh_token":null}`))

	require.True(t, whole.judge(401, `{"code":20003,"message":"Authenticate","status":401}`).AuthFailed)
	limited := whole.judge(429, `{"code":20429,"message":"Too Many Requests","status":429}`)
	require.True(t, limited.Limited && limited.Retryable)
	require.Equal(t, "Too Many Requests", limited.Message)
}

// A SID in the place of another kind is refused, and a host outside of Twilio's regions too.
func TestTwilioFields(t *testing.T) {
	t.Parallel()
	r := requests(t, "twilio", "basic", nil, []string{"username", "AC0123456789abcdef0123456789abcdef", "password", "s"})
	swapped := r.values.Credentials
	swapped["username"] = "SK0123456789abcdef0123456789abcdef"
	require.Len(t, r.mode.CheckCredentials(swapped), 1)
	key, _ := r.engine.Mode("api_key")
	swapped["username"] = "AC0123456789abcdef0123456789abcdef"
	require.Len(t, key.CheckCredentials(swapped), 1)
	_, problems := r.engine.ResolveConfig("basic", map[string]string{"host": "api.evil.example"})
	require.Len(t, problems, 1)
	require.Equal(t, "connection_config.host", problems[0].Field)
}
