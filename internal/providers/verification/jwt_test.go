package verification_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/verification"
)

// jwtHS is a token like Netlify's: an HMAC over the hash of the body.
func jwtHS() verification.Proof {
	return verification.Proof{
		Scheme: "jwt", Secret: verification.SecretFormat{Decode: "utf8"},
		JWT: &verification.JWTRule{From: "header:X-Webhook-Signature", Algs: []string{"HS256"},
			Iss: []string{"netlify"}},
		BodyHash: &verification.BodyHash{From: "jwt:sha256", Alg: "sha256", Encoding: "hex"},
	}
}

// jwtPublic is a token that public keys verify, like Google's for push messages.
func jwtPublic(algs ...string) verification.Proof {
	return verification.Proof{
		Scheme: "jwt", BodyUnsigned: true,
		JWT: &verification.JWTRule{
			From: "header:Authorization", Prefix: "Bearer ", Algs: algs, Aud: []string{"https://me"}, MaxSkewS: "10",
			Claims: []verification.Predicate{{From: "jwt:email_verified", Equals: []string{"true"}},
				{From: "jwt:/org/id", Equals: []string{"7", "8"}}},
		},
	}
}

func sign(tb testing.TB, alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	tb.Helper()
	options := &jose.SignerOptions{}
	if kid != "" {
		options.WithHeader("kid", kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	require.NoError(tb, err)
	payload, err := json.Marshal(claims)
	require.NoError(tb, err)
	jws, err := signer.Sign(payload)
	require.NoError(tb, err)
	token, err := jws.CompactSerialize()
	require.NoError(tb, err)
	return token
}

func hexSum(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

const longKey = "a key of at least thirty-two bytes, as the library that signs wants"

// A token under a shared secret passes with the body whose hash it holds, and with no other body, key, issuer
// or algorithm.
func TestJWTSecret(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(jwtHS()), "another secret", longKey)
	token := func(alg jose.SignatureAlgorithm, key string, claims map[string]any) *verification.Request {
		return request("{}", "X-Webhook-Signature", sign(t, alg, []byte(key), "", claims))
	}
	good := map[string]any{"iss": "netlify", "sha256": hexSum("{}")}
	with := func(name string, value any) map[string]any {
		claims := maps.Clone(good)
		claims[name] = value
		return claims
	}
	requireProved(t, v, token(jose.HS256, longKey, good), "jwt", "whs_1")
	requireProved(t, v, token(jose.HS256, longKey, with("exp", now().Unix())), "jwt", "whs_1")
	requireRefused(t, v, token(jose.HS256, strings.ToUpper(longKey), good), verification.ReasonSignatureMismatch)
	requireRefused(t, v, token(jose.HS512, longKey, good), verification.ReasonSignatureMalformed)
	requireRefused(t, v, token(jose.HS256, longKey, with("iss", "me")), verification.ReasonClaimRefused)
	requireRefused(t, v, token(jose.HS256, longKey, map[string]any{"sha256": hexSum("{}")}),
		verification.ReasonClaimRefused)
	requireRefused(t, v, token(jose.HS256, longKey, with("sha256", hexSum("{ }"))), verification.ReasonSignatureMismatch)
	requireRefused(t, v, token(jose.HS256, longKey, map[string]any{"iss": "netlify"}), verification.ReasonHeaderMissing)
	requireRefused(t, v, token(jose.HS256, longKey, with("exp", now().Add(-61*time.Second).Unix())),
		verification.ReasonTimestampOutOfRange)
	requireRefused(t, v, token(jose.HS256, longKey, with("nbf", now().Add(61*time.Second).Unix())),
		verification.ReasonTimestampOutOfRange)
	requireRefused(t, v, token(jose.HS256, longKey, with("iat", now().Add(61*time.Second).Unix())),
		verification.ReasonTimestampOutOfRange)
	requireRefused(t, v, token(jose.HS256, longKey, with("exp", "soon")), verification.ReasonSignatureMalformed)
	requireRefused(t, v, request("{}"), verification.ReasonSignatureMissing)

	r := token(jose.HS256, longKey, good)
	r.Body = []byte("{ }")
	requireRefused(t, v, r, verification.ReasonSignatureMismatch)
	require.Equal(t, []string{"x-webhook-signature"}, v.RedactHeaders())
	require.Equal(t, []string{"x-webhook-signature"}, v.SignatureHeaders())
}

// Tokens without a signature, with headers that change what is signed, or of no known form are refused.
func TestJWTRefusesForms(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(jwtHS()), longKey)
	b64 := base64.RawURLEncoding.EncodeToString
	claims := b64([]byte(`{"iss":"netlify","sha256":"` + hexSum("{}") + `"}`))
	good := sign(t, jose.HS256, []byte(longKey), "", map[string]any{"iss": "netlify", "sha256": hexSum("{}")})
	parts := strings.Split(good, ".")
	for _, token := range []string{
		b64([]byte(`{"alg":"none"}`)) + "." + claims + ".", b64([]byte(`{"alg":"None","typ":"JWT"}`)) + "." + claims + "." +
			parts[2], b64([]byte(`{}`)) + "." + claims + "." + parts[2], "a.b.c", "", ".", "..", parts[0] + "." + parts[1] +
			".", parts[0] + ".." + parts[2],
		b64([]byte(`{"alg":"HS256","crit":["b64"],"b64":false}`)) + "." + claims + "." + parts[2],
		b64([]byte(`{"alg":"HS256","kid":"`+strings.Repeat("k", 300)+`"}`)) + "." + claims + "." + parts[2],
		`{"payload":"` + claims + `"}`, good + "=", good + ".x", "Bearer " + good,
		good[:len(good)-1] + string(good[len(good)-1]+1), good + "\n",
	} {
		_, refusal := v.Verify(t.Context(), request("{}", "X-Webhook-Signature", token))
		require.NotNil(t, refusal, token)
	}
	requireProved(t, v, request("{}", "X-Webhook-Signature", good), "jwt", "whs_0")
}

// A public key is never taken for a secret, and each key verifies only the algorithms of its kind.
func TestJWTKeyConfusion(t *testing.T) {
	t.Parallel()
	rsaSigner := newSigner(t, "rsa_sha256")
	claims := map[string]any{"aud": []string{"x", "https://me"}, "email_verified": true, "org": map[string]any{"id": 7},
		"exp": now().Unix()}
	bearer := func(token string) *verification.Request { return request("{}", "Authorization", "Bearer "+token) }
	v := verifier(t, declared(jwtPublic("RS256")), rsaSigner.pem(t))
	requireProved(t, v, bearer(sign(t, jose.RS256, rsaKey(), "", claims)), "jwt", "whs_0")
	for _, secret := range []string{rsaSigner.pem(t), strings.TrimSpace(rsaSigner.pem(t)), rsaSigner.b64(t),
		string(rsaSigner.der(t))} {
		requireRefused(t, v, bearer(sign(t, jose.HS256, []byte(secret), "", claims)), verification.ReasonSignatureMalformed)
	}
	requireRefused(t, v, bearer(sign(t, jose.PS256, rsaKey(), "", claims)), verification.ReasonSignatureMalformed)
	requireProved(t, verifier(t, declared(jwtPublic("RS256", "PS256")), rsaSigner.pem(t)),
		bearer(sign(t, jose.PS256, rsaKey(), "", claims)), "jwt", "whs_0")
	require.Contains(t, violationsOfProof(t, jwtPublic("RS256", "HS256")), "jwt.algs[1] coherent")
	require.Equal(t, []string{"jwt.algs[0] enum"}, violationsOfProof(t, jwtPublic("none")))
	require.Equal(t, []string{"jwt.algs required"}, violationsOfProof(t, jwtPublic()))
}

// Audience and claims bind a token to the connection, and a token without an end or a limit on its age is
// refused, because nothing else would end it.
func TestJWTClaims(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(jwtPublic("RS256")), newSigner(t, "rsa_sha256").b64(t))
	good := map[string]any{"aud": "https://me", "email_verified": true, "org": map[string]any{"id": 8},
		"exp": now().Add(-10 * time.Second).Unix()}
	send := func(name string, value any) *verification.Request {
		claims := maps.Clone(good)
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
		return request("anything", "Authorization", "Bearer "+sign(t, jose.RS256, rsaKey(), "", claims))
	}
	requireProved(t, v, send("x", "y"), "jwt", "whs_0")
	requireRefused(t, v, send("aud", "https://you"), verification.ReasonClaimRefused)
	requireRefused(t, v, send("aud", nil), verification.ReasonClaimRefused)
	requireRefused(t, v, send("email_verified", false), verification.ReasonClaimRefused)
	requireRefused(t, v, send("org", nil), verification.ReasonClaimRefused)
	requireRefused(t, v, send("exp", now().Add(-11*time.Second).Unix()), verification.ReasonTimestampOutOfRange)
	requireRefused(t, v, send("exp", nil), verification.ReasonTimestampMissing)

	aged := jwtPublic("RS256")
	aged.JWT.MaxAgeS = "300"
	v = verifier(t, declared(aged), newSigner(t, "rsa_sha256").b64(t))
	requireProved(t, v, send("iat", now().Add(-310*time.Second).Unix()), "jwt", "whs_0")
	requireRefused(t, v, send("iat", now().Add(-311*time.Second).Unix()), verification.ReasonTimestampOutOfRange)
	requireRefused(t, v, send("iat", nil), verification.ReasonTimestampMissing)
}

// Where a body carries a list of tokens every one has to be right.
func TestJWTOfEveryItem(t *testing.T) {
	t.Parallel()
	p := jwtPublic("RS256")
	p.JWT.From, p.JWT.Prefix = "json:/validationTokens/*", ""
	v := verifier(t, declared(p), newSigner(t, "rsa_sha256").b64(t))
	good := sign(t, jose.RS256, rsaKey(), "", map[string]any{"aud": "https://me", "email_verified": true,
		"org": map[string]any{"id": 8}, "exp": now().Unix()})
	bad := sign(t, jose.RS256, rsaKey(), "", map[string]any{"aud": "https://you", "exp": now().Unix()})
	requireProved(t, v, request(`{"validationTokens":["`+good+`","`+good+`"]}`), "jwt", "whs_0")
	requireRefused(t, v, request(`{"validationTokens":["`+good+`","`+bad+`"]}`), verification.ReasonClaimRefused)
	requireRefused(t, v, request(`{"validationTokens":["`+good+`",7]}`), verification.ReasonSignatureMalformed)
	requireRefused(t, v, request(`{"validationTokens":[]}`), verification.ReasonSignatureMissing)
}

// An error in a rule for tokens is found when the definition is loaded.
func TestCompileRefusesJWT(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(p *verification.Proof)
		want   []string
	}{
		"no rule":   {func(p *verification.Proof) { p.JWT = nil }, []string{"jwt required"}},
		"no source": {func(p *verification.Proof) { p.JWT.From = "sig:t" }, []string{"jwt.from format"}},
		"keys with secret": {func(p *verification.Proof) {
			p.Keys = &verification.Keys{Static: []string{"x"}}
		}, []string{"keys coherent"}},
		"no secret format": {func(p *verification.Proof) { p.Secret.Decode = "" }, []string{"secret.decode enum"}},
		"empty issuer":     {func(p *verification.Proof) { p.JWT.Iss = []string{""} }, []string{"jwt.iss format"}},
		"claim in header": {func(p *verification.Proof) {
			p.JWT.Claims = []verification.Predicate{{From: "header:a", Equals: []string{"b"}}}
		}, []string{"jwt.claims[0].from format"}},
		"claim without name": {func(p *verification.Proof) {
			p.JWT.Claims = []verification.Predicate{{From: "jwt:", Equals: []string{"b"}}}
		}, []string{"jwt.claims[0].from format"}},
		"body hash outside": {func(p *verification.Proof) {
			p.BodyHash.From = "header:a"
		}, []string{"body_hash.from format"}},
		"sha1 of the body":   {func(p *verification.Proof) { p.BodyHash.Alg = "sha1" }, []string{"body_hash.alg enum"}},
		"hash not encoded":   {func(p *verification.Proof) { p.BodyHash.Encoding = "" }, []string{"body_hash.encoding enum"}},
		"body said unsigned": {func(p *verification.Proof) { p.BodyUnsigned = true }, []string{"body_unsigned coherent"}},
		"body unsaid":        {func(p *verification.Proof) { p.BodyHash = nil }, []string{"body_unsigned coherent"}},
		"timestamp": {func(p *verification.Proof) {
			p.Timestamp = &verification.TimestampRule{}
		}, []string{"timestamp coherent"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := jwtHS()
			tt.change(&p)
			require.Equal(t, tt.want, violationsOfProof(t, p))
		})
	}
}

// No token with a changed character is accepted, wherever the change is.
func TestJWTRefusesEveryChange(t *testing.T) {
	t.Parallel()
	v := verifier(t, declared(jwtHS()), longKey)
	good := sign(t, jose.HS256, []byte(longKey), "", map[string]any{"iss": "netlify", "sha256": hexSum("{}")})
	rapid.Check(t, func(rt *rapid.T) {
		token := []byte(good)
		at := rapid.IntRange(0, len(token)-1).Draw(rt, "at")
		token[at] = rapid.SampledFrom([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.= ")).Draw(rt,
			"to")
		_, refusal := v.Verify(t.Context(), request("{}", "X-Webhook-Signature", string(token)))
		if refusal == nil && string(token) != good {
			rt.Fatalf("accepted %s for %s", token, good)
		}
	})
}
