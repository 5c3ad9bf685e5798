package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/verification"
)

// cloudflareSecret is what an operator has chosen, and cloudflareBody the example of the page "Webhook payload schema",
// with its data shortened.
const (
	cloudflareSecret = "a secret of the webhook in Cloudflare"
	cloudflareBody   = `{"account_id":"9035f53656c247e895c5a6939ae8a0e0","alert_correlation_id":"000eaa907ed24e78946d3a93adb2ae57",` +
		`"alert_event":"ALERT_STATE_EVENT_START","alert_type":"health_check_status_notification",` +
		`"data":{"health_check_name":"string","reason":"string"},"name":"Example Cloudflare Notification",` +
		`"policy_id":"749b911ea5d04344a58e45edd099b328","policy_name":"Example Cloudflare Notification",` +
		`"text":"The description of my Cloudflare notification.","ts":1136214245}`
)

// Cloudflare sends the secret in a header of every request and signs nothing. The type of an alert and its time are in
// the body; the test message has neither.
func TestCloudflareWebhook(t *testing.T) {
	t.Parallel()
	r := deliver(time.Unix(1136214250, 0), cloudflareBody, "cf-webhook-auth", cloudflareSecret)
	vector{
		slug: "cloudflare", secret: cloudflareSecret, scheme: "token", request: r, at: "header:cf-webhook-auth",
		text: cloudflareSecret, outside: []string{"body"},
	}.check(t)
	v := connect(t, "cloudflare", nil, cloudflareSecret)
	require.Equal(t, []string{"cf-webhook-auth"}, v.RedactHeaders())
	event := describe(t, v, r)
	require.Equal(t, "health_check_status_notification", event.Type)
	require.Empty(t, event.ID, "what correlates alerts is no id of a webhook")
	require.Equal(t, time.Unix(1136214245, 0).UTC(), event.OccurredAt.UTC())
	const test = `{"text":"Hello World! This is a test message sent from https://cloudflare.com. If you can see this, your webhook is ` +
		`configured properly."}`
	r = deliver(time.Unix(1136214250, 0), test, "cf-webhook-auth", cloudflareSecret)
	requireProved(t, v, r, "token", "0")
	require.Equal(t, "unknown", describe(t, v, r).Type)
	requireReason(t, v, deliver(time.Time{}, test), verification.ReasonSignatureMissing)
}

// A user's token, an account's and the global key go to Cloudflare's one host, each with a probe that it may make. The
// responses are those of Cloudflare's pages.
func TestCloudflareRequests(t *testing.T) {
	t.Parallel()
	const (
		account  = "023e105f4ecef8ad9ca31a8372d0c353"
		verified = `{"result":{"id":"100bf38cc8393103870917dd535e0628","status":"active"},"success":true,"errors":[],
			"messages":[{"code":10000,"message":"This API Token is valid and active","type":null}]}`
	)
	user := requests(t, "cloudflare", "token", nil, []string{"token", "YQSn-xWAQiiEh9qM58wZNnyQS7FUdoqGIUAbrh7T"})
	req, v, found := user.probe(t, 200, verified)
	require.Equal(t, "GET https://api.cloudflare.com/client/v4/user/tokens/verify", target(req))
	require.Equal(t, "Bearer YQSn-xWAQiiEh9qM58wZNnyQS7FUdoqGIUAbrh7T", req.Header.Get("Authorization"))
	require.True(t, v.OK)
	require.Empty(t, found, "the id is that of the token")
	require.Equal(t, []string{"api.cloudflare.com"}, user.hosts(t))

	owned := requests(t, "cloudflare", "account_token", []string{"account_id", account}, []string{"token", "t"})
	req, v, found = owned.probe(t, 200, verified)
	require.Equal(t, "GET https://api.cloudflare.com/client/v4/accounts/"+account+"/tokens/verify", target(req))
	require.True(t, v.OK)
	require.Equal(t, account, found.ID)
	_, problems := owned.engine.ResolveConfig("account_token", nil)
	require.Len(t, problems, 1)

	key := requests(t, "cloudflare", "global_key", nil, []string{"username", "user@example.com", "password", "k"})
	req, v, found = key.probe(t, 200, `{"result":{"id":"023e105f4ecef8ad9ca31a8372d0c353","email":"user@example.com"},"success":true}`)
	require.Equal(t, "GET https://api.cloudflare.com/client/v4/user", target(req))
	require.Equal(t, []string{"user@example.com", "k", ""}, []string{req.Header.Get("X-Auth-Email"), req.Header.Get("X-Auth-Key"),
		req.Header.Get("Authorization")})
	require.True(t, v.OK)
	require.Equal(t, outbound.Account{ID: "023e105f4ecef8ad9ca31a8372d0c353", Label: "user@example.com"}, found)
}

// An envelope with an error is a failure with any status; a value of Workers KV has no envelope.
func TestCloudflareErrors(t *testing.T) {
	t.Parallel()
	r := requests(t, "cloudflare", "token", nil, []string{"token", "t"})
	require.True(t, r.judge(200, `{"result":[],"success":true,"errors":[],"messages":[]}`).OK)
	require.True(t, r.judge(200, `a value`).OK)
	failed := r.judge(200, `{"result":null,"success":false,"errors":[{"code":1003,"message":"Invalid zone identifier"}]}`)
	require.False(t, failed.OK)
	require.Equal(t, "Invalid zone identifier", failed.Message)
	require.True(t, r.judge(401, `{"success":false,"errors":[{"code":1000,"message":"Invalid API Token"}]}`).AuthFailed)
	limited := r.judge(429, `{"success":false,"errors":[{"code":971,"message":"Please wait"}]}`, "retry-after", "120")
	require.True(t, limited.Limited && limited.Retryable)
	require.Equal(t, 2*time.Minute, limited.Wait)
}
