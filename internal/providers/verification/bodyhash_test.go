package verification_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// A hash in the query covers the body where the signature covers the query, as Twilio does for JSON bodies.
func TestBodyHashInQuery(t *testing.T) {
	t.Parallel()
	p := twilio()
	p.Signed, p.BodyHash = "{url}", &verification.BodyHash{From: "query:bodySHA256", Alg: "sha256", Encoding: "hex"}
	v := verifier(t, declared(p), testKey)
	send := func(query, body string) *verification.Request {
		return atURL(request(body, "X-Twilio-Signature", sha1B64(testKey, "https://a/h?"+query)), "https://a", "/h", query)
	}
	requireVerified(t, v, send("bodySHA256="+hexSum("{}"), "{}"), "whs_0")
	requireRefused(t, v, send("bodySHA256="+hexSum("{}"), "{ }"), verification.ReasonSignatureMismatch)
	other := send("bodySHA256="+hexSum("{}"), `{"a":1}`)
	_, refusal := v.Verify(t.Context(), other)
	require.Equal(t, verification.CauseBodyRewritten, v.Diagnose(t.Context(), other, refusal).Cause, "the secret is right")
	requireRefused(t, v, send("bodySHA256=", "{}"), verification.ReasonHeaderMissing)
	requireRefused(t, v, send("a", "{}"), verification.ReasonHeaderMissing)
	requireRefused(t, v, send("bodySHA256="+hexSum("{}")+"&bodySHA256="+hexSum("{}"), "{}"),
		verification.ReasonHeaderMissing)

	p.URLVariants = []string{"no_query"}
	require.Equal(t, []string{"body_hash.from coherent"}, violationsOfProof(t, p),
		"without the query nothing covers the hash")
	p = sha256Proof("header:X-S", "{body}")
	p.BodyHash = &verification.BodyHash{From: "header:digest", Alg: "sha256", Encoding: "hex"}
	require.Equal(t, []string{"body_hash coherent", "body_hash.from coherent"}, violationsOfProof(t, p))
}

// A Content-Digest (RFC 9530) that is signed covers the body.
func TestBodyHashInHeader(t *testing.T) {
	t.Parallel()
	p := sha256Proof("header:X-S", "{header:content-digest}")
	p.BodyHash = &verification.BodyHash{From: "header:content-digest", Prefix: "sha-256=:", Suffix: ":", Alg: "sha256",
		Encoding: "base64"}
	v := verifier(t, declared(p), testKey)
	sum := sha256.Sum256([]byte("{}"))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	send := func(digest, body string) *verification.Request {
		return request(body, "content-digest", digest, "X-S", hexMAC(testKey, digest))
	}
	requireVerified(t, v, send(digest, "{}"), "whs_0")
	requireRefused(t, v, send(digest, "{}\n"), verification.ReasonSignatureMismatch)
	requireRefused(t, v, send(digest[1:], "{}"), verification.ReasonSignatureMismatch)
	requireRefused(t, v, send(digest[:len(digest)-1], "{}"), verification.ReasonSignatureMismatch)
}
