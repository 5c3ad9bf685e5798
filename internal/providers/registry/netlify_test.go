package registry_test

import (
	"testing"
	"time"

	"sallyport/internal/providers/verification"
)

const (
	netlifySecret = "a JWS secret token of a site"
	netlifyBody   = `{"id":"5ebc34bf4fea0b01f02efa3a","site_id":"fa4dd95a-994e-4f89-8a7a-2d9e9fc36a32","build_id":"5ebc34bf4fea0b01f02efa38",` +
		`"state":"ready","name":"sample-site","url":"https://sample-site.netlify.app","created_at":"2026-03-04T05:04:15.346Z",` +
		`"updated_at":"2026-03-04T05:06:07.738Z","context":"production"}`
	netlifyToken = "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJuZXRsaWZ5Iiwic2hhMjU2IjoiMzY0NmY2NzM5Zjg4MTNiMmQ3ZjRiNDcxY2JiNGJlNWQxNzE5MTMzZDY3NDc5" +
		"MjI5NWM4YWFiY2U5MTMzYmNhMiJ9.pJdA7bxldaIHjwST7AnHgGHXyB2wE2Um1JhJZfoqdcc"
)

// A notification made by Netlify's documentation ("Payload signature": a token with the issuer netlify and the
// hexadecimal SHA-256 of the body, signed by the npm package jose 5.10.0) is accepted with this body alone.
func TestNetlify(t *testing.T) {
	t.Parallel()
	r := deliver(time.Unix(1772600767, 0), netlifyBody, "X-Webhook-Signature", netlifyToken)
	checkBodyToken(t, "netlify", netlifySecret, "X-Webhook-Signature", r)
	v := connect(t, "netlify", nil, netlifySecret)
	requireDescribed(t, v, r, verification.Event{Type: "ready", TypeSigned: true,
		OccurredAt: time.Date(2026, 3, 4, 5, 6, 7, 738_000_000, time.UTC)})
}

// A token of another issuer, or without the hash, is refused even under the secret.
func TestNetlifyClaims(t *testing.T) {
	t.Parallel()
	const hash = "3646f6739f8813b2d7f4b471cbb4be5d1719133d674792295c8aabce9133bca2"
	v := connect(t, "netlify", nil, netlifySecret)
	send := func(alg string, claims map[string]any) *verification.Request {
		return deliver(time.Unix(1772600767, 0), netlifyBody, "X-Webhook-Signature", macToken(t, alg, netlifySecret, claims))
	}
	requireProved(t, v, send("HS256", map[string]any{"iss": "netlify", "sha256": hash}), "jwt", "0")
	requireReason(t, v, send("HS256", map[string]any{"iss": "Netlify", "sha256": hash}), verification.ReasonClaimRefused)
	requireReason(t, v, send("HS256", map[string]any{"sha256": hash}), verification.ReasonClaimRefused)
	requireReason(t, v, send("HS256", map[string]any{"iss": "netlify"}), verification.ReasonHeaderMissing)
	requireReason(t, v, send("HS256", map[string]any{"iss": "netlify", "sha256": ""}), verification.ReasonHeaderMissing)
	requireReason(t, v, send("HS256", map[string]any{"iss": "netlify", "sha256": hash[:62]}), verification.ReasonSignatureMismatch)
	requireReason(t, v, send("HS512", map[string]any{"iss": "netlify", "sha256": hash}), verification.ReasonSignatureMalformed)
}
