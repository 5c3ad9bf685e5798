package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The webhook that webhooks.constructEvent of the npm package @elevenlabs/elevenlabs-js 2.73.0 accepts for 1,800
// seconds. The SDK refuses it with a space behind the body, with another time in its header, and a second later.
const (
	elevenLabsSecret    = "wsec_9b1c2d3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccddeeff0"
	elevenLabsSignature = "75bffeb2abc7a2341450a1dc304a87ca3932d69ff8c33d499a31c33ecc399109"
	elevenLabsBody      = `{"type":"post_call_transcription","event_timestamp":1739537297,"data":{"agent_id":"xyz","conversation_id":"abc",` +
		`"status":"done","transcript":[]}}`
)

// The webhook that ElevenLabs' SDK accepts verifies for half an hour, and time and body are signed.
func TestElevenLabsVector(t *testing.T) {
	t.Parallel()
	r := deliver(time.Unix(1772600767, 0), elevenLabsBody, "ElevenLabs-Signature", "t=1772600767,v0="+elevenLabsSignature)
	vector{
		slug: "elevenlabs", secret: elevenLabsSecret, request: r, at: "header:ElevenLabs-Signature", label: "v0=",
		text: elevenLabsSignature, encoding: "hex", signed: []string{"body", "sig:t"}, timestamp: "sig:t",
		maxAge: 30 * time.Minute,
	}.check(t)
	v := connect(t, "elevenlabs", nil, elevenLabsSecret)
	requireReason(t, v, deliver(r.Now, elevenLabsBody, "ElevenLabs-Signature", "t=1772600767,v1="+elevenLabsSignature),
		verification.ReasonSignatureMalformed)
}

// A webhook about a conversation has the id of the conversation, with its type and time; others have none.
func TestElevenLabsEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "elevenlabs", nil, elevenLabsSecret)
	at := time.Unix(1739537297, 0).UTC()
	one := describe(t, v, deliver(time.Time{}, elevenLabsBody))
	requireDescribed(t, v, deliver(time.Time{}, elevenLabsBody), verification.Event{Type: "post_call_transcription",
		TypeSigned: true, ID: one.ID, IDSigned: true, OccurredAt: at})
	for _, other := range []string{
		`{"type":"post_call_audio","event_timestamp":1739537297,"data":{"conversation_id":"abc"}}`,
		`{"type":"post_call_transcription","event_timestamp":1739537298,"data":{"conversation_id":"abc"}}`,
		`{"type":"post_call_transcription","event_timestamp":1739537297,"data":{"conversation_id":"abd"}}`,
	} {
		require.NotContains(t, []string{one.ID, ""}, describe(t, v, deliver(time.Time{}, other)).ID)
	}
	requireDescribed(t, v, deliver(time.Time{}, `{"type":"voice_removed","event_timestamp":1739537297,"data":{}}`),
		verification.Event{Type: "voice_removed", TypeSigned: true, OccurredAt: at})
}
