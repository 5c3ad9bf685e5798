package registry_test

import (
	"testing"
	"time"

	"sallyport/internal/providers/verification"
)

// The webhook in webhook_verifier_test.go of Paddle's Go SDK v4.1.0.
const (
	paddleSecret    = "pdl_ntfset_01hsdn8d43dt7mezr1ef2jtbaw_hKkRiCGyyRhbFwIUuqiTBgI7gnWoV0Gr"
	paddleSignature = "6c05ef8fa83c44d751be6d259ec955ce5638e2c54095bf128e408e2fce1589c8"
	paddleBody      = `{"data":{"id":"pri_01hsdn96k2hxjzsq5yerecdj9j","name":null,"status":"active","quantity":{"maximum":999999,"minimum":1},` +
		`"tax_mode":"account_setting","product_id":"pro_01hsdn8qp7yydry3x1yeg6a9rv","unit_price":{"amount":"1000","currency_code":"USD"},` +
		`"custom_data":null,"description":"testing","import_meta":null,"trial_period":null,"billing_cycle":{"interval":"month","frequency":1},` +
		`"unit_price_overrides":[]},"event_id":"evt_01hsdn97563968dy0szkmgjwh3","event_type":"price.created",` +
		`"occurred_at":"2024-03-20T10:07:35.590857Z","notification_id":"ntf_01hsdn977e920kbgzt6r6c9rqc"}`
)

// The webhook in the tests of Paddle's Go SDK verifies for as long as the connection allows, five seconds by default as
// in the SDKs.
func TestPaddleVector(t *testing.T) {
	t.Parallel()
	r := deliver(time.Unix(1710929255, 0), paddleBody, "Paddle-Signature", "ts=1710929255;h1="+paddleSignature)
	for tolerance, maxAge := range map[string]time.Duration{"": 5 * time.Second, "300": 5 * time.Minute} {
		settings := verification.Settings{Params: map[string]string{}}
		if tolerance != "" {
			settings.Params["tolerance_s"] = tolerance
		}
		vector{
			slug: "paddle", settings: settings, secret: paddleSecret, request: r, at: "header:Paddle-Signature", label: "h1=",
			text: paddleSignature, encoding: "hex", pairSep: ";", signed: []string{"body", "sig:ts"}, timestamp: "sig:ts",
			maxAge: maxAge,
		}.check(t)
	}
	requireDescribed(t, connect(t, "paddle", nil, paddleSecret), r, verification.Event{
		Type: "price.created", TypeSigned: true, ID: "evt_01hsdn97563968dy0szkmgjwh3", IDSigned: true,
		OccurredAt: time.Date(2024, 3, 20, 10, 7, 35, 590_857_000, time.UTC),
	})
}

// While a secret key is replaced a webhook has several signatures, of which one is enough, as in the test "Valid
// signature with multiple hashes" of Paddle's Node.js SDK 3.10.0. Other versions count for nothing.
func TestPaddleSeveralSignatures(t *testing.T) {
	t.Parallel()
	const signature = "28981e941fae76e53db32f3d2a83cb69db41476595e84e1970a1b5d98f62b261"
	v := connect(t, "paddle", nil, "VALID_SECRET")
	send := func(header string) *verification.Request {
		return deliver(time.Unix(1698796800, 0), `{"data": "value"}`, "Paddle-Signature", header)
	}
	for _, header := range []string{
		"ts=1698796800;h1=" + signature + ";h1=" + signature + ";h2=RANDOM_HASH",
		"ts=1698796800;h1=" + paddleSignature + ";h1=" + signature, "h1=" + signature + ";ts=1698796800",
	} {
		requireProved(t, v, send(header), "hmac", "0")
	}
	for header, want := range map[string]verification.Reason{
		"ts=1698796800;h2=" + signature: verification.ReasonSignatureMalformed,
		"ts=1698796800,h1=" + signature: verification.ReasonSignatureMalformed,
		"ts=9876;h1=" + signature:       verification.ReasonTimestampMalformed,
		"h1=" + signature:               verification.ReasonTimestampMissing,
		"ts=1698796801;h1=" + signature: verification.ReasonSignatureMismatch,
	} {
		requireReason(t, v, send(header), want)
	}
}
