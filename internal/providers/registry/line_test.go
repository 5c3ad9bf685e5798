package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The webhooks that validateSignature of the npm package @line/bot-sdk 11.0.0 accepts, and refuses with a space behind
// their bodies.
const (
	lineSecret    = "8c570fa6dd201bb328f1c1eac23a96d8"
	lineSignature = "Fopz83gGRadwGDDAuKx5/ASmoW0ZJNRwC7VQUMp0bRw="
	lineBody      = `{"destination":"Uaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","events":[{"type":"message","message":{"type":"text","id":"14353798921116",` +
		`"text":"Hello, world"},"timestamp":1625665242211,"source":{"type":"user","userId":"Uaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},` +
		`"replyToken":"757913772c4646b784d4b7ce46d12671","mode":"active","webhookEventId":"01FZ74A0TDDPYRVKNK77XKC3ZR",` +
		`"deliveryContext":{"isRedelivery":false}},{"type":"follow","timestamp":1625665242214,"source":{"type":"user",` +
		`"userId":"Ubbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"},"replyToken":"bb173f4d9cf64aed9d408ab4e36339ad","mode":"active",` +
		`"webhookEventId":"01FZ74ASS536FW97EX38NKCZQK","deliveryContext":{"isRedelivery":false}}]}`
	lineVerifyBody = `{"destination":"U8e742f61d673b39c7fff3cecb7536ef0","events":[]}`
)

// The webhooks that LINE's SDK accepts verify.
func TestLINEVectors(t *testing.T) {
	t.Parallel()
	for body, signature := range map[string]string{lineBody: lineSignature,
		lineVerifyBody: "GhRKmvmHys4Pi8DxkF4+EayaH0OqtJtaZxgTD9fMDLs="} {
		vector{
			slug: "line", secret: lineSecret, request: deliver(time.Unix(1772600767, 0), body, "x-line-signature", signature),
			at: "header:x-line-signature", text: signature, encoding: "base64", signed: []string{"body"},
		}.check(t)
	}
}

// Each event of a webhook has its type and its id, which stays the same when LINE sends it again. A webhook without
// events is a check of the URL.
func TestLINEEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "line", nil, lineSecret)
	event := describe(t, v, deliver(time.Time{}, lineBody))
	requireDescribed(t, v, deliver(time.Time{}, lineBody), verification.Event{Type: "message", TypeSigned: true,
		Types: []string{"message", "follow"}, ID: event.ID, IDSigned: true, OccurredAt: time.UnixMilli(1625665242211).UTC()})
	again := strings.ReplaceAll(lineBody, `"isRedelivery":false`, `"isRedelivery":true`)
	require.Equal(t, event.ID, describe(t, v, deliver(time.Time{}, again)).ID)
	other := strings.Replace(lineBody, "01FZ74ASS536FW97EX38NKCZQK", "01FZ74ASS536FW97EX38NKCZQL", 1)
	require.NotEqual(t, event.ID, describe(t, v, deliver(time.Time{}, other)).ID)
	require.True(t, describe(t, v, deliver(time.Time{}, lineVerifyBody)).Control)
}
