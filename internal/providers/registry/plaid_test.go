package registry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A webhook that Plaid signed, its body, which Plaid indents by two spaces, and the response of Plaid's API with the
// key; a developer published them (https://stackoverflow.com/questions/62143991).
const (
	plaidToken = "eyJhbGciOiJFUzI1NiIsImtpZCI6IjZjNTUxNmUxLTkyZGMtNDc5ZS1hOGZmLTVhNTE5OTJlMDAwMSIsInR5cCI6IkpXVCJ9." +
		"eyJpYXQiOjE1OTA4ODcwMDEsInJlcXVlc3RfYm9keV9zaGEyNTYiOiJiNjNhMDdiNTQ3YjAwZjk5MjU0N2Y2YmJjOGQ5YWNjNjFhOGNjZWUxMzhiYzgyZjQ0YTZi" +
		"YWEwOTY4M2E1ZDBmIn0.OOKvIihgqCj7Qrb2bmz7T3t7uK-0JyjiEqL2s1kWeJBM4MMmjaHKK8GmU_z91QolBWMzvPgs718EElY-rE3cwQ"
	plaidKey = `{"key":{"alg":"ES256","created_at":1560466143,"crv":"P-256","expired_at":null,"kid":"6c5516e1-92dc-479e-a8ff-5a51992e0001",` +
		`"kty":"EC","use":"sig","x":"35lvC8uz2QrWpQJ3TUH8t9o9DURMp7ydU518RKDl20k","y":"I8BuXB2bvxelzJAd7OKhd-ZwjCst05Fx47Mb_0ugros"},` +
		`"request_id":"HvfCtrDLG1ihcp7"}`
	plaidKeyURL = "https://production.plaid.com/webhook_verification_key/get"
	plaidBody   = `{
  "error": null,
  "item_id": "yxQbxDjnD8hr69pKbQpbcKeVn3GL9QuyA7NV3",
  "new_transactions": 390,
  "webhook_code": "HISTORICAL_UPDATE",
  "webhook_type": "TRANSACTIONS"
}`
	plaidSecret = "a secret of Plaid's API"
)

func plaidPublisher() *publisher {
	return &publisher{keys: map[string]string{plaidKeyURL: plaidKey}}
}

func plaidDelivery(after time.Duration) *verification.Request {
	return deliver(time.Unix(1590887001, 0).Add(after), plaidBody, "Plaid-Verification", plaidToken)
}

// Plaid's webhook is accepted for five minutes with the key that Plaid's API returns, and with this body alone. The
// API gets the connection's client ID and secret.
func TestPlaidVector(t *testing.T) {
	t.Parallel()
	params := map[string]string{"client_id": "5fc4e2a1b09f3d0012ab34cd"}
	const kid = "6c5516e1-92dc-479e-a8ff-5a51992e0001"
	p := plaidPublisher()
	v := connectKeys(t, "plaid", p, params, plaidSecret)
	requireProved(t, v, plaidDelivery(0), "jwt", kid)
	require.JSONEq(t, `{"client_id":"5fc4e2a1b09f3d0012ab34cd","secret":"a secret of Plaid's API","key_id":"`+kid+`"}`,
		*p.body.Load())
	requireProved(t, v, plaidDelivery(6*time.Minute), "jwt", kid) // with a minute of difference between the clocks
	requireReason(t, v, plaidDelivery(6*time.Minute+time.Second), verification.ReasonTimestampOutOfRange)
	requireProved(t, v, plaidDelivery(-time.Minute), "jwt", kid)
	requireReason(t, v, plaidDelivery(-61*time.Second), verification.ReasonTimestampOutOfRange)
	require.Equal(t, int64(1), p.asked.Load())
	for i := range plaidBody {
		r := plaidDelivery(0)
		r.Body[i] ^= 1
		requireReason(t, v, r, verification.ReasonSignatureMismatch)
	}
	for i := range plaidToken {
		changed := []byte(plaidToken)
		if changed[i] = 'A'; plaidToken[i] == 'A' {
			changed[i] = 'B'
		}
		r := plaidDelivery(0)
		r.Header.Set("Plaid-Verification", string(changed))
		_, refusal := v.Verify(t.Context(), r)
		require.NotNil(t, refusal, "accepted with another byte %d of the token", i)
	}
	r := plaidDelivery(0)
	r.Header.Del("Plaid-Verification")
	requireReason(t, v, r, verification.ReasonSignatureMissing)
	require.NotNil(t, v.Precheck(r.Header))
	r.Header.Set("Plaid-Verification", macToken(t, "HS256", plaidSecret, map[string]any{"iat": 1590887001}))
	requireReason(t, v, r, verification.ReasonSignatureMalformed)
	requireDescribed(t, v, plaidDelivery(0), verification.Event{Type: "TRANSACTIONS.HISTORICAL_UPDATE", TypeSigned: true})
	require.Equal(t, []string{"plaid-verification"}, v.RedactHeaders())
}

// A key that Plaid calls expired, of another environment, or that its API does not return, proves nothing; and without
// its secret or client ID a connection cannot get any.
func TestPlaidKeys(t *testing.T) {
	t.Parallel()
	params := map[string]string{"client_id": "5fc4e2a1b09f3d0012ab34cd"}
	expired := &publisher{keys: map[string]string{plaidKeyURL: strings.Replace(plaidKey, `"expired_at":null`, `"expired_at":1590887000`, 1)}}
	requireReason(t, connectKeys(t, "plaid", expired, params, plaidSecret), plaidDelivery(0), verification.ReasonSignatureMismatch)
	requireReason(t, connectKeys(t, "plaid", plaidPublisher(), params), plaidDelivery(0), verification.ReasonSecretMissing)
	sandbox := map[string]string{"client_id": params["client_id"], "environment": "sandbox"}
	requireReason(t, connectKeys(t, "plaid", plaidPublisher(), sandbox, plaidSecret), plaidDelivery(0),
		verification.ReasonKeysUnavailable)
	other := &publisher{keys: map[string]string{plaidKeyURL: strings.Replace(plaidKey, "6c5516e1", "7c5516e1", 1)}}
	requireReason(t, connectKeys(t, "plaid", other, params, plaidSecret), plaidDelivery(0), verification.ReasonKeysUnavailable)
}
