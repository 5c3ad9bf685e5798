package registry_test

import (
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The example of the page "Verifying requests from Slack" in Slack's documentation.
const (
	slackSecret    = "8f742231b10e8888abcd99yyyzzz85a5"
	slackSignature = "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
	slackCommand   = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA" +
		"&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
		"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)

// slackSigned makes a delivery as the example is made.
func slackSigned(body string) *verification.Request {
	at := time.Unix(1531420618, 0)
	return deliver(at, body, "X-Slack-Request-Timestamp", strconv.FormatInt(at.Unix(), 10),
		"X-Slack-Signature", "v0="+hmacHex(slackSecret, "v0:1531420618:"+body))
}

// The example in Slack's documentation verifies within five minutes either way, and nothing else does.
func TestSlackVector(t *testing.T) {
	t.Parallel()
	vector{
		slug: "slack", secret: slackSecret,
		request: deliver(time.Unix(1531420618, 0), slackCommand, "X-Slack-Request-Timestamp", "1531420618",
			"X-Slack-Signature", "v0="+slackSignature),
		at: "header:X-Slack-Signature", label: "v0=", text: slackSignature, encoding: "hex",
		signed: []string{"body", "header:X-Slack-Request-Timestamp"}, timestamp: "header:X-Slack-Request-Timestamp",
		maxAge: 5 * time.Minute, maxSkew: 5 * time.Minute, bodyDecides: true,
	}.check(t)
}

// Events, interactions and commands have the types that Slack names, and events their id and time.
func TestSlackEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "slack", nil, slackSecret)
	requireDescribed(t, v, slackSigned(
		`{"token":"x","team_id":"T1","event":{"type":"app_mention","event_ts":"1515449522.000016"},"type":"event_callback",`+
			`"event_id":"Ev0PV52K25","event_time":1515449522}`), verification.Event{
		Type: "app_mention", TypeSigned: true, ID: "Ev0PV52K25", IDSigned: true, OccurredAt: time.Unix(1515449522, 0).UTC(),
	})
	for body, want := range map[string]string{
		`{"type":"app_rate_limited","minute_rate_limited":1518467820}`:                                    "app_rate_limited",
		"payload=" + url.QueryEscape(`{"type":"block_actions","trigger_id":"1.2.3","user":{"type":"x"}}`): "block_actions",
		"payload=" + url.QueryEscape(`{"type":"view_submission","view":{"type":"modal"}}`) +
			"&command=%2Fx": "view_submission", slackCommand: "slash_command./webhook-collect",
	} {
		requireDescribed(t, v, slackSigned(body), verification.Event{Type: want, TypeSigned: true})
	}
	require.Equal(t, []string{"x-slack-signature"}, v.RedactHeaders())
	require.Equal(t, 200, v.Ack().Status)
	require.Empty(t, v.Ack().Body, "an answer to a command would be shown in the channel")
}

// Slack's verification token stays in JSON, in a command, and in the JSON inside a form: the signature covers it, so
// that receivers of the raw body can verify that.
func TestSlackKeepsTheBody(t *testing.T) {
	t.Parallel()
	v := connect(t, "slack", nil, slackSecret)
	for _, body := range []string{
		`{"token":"Jhj5","event":{"token":"kept"}}`, "token=Jhj5&command=%2Fweather&text=token%3DJhj5",
		"payload=" + url.QueryEscape(`{"type":"shortcut","token":"Jhj5","a":1}`),
	} {
		require.Equal(t, body, string(v.RedactBody(deliver(time.Time{}, body))))
	}
	require.Equal(t, []string{"x-slack-signature"}, v.SignatureHeaders())
}

// The challenge for the URL gets its response when Slack signed it, and only then.
func TestSlackChallenge(t *testing.T) {
	t.Parallel()
	v := connect(t, "slack", nil, slackSecret)
	const challenge = `{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`
	requireHandshakeText(t, v, slackSigned(challenge), 200, "text/plain; charset=utf-8",
		"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P")

	forged := slackSigned(challenge)
	forged.Body = []byte(`{"type":"url_verification","challenge":"<script>"}`)
	requireHandshakeRefused(t, v, forged, verification.ReasonSignatureMismatch)
	requireHandshakeRefused(t, v, deliver(time.Unix(1531420618, 0), challenge), verification.ReasonSignatureMissing)
	stale := slackSigned(challenge)
	stale.Now = stale.Now.Add(time.Hour)
	requireHandshakeRefused(t, v, stale, verification.ReasonTimestampOutOfRange)
	requireHandshakeRefused(t, v, slackSigned(`{"type":"url_verification"}`), verification.ReasonHandshakeMalformed)
	requireNoHandshake(t, v, slackSigned(`{"type":"event_callback","challenge":"x"}`))
}

// The check of the certificate gets an empty response, though it is not signed, and never becomes an event.
func TestSlackCertificateCheck(t *testing.T) {
	t.Parallel()
	v := connect(t, "slack", nil, slackSecret)
	requireHandshakeText(t, v, deliver(time.Time{}, "ssl_check=1&token=x&payload=%7B%22type%22%3A%22block_actions%22%7D"), 200,
		"", "")
	for _, body := range []string{"ssl_check=0", "ssl_check=1&ssl_check=1", `{"ssl_check":1}`, "text=ssl_check%3D1"} {
		requireNoHandshake(t, v, deliver(time.Time{}, body))
		requireReason(t, v, deliver(time.Time{}, body), verification.ReasonSignatureMissing)
	}
}
