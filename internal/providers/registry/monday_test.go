package registry_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// The token has the claims of monday.com's documentation. The npm package jsonwebtoken 9.0.3, with which monday.com's
// sample apps verify, signed it; it expires 300 seconds after it was issued.
const (
	mondaySecret = "0e1f2a3b4c5d6e7f8091a2b3c4d5e6f7"
	mondayURL    = "https://hooks.example.com/api/v1/webhook/whk_1"
	mondayToken  = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9." +
		"eyJhY2NvdW50SWQiOjE4MjU1MjgsInVzZXJJZCI6NDAxMjY4OSwiYXVkIjoiaHR0cHM6Ly9ob29rcy5leGFtcGxlLmNvbS9hcGkvdjEvd2ViaG9vay93aGtfMSIsImV4cCI6MTc3MjYwMTA2Nywic2hvcnRMaXZlZFRva2VuIjoiU0hPUlRfTElWRURfVE9LRU5fSEVSRSIsImlhdCI6MTc3MjYwMDc2N30." +
		"gcu5-XnM_BGxoLWtrGkMJuQUO2XdPftI_-kD0Ide48Q"
	mondayBody = `{"event":{"app":"monday","boardId":224535,"groupId":"224132","pulseId":983678,"pulseName":"A new task","userId":103892,` +
		`"type":"create_pulse"}}`
)

func mondayDelivery(token string) *verification.Request {
	return deliver(time.Unix(1772600767, 0), mondayBody, "Authorization", token)
}

// A webhook with a token that the app's signing secret signed passes until the token expires, with the minute that the
// engine allows for clocks. The token does not cover the body.
func TestMonday(t *testing.T) {
	t.Parallel()
	v := connect(t, "monday", nil, mondaySecret)
	requireProved(t, v, mondayDelivery(mondayToken), "jwt", "0")
	requireProved(t, connect(t, "monday", nil, "another secret of the same kind!", mondaySecret), mondayDelivery(mondayToken),
		"jwt", "1")
	changed := mondayDelivery(mondayToken)
	changed.Body = []byte(`{"event":{"type":"update_column_value"}}`)
	requireProved(t, v, changed, "jwt", "0")
	requireDescribed(t, v, changed, verification.Event{Type: "update_column_value"})

	late := mondayDelivery(mondayToken)
	late.Now = time.Unix(1772601067+60, 0)
	requireProved(t, v, late, "jwt", "0")
	late.Now = time.Unix(1772601067+62, 0)
	requireReason(t, v, late, verification.ReasonTimestampOutOfRange)
	require.Equal(t, []string{"authorization"}, v.RedactHeaders())
}

// Nothing else passes: another secret, another token, no algorithm, or a token for another URL where the connection
// names its own.
func TestMondayRefusals(t *testing.T) {
	t.Parallel()
	v := connect(t, "monday", map[string]string{"audience": mondayURL}, mondaySecret)
	requireProved(t, v, mondayDelivery(mondayToken), "jwt", "0")
	parts := strings.Split(mondayToken, ".")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	later := strings.Replace(string(claims), "1772601067", "1972601067", 1)
	require.NotEqual(t, string(claims), later)
	for token, want := range map[string]verification.Reason{
		parts[0] + "." + encode(later) + "." + parts[2]:                     verification.ReasonSignatureMismatch,
		encode(`{"alg":"none","typ":"JWT"}`) + "." + parts[1] + ".":         verification.ReasonSignatureMalformed,
		encode(`{"alg":"RS256","typ":"JWT"}`) + mondayToken[len(parts[0]):]: verification.ReasonSignatureMalformed,
		parts[0] + "." + parts[1] + ".":                                     verification.ReasonSignatureMismatch,
		parts[0] + "." + parts[1] + "." + strings.Repeat("A", 43):           verification.ReasonSignatureMismatch,
		"Bearer " + mondayToken:                                             verification.ReasonSignatureMalformed,
		"":                                                                  verification.ReasonSignatureMissing,
	} {
		requireReason(t, v, mondayDelivery(token), want)
	}
	twice := mondayDelivery(mondayToken)
	twice.Header.Add("Authorization", mondayToken)
	requireReason(t, v, twice, verification.ReasonSignatureMalformed)
	requireReason(t, v, at(deliver(time.Unix(1772600767, 0), mondayBody), http.MethodPost, "token="+mondayToken),
		verification.ReasonSignatureMissing)
	requireReason(t, connect(t, "monday", nil, "another secret of the same kind!"), mondayDelivery(mondayToken),
		verification.ReasonSignatureMismatch)
	requireReason(t, connect(t, "monday", map[string]string{"audience": mondayURL + "2"}, mondaySecret),
		mondayDelivery(mondayToken), verification.ReasonClaimRefused)
}

// The challenge of URL Verification comes back in the same form, and is no event.
func TestMondayChallenge(t *testing.T) {
	t.Parallel()
	v := connect(t, "monday", nil, mondaySecret)
	challenge := func(body string) *verification.Request { return at(deliver(time.Time{}, body), http.MethodPost, "") }
	requireHandshakeText(t, v, challenge(`{"challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}`),
		http.StatusOK, "application/json", `{"challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}`)
	requireNoHandshake(t, v, challenge(mondayBody))
	requireNoHandshake(t, v, challenge(`{"event":{"challenge":"3eZbrw1a"}}`))
	requireReason(t, v, challenge(`{"challenge":"3eZbrw1a"}`), verification.ReasonSignatureMissing)
}
