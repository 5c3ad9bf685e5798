package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

const asanaSecret = "b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81"

// A delivery made by Asana's documentation ("Receiving events": the HMAC-SHA256 of the body in hexadecimal,
// computed with openssl dgst) verifies, and is described by the kinds of all its events.
func TestAsana(t *testing.T) {
	t.Parallel()
	const (
		signature = "32579d412185ff60e0b750d20def235c7877db2d419ad73cfaac629230461c38"
		body      = `{"events":[{"user":{"gid":"12345","resource_type":"user"},"created_at":"2013-08-21T18:20:37.972Z","action":"changed",` +
			`"resource":{"gid":"1337","resource_type":"task"},"parent":null,"change":{"field":"assignee","action":"changed",` +
			`"new_value":{"gid":"12345","resource_type":"user"}}},{"user":{"gid":"12345","resource_type":"user"},` +
			`"created_at":"2013-08-21T18:22:45.421Z","action":"added","resource":{"gid":"1338","resource_type":"story"},` +
			`"parent":{"gid":"1337","resource_type":"task"}}]}`
	)
	r := deliver(time.Unix(1772600767, 0), body, "X-Hook-Signature", signature)
	vector{
		slug: "asana", secret: asanaSecret, request: r, at: "header:X-Hook-Signature", text: signature, encoding: "hex",
		signed: []string{"body"},
	}.check(t)
	v := connect(t, "asana", nil, asanaSecret)
	requireNoHandshake(t, v, at(r, "POST", ""))
	require.Equal(t, verification.Event{
		Type: "task.changed", TypeSigned: true, Types: []string{"task.changed", "story.added"},
		OccurredAt: time.Date(2013, 8, 21, 18, 20, 37, 972_000_000, time.UTC),
	}, describe(t, v, r))
	require.Equal(t, []string{"deleted"},
		describe(t, v, deliver(r.Now, `{"events":[{"action":"deleted","resource":null}]}`)).Types)
	require.Equal(t, []string{"x-hook-secret", "x-hook-signature"}, v.RedactHeaders())
}

// Asana's heartbeat, an empty list that is signed like any other, is marked and not forwarded.
func TestAsanaHeartbeat(t *testing.T) {
	t.Parallel()
	v := connect(t, "asana", nil, asanaSecret)
	r := deliver(time.Time{}, `{"events":[]}`, "X-Hook-Signature",
		"10468027b67df18c739cc4794c6fc2d2806dcaaf2259fc3e1ed9d26433659853")
	requireProved(t, v, r, "hmac", "0")
	require.Equal(t, verification.Event{Type: "unknown", TypeSigned: true, Control: true}, describe(t, v, r))
	require.False(t, describe(t, v, deliver(time.Time{}, `{"events":[{"action":"added"}]}`)).Control)
}

// Asana's handshake hands its secret over and gets it back in the same header; a header that is no single
// value is not echoed, and a handshake is no delivery.
func TestAsanaHandshake(t *testing.T) {
	t.Parallel()
	v := connect(t, "asana", nil)
	r := at(deliver(time.Time{}, "{}", "X-Hook-Secret", asanaSecret), "POST", "")
	answer := requireHandshakeText(t, v, r, 200, "", "")
	require.Equal(t, asanaSecret, answer.Header.Get("X-Hook-Secret"))
	require.Equal(t, asanaSecret, answer.Capture.Value.Reveal())
	require.False(t, answer.Capture.Confirm)
	for _, value := range []string{"a\tb", "a\x7fb", "ä"} {
		requireHandshakeRefused(t, v, at(deliver(time.Time{}, "", "X-Hook-Secret", value), "POST", ""),
			verification.ReasonHandshakeMalformed)
	}
	requireNoHandshake(t, v, at(deliver(time.Time{}, ""), "POST", ""))
	requireNoHandshake(t, v, at(deliver(time.Time{}, "", "X-Hook-Secret", ""), "POST", ""))
	requireNoHandshake(t, v, at(deliver(time.Time{}, "", "X-Hook-Secret", "a", "X-Hook-Secret", "b"), "POST", ""))
	requireNoHandshake(t, v, at(deliver(time.Time{}, "", "X-Hook-Secret", asanaSecret), "GET", ""))
	requireReason(t, connect(t, "asana", nil, asanaSecret), r, verification.ReasonSignatureMissing)
}
