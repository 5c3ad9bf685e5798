package registry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// Signatures and hash were made by getExpectedTwilioSignature(token, url, params) and getExpectedBodyHash(body) of the
// npm package twilio
// 6.2.0; params are the fields of the forms, those that stand twice as an array.
const (
	twilioToken         = "0123456789abcdef0123456789abcdef"
	twilioCall          = "Digits=1234&CallSid=CA1234567890ABCDE&To=%2B18005551212&Caller=%2B14158675309&From=%2B14158675309&CallStatus=ringing"
	twilioSignature     = "HpnuNJQTzU4zbMhIDk00kIMM4c0="
	twilioPortSignature = "GikHfpS//TiHhI9ieKNoJGHDgls=" // of https://mycompany.com:443/…

	twilioMessage          = "MediaUrl=b&MediaUrl=a&MediaUrl=b&MessageSid=SM1&MessageStatus=delivered&Body=Ahoy%21+%C3%BC+%26+%3D%3F"
	twilioMessageSignature = "/WZ/kmA+QSPaiMKn60Iw3y/cNcM=" // at https://mycompany.com/hook

	twilioJSON = `[{"specversion":"1.0","type":"com.twilio.messaging.message.delivered","source":"/x","id":"EZ1","data":{}},` +
		`{"specversion":"1.0","type":"com.twilio.messaging.message.sent","source":"/x","id":"EZ2","data":{}}]`
	twilioJSONQuery     = "bodySHA256=02d9ae991f2cf8bdb84c731f46b1419c9600c82d7fcdbb94103f333c4c7afe67"
	twilioJSONSignature = "9NoWA77NawGNTfNFeZ0DxWo+5Es="
)

func twilioForm(body, signature string) *verification.Request {
	return deliver(time.Unix(1772600767, 0), body, "X-Twilio-Signature", signature, "Content-Type",
		"application/x-www-form-urlencoded; charset=UTF-8")
}

// Only a webhook that Twilio's library signed verifies, a form with its URL and JSON by its hash.
func TestTwilioVector(t *testing.T) {
	t.Parallel()
	vector{
		slug: "twilio", secret: twilioToken, request: atURL(twilioForm(twilioCall, twilioSignature), "https://mycompany.com",
			"/myapp.php", "foo=1&bar=2"),
		at: "header:X-Twilio-Signature", text: twilioSignature, encoding: "base64", signed: []string{"body", "base", "path",
			"query"},
	}.check(t)
	vector{
		slug: "twilio", secret: twilioToken, request: atURL(deliver(time.Unix(1772600767, 0), twilioJSON,
			"X-Twilio-Signature", twilioJSONSignature, "Content-Type", "application/json"), "https://mycompany.com", "/hook",
			twilioJSONQuery),
		at: "header:X-Twilio-Signature", text: twilioJSONSignature, encoding: "base64", signed: []string{"body", "base",
			"path", "query"},
	}.check(t)
}

// Fields are signed sorted, once each, and decoded; the port may stand in the URL that Twilio signed or not.
func TestTwilioForms(t *testing.T) {
	t.Parallel()
	v := connect(t, "twilio", nil, twilioToken)
	send := func(public, body, signature string) *verification.Request {
		return atURL(twilioForm(body, signature), public, "/hook", "")
	}
	requireProved(t, v, send("https://mycompany.com", twilioMessage, twilioMessageSignature), "hmac", "0")
	requireProved(t, v, send("https://mycompany.com:8443", twilioMessage, twilioMessageSignature), "hmac", "0")
	requireProved(t, v, atURL(twilioForm(twilioCall, twilioPortSignature), "https://mycompany.com", "/myapp.php",
		"foo=1&bar=2"), "hmac", "0")
	requireReason(t, v, send("https://mycompany.com", twilioMessage+"&A=b", twilioMessageSignature),
		verification.ReasonSignatureMismatch)
	requireReason(t, v, send("", twilioMessage, twilioMessageSignature), verification.ReasonURLUnknown)
	based := connectWith(t, "twilio", verification.Settings{URLBase: "https://mycompany.com"}, twilioToken)
	requireProved(t, based, send("https://gateway.example", twilioMessage, twilioMessageSignature), "hmac", "0")
}

// A delivery of JSON cannot be turned into one of a form, nor its hash be left out: the signature covers the
// URL alone.
func TestTwilioJSON(t *testing.T) {
	t.Parallel()
	v := connect(t, "twilio", nil, twilioToken)
	for _, body := range []string{"", "&", "=", "=&=", "CallStatus=completed"} {
		_, refusal := v.Verify(t.Context(), atURL(twilioForm(body, twilioJSONSignature), "https://mycompany.com", "/hook",
			twilioJSONQuery))
		require.NotNil(t, refusal, body)
	}
	r := atURL(deliver(time.Time{}, twilioJSON, "X-Twilio-Signature", twilioJSONSignature), "https://mycompany.com",
		"/hook", "")
	requireReason(t, v, r, verification.ReasonSignatureMismatch)
}

// Webhooks have types by what names them or by their status, streams all types of their events, and Twilio's
// token for repetitions is the id and known not to be signed.
func TestTwilioEvents(t *testing.T) {
	t.Parallel()
	v := connect(t, "twilio", nil, twilioToken)
	for body, want := range map[string]string{
		twilioCall:    "call.ringing",
		twilioMessage: "message.delivered",
		"MessageSid=SM1&SmsStatus=received&Body=CallStatus%3Dx":                "message.received",
		"MessageSid=SM1&SmsStatus=sent&MessageStatus=sent":                     "message.sent",
		"RecordingSid=RE1&RecordingStatus=completed&CallSid=CA1&CallStatus=in": "recording.completed",
		"EventType=task.created&Sid=EV1":                                       "task.created",
		"EventType=onMessageAdded&MessageSid=IM1":                              "onMessageAdded",
		"AccountSid=AC1": "unknown",
	} {
		r := twilioForm(body, "")
		r.Header.Set("I-Twilio-Idempotency-Token", "c1b2")
		requireDescribed(t, v, r, verification.Event{Type: want, TypeSigned: true, ID: "c1b2"})
	}
	stream := describe(t, v, deliver(time.Time{}, twilioJSON))
	require.Equal(t, []string{"com.twilio.messaging.message.delivered", "com.twilio.messaging.message.sent"}, stream.Types)
	require.Equal(t, "json:/*/id", stream.IDSource)
	require.True(t, stream.TypeSigned && stream.IDSigned)
	require.Equal(t, "<Response/>", string(v.Ack().Body))
	require.Equal(t, "text/xml", v.Ack().Header.Get("Content-Type"),
		"Twilio takes other answers to messages and calls for errors")
	require.Equal(t, []string{"x-twilio-signature"}, v.RedactHeaders())
}
