package registry_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

const (
	zendeskSecret = "dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ==" // the documented key of tests; its text is the key
	zendeskTime   = "2021-03-25T05:09:27Z"
	zendeskBody   = `{"account_id":22129848,"detail":{"id":"158488612"},"event":{},"id":"8d4e0ac2-fa9a-4a4e-8e20-8bbc8a2d8a3c","subject":"zen:ticket:158488612",` +
		`"time":"2022-06-30T04:11:18.456789123Z","type":"zen:event-type:ticket.created","zendesk_event_version":"2022-06-20"}`
)

func zendeskSignature(body string) string {
	h := hmac.New(sha256.New, []byte(zendeskSecret))
	h.Write([]byte(zendeskTime + body))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func zendeskDelivery(body string) *verification.Request {
	return deliver(time.Date(2021, 3, 25, 5, 9, 27, 0, time.UTC), body, "X-Zendesk-Webhook-Signature",
		zendeskSignature(body), "X-Zendesk-Webhook-Signature-Timestamp", zendeskTime, "X-Zendesk-Webhook-Invocation-Id",
		"8350205582")
}

// A request that is signed as Zendesk documents it verifies, and nothing else does.
func TestZendeskSignature(t *testing.T) {
	t.Parallel()
	vector{
		slug: "zendesk", secret: zendeskSecret, request: zendeskDelivery(zendeskBody),
		at: "header:X-Zendesk-Webhook-Signature", text: zendeskSignature(zendeskBody), encoding: "base64",
		signed:    []string{"body", "header:X-Zendesk-Webhook-Signature-Timestamp"},
		outside:   []string{"header:X-Zendesk-Webhook-Invocation-Id"},
		timestamp: "header:X-Zendesk-Webhook-Signature-Timestamp",
	}.check(t)
	// Nothing stands between timestamp and body, so digits must not move from one to the other.
	moved := zendeskDelivery("5" + zendeskBody)
	moved.Header.Set("X-Zendesk-Webhook-Signature-Timestamp", zendeskTime[:len(zendeskTime)-1])
	requireReason(t, connect(t, "zendesk", nil, zendeskSecret), moved, verification.ReasonTimestampMalformed)
}

// An event has the type, id and time that Zendesk names. A body that people write for a trigger has no id,
// even in a field of that name: two requests about one ticket are two events, also where they say the same, by the id
// of the invocation.
func TestZendeskEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "zendesk", nil, zendeskSecret)
	requireDescribed(t, v, zendeskDelivery(zendeskBody), verification.Event{
		Type: "zen:event-type:ticket.created", TypeSigned: true, ID: "8d4e0ac2-fa9a-4a4e-8e20-8bbc8a2d8a3c 2022-06-20",
		IDSigned: true, OccurredAt: time.Date(2022, 6, 30, 4, 11, 18, 456_789_123, time.UTC),
	})
	requireDescribed(t, v, zendeskDelivery(`{"id":"158488612","status":"open"}`), verification.Event{Type: "unknown",
		TypeSigned: true, ID: "8350205582"})
	require.Equal(t, []string{"x-zendesk-webhook-signature"}, v.RedactHeaders())
}
