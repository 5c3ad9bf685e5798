package registry_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"hash"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// macToken makes a JSON Web Token with an HMAC.
func macToken(t *testing.T, alg, key string, claims map[string]any) string {
	t.Helper()
	newHash := map[string]func() hash.Hash{"HS256": sha256.New, "HS384": sha512.New384, "HS512": sha512.New}[alg]
	payload, err := json.Marshal(claims)
	require.NoError(t, err)
	content := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"`+alg+`"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(payload)
	h := hmac.New(newHash, []byte(key))
	h.Write([]byte(content))
	return content + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

const (
	fusionauthKey  = "f1bb0ccc-4d7b-4f23-9b55-0f3d7a9e1c2b-hmac-signing-key-1234567890"
	fusionauthBody = `{"event":{"createInstant":1772600767123,"id":"c17f7b3e-0f3a-4b57-a3a1-3f1d5f1e7c9d","info":{"ipAddress":"192.0.2.1"},` +
		`"tenantId":"30663132-6464-6665-3032-326466613934","type":"user.create","user":{"active":true,"id":"00000000-0000-0001-0000-000000000000"}}}`
	fusionauthClaims = ".eyJyZXF1ZXN0X2JvZHlfc2hhMjU2IjoiVWNtTzh2RFYreGszRllUN0tHYTZ6S0NGNzgxbG4zL1ZJbzJtdW14blV1TT0ifQ."
)

// Webhooks made by FusionAuth's documentation ("Sign Webhooks": the SHA-256 of the body in base64, in a token with the
// header of its example; signed by the npm package jose 5.10.0 and accepted by the check of FusionAuth's example
// listener, which uses that package) are accepted with each of the three algorithms.
func TestFusionAuth(t *testing.T) {
	t.Parallel()
	for _, token := range []string{
		"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6Il9IMDd3VkcxZlYzbDVpaDc0ck54SUMzbmV2RSJ9" + fusionauthClaims +
			"EXUXi6dDVmdkJqdGcgT83w5V3J65IqOZw3Q89devhZ0",
		"eyJhbGciOiJIUzM4NCIsInR5cCI6IkpXVCIsImtpZCI6Il9IMDd3VkcxZlYzbDVpaDc0ck54SUMzbmV2RSJ9" + fusionauthClaims +
			"g38hTWWHXB8T1g69BZgCzwyAZQo9A4MAkQFMXGxYg2D8-Eu-qsnn8TbzcrBVAWGS",
		"eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCIsImtpZCI6Il9IMDd3VkcxZlYzbDVpaDc0ck54SUMzbmV2RSJ9" + fusionauthClaims +
			"iijuxWYQMb22egi7JgM5V6xd0356JTSETVdDOOoMxP3Kup6x20CpmYuZDUuC9cJaO040PexX0LCqCK3jOBNqRg",
	} {
		r := deliver(time.Unix(1772600767, 0), fusionauthBody, "X-Fusionauth-Signature-Jwt", token)
		checkBodyToken(t, "fusionauth", fusionauthKey, "X-Fusionauth-Signature-Jwt", r)
		requireDescribed(t, connect(t, "fusionauth", nil, fusionauthKey), r, verification.Event{
			Type: "user.create", TypeSigned: true, ID: "c17f7b3e-0f3a-4b57-a3a1-3f1d5f1e7c9d", IDSigned: true,
			OccurredAt: time.UnixMilli(1772600767123).UTC(),
		})
	}
}

// The token of FusionAuth's documentation, which an RSA key signed, is refused, and so is one without the hash of the
// body.
func TestFusionAuthRefuses(t *testing.T) {
	t.Parallel()
	const documented = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6Il9IMDd3VkcxZlYzbDVpaDc0ck54SUMzbmV2RSJ9" +
		".eyJyZXF1ZXN0X2JvZHlfc2hhMjU2IjoiS2VWKy9IR29JUXJ4dUU1WVBDUlI2QXVRT0p2ZWxkWU5OaGJWaTFpMjJxaz0ifQ.J70gqZVuTej8FfriQqJJZQ"
	v := connect(t, "fusionauth", nil, fusionauthKey)
	send := func(token string) *verification.Request {
		return deliver(time.Unix(1772600767, 0), fusionauthBody, "X-Fusionauth-Signature-Jwt", token)
	}
	requireReason(t, v, send(documented), verification.ReasonSignatureMalformed)
	requireReason(t, v, send(macToken(t, "HS256", fusionauthKey, map[string]any{"sub": "x"})), verification.ReasonHeaderMissing)
	requireReason(t, v, send(macToken(t, "HS256", fusionauthKey, map[string]any{"request_body_sha256": "UcmO8vDV"})),
		verification.ReasonSignatureMismatch)
}
