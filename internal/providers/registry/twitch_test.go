package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// Requests that Twitch's own CLI sent (twitch-cli, commit fd7dac6): event trigger subscribe, event verify-subscription
// subscribe, and event trigger subscribe --revocation authorization_revoked, each with this secret.
const (
	twitchSecret = "s3cRe7s3cRe7"
	twitchEvent  = `{"subscription":{"id":"f5f0791f-8c70-7012-29c2-13d104319dfd","status":"enabled","type":"channel.subscribe","version":"1",` +
		`"condition":{"broadcaster_user_id":"10027516"},"transport":{"method":"webhook","callback":"null"},` +
		`"created_at":"2026-11-28T07:35:00.294275978Z","cost":0},"event":{"user_id":"40455615","user_login":"testFromUser",` +
		`"user_name":"testFromUser","broadcaster_user_id":"10027516","broadcaster_user_login":"testBroadcaster",` +
		`"broadcaster_user_name":"testBroadcaster","tier":"1000","is_gift":false}}`
	twitchEventSignature = "d6c8a4e1580b82257fbf408ed75f1f26302f2bcdbfee6a73f0623054f89b48de"
	twitchChallenge      = `{"challenge":"ee607d47-329a-5906-7aef-e40abb25dd27","subscription":{"id":"1105894a-1ca7-5fec-4944-45eceb18f213",` +
		`"status":"webhook_callback_verification_pending","type":"channel.subscribe","version":"1","condition":` +
		`{"broadcaster_user_id":"26904851"},"transport":{"method":"webhook","callback":"http://127.0.0.1:18765/hook"},` +
		`"created_at":"2026-11-28T07:35:00.311615004Z","cost":0}}`
	twitchRevocation = `{"subscription":{"condition":{"broadcaster_user_id":"39917111"},"cost":0,"created_at":"2026-11-28T07:35:00.321659478Z",` +
		`"id":"ed72b962-a7c5-0090-25a0-dbcc2fa09de3","status":"authorization_revoked","transport":{"callback":"null","method":"webhook"},` +
		`"type":"channel.subscribe","version":"1"}}`
)

func twitchDelivery(t *testing.T, kind, body, id, at, signature string) *verification.Request {
	t.Helper()
	now, err := time.Parse(time.RFC3339Nano, at)
	require.NoError(t, err)
	return deliver(now, body, "Twitch-Eventsub-Message-Id", id, "Twitch-Eventsub-Message-Retry", "0",
		"Twitch-Eventsub-Message-Signature", "sha256="+signature, "Twitch-Eventsub-Message-Timestamp", at,
		"Twitch-Eventsub-Message-Type", kind, "Twitch-Eventsub-Subscription-Type", "channel.subscribe")
}

func twitchNotification(t *testing.T) *verification.Request {
	t.Helper()
	return twitchDelivery(t, "notification", twitchEvent, "99f423b7-1b18-e340-4156-c6e248b1e91c",
		"2026-11-28T07:35:00.294275978Z", twitchEventSignature)
}

// A notification of Twitch's CLI verifies for ten minutes. Its id, time and body are signed, and its other headers are
// not.
func TestTwitchVector(t *testing.T) {
	t.Parallel()
	vector{
		slug: "twitch", secret: twitchSecret, request: twitchNotification(t), at: "header:Twitch-Eventsub-Message-Signature",
		label: "sha256=", text: twitchEventSignature, encoding: "hex",
		signed:    []string{"body", "header:Twitch-Eventsub-Message-Id", "header:Twitch-Eventsub-Message-Timestamp"},
		outside:   []string{"header:Twitch-Eventsub-Message-Type", "header:Twitch-Eventsub-Subscription-Type"},
		timestamp: "header:Twitch-Eventsub-Message-Timestamp", maxAge: 10 * time.Minute, maxSkew: 10 * time.Minute,
	}.check(t)
	v := connect(t, "twitch", nil, twitchSecret)
	requireDescribed(t, v, twitchNotification(t), verification.Event{
		Type: "channel.subscribe", TypeSigned: true, ID: "99f423b7-1b18-e340-4156-c6e248b1e91c", IDSigned: true,
		OccurredAt: time.Date(2026, 11, 28, 7, 35, 0, 294_275_978, time.UTC),
	})
	require.Equal(t, []string{"twitch-eventsub-message-signature"}, v.RedactHeaders())
}

// The id's last bytes cannot become the first of the time, nor can the time's become the body's.
func TestTwitchBorders(t *testing.T) {
	t.Parallel()
	v := connect(t, "twitch", nil, twitchSecret)
	for _, c := range []struct{ id, at, body string }{
		{"99f423b7-1b18-e340-4156-c6e248b1e91", "c2026-11-28T07:35:00.294275978Z", twitchEvent},
		{"99f423b7-1b18-e340-4156-c6e248b1e91c2", "026-11-28T07:35:00.294275978Z", twitchEvent},
		{"99f423b7-1b18-e340-4156-c6e248b1e91c", "2026-11-28T07:35:00.294275978", "Z" + twitchEvent},
		{"99f423b7-1b18-e340-4156-c6e248b1e91c", "2026-11-28T07:35:00.294275978Z{", twitchEvent[1:]},
	} {
		r := twitchNotification(t)
		r.Header.Set("Twitch-Eventsub-Message-Id", c.id)
		r.Header.Set("Twitch-Eventsub-Message-Timestamp", c.at)
		r.Body = []byte(c.body)
		requireReason(t, v, r, verification.ReasonTimestampMalformed)
	}
}

// The challenge gets its text back, if Twitch signed it with the connection's secret; and its response verifies as
// nothing.
func TestTwitchHandshake(t *testing.T) {
	t.Parallel()
	const at, signature = "2026-11-28T07:35:00.311460826Z", "457ca61402d90f51fbba07de68a2350f3b17f5b54e6df6e73cca43f6320b5eb3"
	challenge := func() *verification.Request {
		return twitchDelivery(t, "webhook_callback_verification", twitchChallenge, "db22f3a6-a7c5-2701-c8f6-3c73c65161ad", at,
			signature)
	}
	v := connect(t, "twitch", nil, twitchSecret)
	requireHandshakeText(t, v, challenge(), 200, "text/plain; charset=utf-8", "ee607d47-329a-5906-7aef-e40abb25dd27")
	changed := challenge()
	changed.Body = []byte(twitchChallenge[:15] + "f" + twitchChallenge[16:])
	requireHandshakeRefused(t, v, changed, verification.ReasonSignatureMismatch)
	stale := challenge()
	stale.Now = stale.Now.Add(601 * time.Second)
	requireHandshakeRefused(t, v, stale, verification.ReasonTimestampOutOfRange)
	requireHandshakeRefused(t, connect(t, "twitch", nil, "another secret"), challenge(), verification.ReasonSignatureMismatch)
	requireNoHandshake(t, v, twitchNotification(t))
	// Under the header of a challenge an event has no challenge to respond with.
	event := twitchNotification(t)
	event.Header.Set("Twitch-Eventsub-Message-Type", "webhook_callback_verification")
	requireHandshakeRefused(t, v, event, verification.ReasonHandshakeMalformed)
}

// A revocation is proved as events are, and marked as a control message.
func TestTwitchRevocation(t *testing.T) {
	t.Parallel()
	v := connect(t, "twitch", nil, twitchSecret)
	r := twitchDelivery(t, "revocation", twitchRevocation, "0f0a88d5-0197-6293-08a9-a0c6f26767a5",
		"2026-11-28T07:35:00.321659478Z", "856c8f58e771f77f089249b270a7cf4f31502eeaa6bb9446d1844d70b967abaa")
	requireProved(t, v, r, "hmac", "0")
	event := describe(t, v, r)
	require.True(t, event.Control)
	require.Equal(t, "channel.subscribe", event.Type)
	require.False(t, describe(t, v, twitchNotification(t)).Control)
}
