package registry_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/verification"
)

// The signature was computed by validateSignature of X's Autohook 1.7.2, whose createHmac calls were read out and which
// then accepted it, and the token by its validateWebhook.
const (
	xSecret    = "T1kXcOnSuMeRsEcReT0123456789abcdef"
	xSignature = "8zQ0KDeftsNB8MYaBdEflYmoBaUeoT+TrooH1DHcfI0="
	xBody      = `{"for_user_id":"2244994945","tweet_create_events":[{"created_at":"Wed Mar 04 05:06:07 +0000 2026","id_str":"1","text":"caf\u00e9"}]}`
	xChallenge = "MTcwMDAwMDAwMC1jcmM_-"
	xAnswer    = `{"response_token":"sha256=SkJfygmdMmgIG7Q6zDHPqbMqfTT3pfqlShWbc2zGkfU="}`
)

func xDelivery(body, signature string) *verification.Request {
	return deliver(time.Unix(1772600767, 0), body, "X-Twitter-Webhooks-Signature", "sha256="+signature)
}

// Only a webhook that X's library signed verifies.
func TestXVector(t *testing.T) {
	t.Parallel()
	vector{
		slug: "x", secret: xSecret, request: xDelivery(xBody, xSignature), at: "header:X-Twitter-Webhooks-Signature",
		label: "sha256=", text: xSignature, encoding: "base64", signed: []string{"body"},
	}.check(t)
	require.Equal(t, []string{"x-twitter-webhooks-signature"}, connect(t, "x", nil, xSecret).RedactHeaders())
}

// Events have the types by which X names them, in the body or as its member, and X Activity's their ids.
func TestXEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "x", nil, xSecret)
	for body, want := range map[string]string{
		xBody: "tweet_create_events",
		`{"for_user_id":"1","direct_message_events":[{}],"apps":{},"users":{}}`: "direct_message_events",
		`{"user_event":{"revoke":{"source":{"user_id":"1"}}}}`:                  "user_event",
		`{"for_user_id":"1","something_new":[]}`:                                "unknown",
		`{"data":{"id":"1","text":"t"},"matching_rules":[]}`:                    "unknown",
	} {
		requireDescribed(t, v, xDelivery(body, ""), verification.Event{Type: want, TypeSigned: true})
	}
	requireDescribed(t, v, xDelivery(
		`{"data":{"event_uuid":"2a7b","filter":{"user_id":"1"},"event_type":"profile.update.bio","payload":{}}}`, ""),
		verification.Event{Type: "profile.update.bio", TypeSigned: true, ID: "2a7b", IDSigned: true})
}

// The response to X's challenge is that of its library, with the newest secret, and only a token gets one.
func TestXChallenge(t *testing.T) {
	t.Parallel()
	v := connect(t, "x", nil, "an older consumer secret", xSecret)
	get := func(query string) *verification.Request { return at(deliver(time.Time{}, ""), "GET", query) }
	requireHandshakeText(t, v, get("crc_token="+xChallenge+"&nonce=1"), 200, "application/json", xAnswer)
	for _, token := range []string{url.QueryEscape(xBody), "a+b", "a%20b", "%7B%7D", "a=b", strings.Repeat("a", 129)} {
		requireHandshakeRefused(t, v, get("crc_token="+token), verification.ReasonHandshakeMalformed)
	}
	requireNoHandshake(t, v, get(""))
	requireNoHandshake(t, v, get("crc_token="))
	requireNoHandshake(t, v, get("crc_token=a&crc_token=a"))
	requireNoHandshake(t, v, at(deliver(time.Time{}, "{}"), "POST", "crc_token="+xChallenge))
	requireHandshakeRefused(t, connect(t, "x", nil), get("crc_token="+xChallenge), verification.ReasonSecretMissing)
}

// No response to a challenge is the signature of an event, for any challenge of a stranger.
func TestXResponsesSignNothing(t *testing.T) {
	t.Parallel()
	v := connect(t, "x", nil, xSecret)
	rapid.Check(t, func(rt *rapid.T) {
		token := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_-]{1,128}`), rapid.StringMatching(`[ -~]{1,60}`),
			rapid.Just(xBody), rapid.Just("123")).Draw(rt, "token")
		answer, _ := v.Handshake(t.Context(), at(deliver(time.Time{}, ""), "GET", "crc_token="+url.QueryEscape(token)))
		if answer == nil {
			return
		}
		var told struct {
			Token string `json:"response_token"`
		}
		require.NoError(t, json.Unmarshal(answer.Body, &told))
		_, refusal := v.Verify(t.Context(), xDelivery(token, strings.TrimPrefix(told.Token, "sha256=")))
		require.NotNil(t, refusal)
	})
}
