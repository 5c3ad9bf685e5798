package registry_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/verification"
)

// Signatures and token were computed by the npm package @zoom/rivet 0.4.0: an AwsLambdaReceiver with this
// webhooksSecretToken received the body and the timestamp 1772600767, and the results of its createHmac calls were read
// out. With them it returned 200.
const (
	zoomSecret              = "zm_secret_token_1"
	zoomSignature           = "74936864e43e8c22318466c2fd8a1cd4b6b29bef0f75c8ed3106e59b99b67b79"
	zoomBody                = `{"event":"meeting.started","event_ts":1772600766123,"payload":{"account_id":"AbC","object":{"id":"1234567890","uuid":"4444AAAiAAAAAiAiAiiAii=="}}}`
	zoomValidationSignature = "8c8fe8d09cf8bceb793ccc79cd447d1d167fe259e3dcc59c245036586e07dc8b"
	zoomValidation          = `{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1772600766123,"event":"endpoint.url_validation"}`
	zoomEncryptedToken      = "d35c604d2e6e21d3e739f39f038cfe310bff8b6c2f3f7fdee2933e4d2b072ad2"
)

func zoomDelivery(body, signature string) *verification.Request {
	return deliver(time.Unix(1772600767, 0), body, "X-Zm-Request-Timestamp", "1772600767", "X-Zm-Signature", "v0="+
		signature)
}

// Only the signature that Zoom's library computes verifies.
func TestZoomVector(t *testing.T) {
	t.Parallel()
	vector{
		slug: "zoom", secret: zoomSecret, request: zoomDelivery(zoomBody, zoomSignature), at: "header:X-Zm-Signature",
		label: "v0=", text: zoomSignature, encoding: "hex", signed: []string{"body", "header:X-Zm-Request-Timestamp"},
		timestamp: "header:X-Zm-Request-Timestamp",
	}.check(t)
	v := connect(t, "zoom", nil, zoomSecret)
	requireDescribed(t, v, zoomDelivery(zoomBody, ""), verification.Event{Type: "meeting.started", TypeSigned: true,
		OccurredAt: time.UnixMilli(1772600766123).UTC()})
	require.Equal(t, []string{"x-zm-signature"}, v.RedactHeaders())
}

// The response to the validation of the URL is that of Zoom's library, when Zoom signed it, and only for tokens such as
// Zoom's.
func TestZoomValidation(t *testing.T) {
	t.Parallel()
	v := connect(t, "zoom", nil, zoomSecret)
	requireHandshakeText(t, v, zoomDelivery(zoomValidation, zoomValidationSignature), 200, "application/json",
		`{"plainToken":"qgg8vlvZRS6UYooatFL8Aw","encryptedToken":"`+zoomEncryptedToken+`"}`)
	requireHandshakeRefused(t, v, zoomDelivery(strings.Replace(zoomValidation, "qgg8", "qgg9", 1),
		zoomValidationSignature), verification.ReasonSignatureMismatch)
	requireHandshakeRefused(t, v, deliver(time.Unix(1772600767, 0), zoomValidation), verification.ReasonSignatureMissing)
	requireNoHandshake(t, v, zoomDelivery(zoomBody, zoomSignature))
	rotating := connect(t, "zoom", nil, zoomSecret, "zm_secret_token_2")
	requireHandshakeText(t, rotating, zoomDelivery(zoomValidation, zoomValidationSignature), 200, "application/json",
		`{"plainToken":"qgg8vlvZRS6UYooatFL8Aw","encryptedToken":"`+zoomEncryptedToken+`"}`)
	for _, token := range []string{"v0:1772600767:{}", "a b", "", strings.Repeat("a", 129),
		`{"event":"meeting.started"}`} {
		quoted, err := json.Marshal(token)
		require.NoError(t, err)
		body := `{"event":"endpoint.url_validation","payload":{"plainToken":` + string(quoted) + `}}`
		requireHandshakeRefused(t, v, zoomDelivery(body, hmacHex(zoomSecret, "v0:1772600767:"+body)),
			verification.ReasonHandshakeMalformed)
	}
}

// No response to a validation is the signature of an event, even for a caller that could have any validation signed.
func TestZoomResponsesSignNothing(t *testing.T) {
	t.Parallel()
	v := connect(t, "zoom", nil, zoomSecret)
	rapid.Check(t, func(rt *rapid.T) {
		wanted := rapid.StringMatching(`[ -~]{0,40}`).Draw(rt, "body")
		token := rapid.SampledFrom([]string{"v0:1772600767:" + wanted, "v0_1772600767_" + wanted, wanted}).Draw(rt, "token")
		quoted, err := json.Marshal(token)
		require.NoError(t, err)
		body := `{"event":"endpoint.url_validation","payload":{"plainToken":` + string(quoted) + `}}`
		answer, _ := v.Handshake(t.Context(), zoomDelivery(body, hmacHex(zoomSecret, "v0:1772600767:"+body)))
		if answer == nil {
			return
		}
		var told struct{ EncryptedToken string }
		require.NoError(t, json.Unmarshal(answer.Body, &told))
		for _, forged := range []string{wanted, token, strings.TrimPrefix(token, "v0:1772600767:")} {
			_, refusal := v.Verify(t.Context(), zoomDelivery(forged, told.EncryptedToken))
			require.NotNil(t, refusal)
		}
	})
}
