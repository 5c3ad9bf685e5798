package verification_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// signedOrToken is a provider that moves from a token to signatures.
func signedOrToken() verification.Declaration {
	std := listed()
	std.Secret.Decode = "whsec"
	d := verification.Declaration{Proof: verification.Proof{AnyOf: []verification.Proof{
		std.Proof, {Scheme: "token", Signature: []verification.SignatureSource{{From: "header:X-Token"}}},
	}}, Event: std.Event}
	return d
}

// Any one of several proofs is enough and is named. A webhook without one is refused with the reason of the closest.
func TestAnyOf(t *testing.T) {
	t.Parallel()
	v := verifier(t, signedOrToken(), "whsec_YSBrZXkgdGhhdCB0aGUgc2VuZGVyIHNoYXJlcw==", "the plain token")
	requireProved(t, v, signedList("msg", stamp(0), "{}"), "hmac", "whs_0")
	requireProved(t, v, request("{}", "X-Token", "the plain token"), "token", "whs_1")
	requireRefused(t, v, request("{}", "X-Token", "the plain tokem"), verification.ReasonSignatureMismatch)
	requireRefused(t, v, request("{}"), verification.ReasonSignatureMissing)
	requireRefused(t, v, signedList("msg", "1", "{}"), verification.ReasonTimestampMalformed)
	require.Equal(t, verification.ReasonSignatureMissing, v.Precheck(request("").Header).Reason)
	require.Equal(t, verification.ReasonSecretMissing, verifier(t, signedOrToken()).Precheck(request("").Header).Reason)
	require.Equal(t, []string{"webhook-signature", "x-token"}, v.RedactHeaders())
	require.False(t, describe(t, v, signedList("msg", stamp(0), "{}")).IDSigned,
		"the token does not cover the id, so the id may be anyone's")

	onlyToken := verifier(t, signedOrToken(), "no base64!")
	requireProved(t, onlyToken, request("{}", "X-Token", "no base64!"), "token", "whs_0")
	requireRefused(t, onlyToken, signedList("msg", stamp(0), "{}"), verification.ReasonSignatureMissing)
}

// Where all proofs have to pass, one that fails refuses, and what any of them covers is signed.
func TestAllOf(t *testing.T) {
	t.Parallel()
	std := listed()
	d := verification.Declaration{Proof: verification.Proof{AllOf: []verification.Proof{
		std.Proof, {Scheme: "token", Signature: []verification.SignatureSource{{From: "query:token"}}},
	}}, Event: std.Event}
	v := verifier(t, d, testKey)
	good := atURL(signedList("msg", stamp(0), "{}"), "", "/", "token=a+key+that+the+sender+shares")
	requireProved(t, v, good, "hmac+token", "whs_0")
	require.True(t, describe(t, v, good).IDSigned)
	requireRefused(t, v, atURL(signedList("msg", stamp(0), "{}"), "", "/", "token=x"),
		verification.ReasonSignatureMismatch)
	requireRefused(t, v, atURL(request("{}"), "", "/", good.RawQuery), verification.ReasonSignatureMissing)
}

// A secret is needed exactly if no webhook passes without one: a missing secret is an error there, and nowhere else.
func TestNeedsSecret(t *testing.T) {
	t.Parallel()
	std := listed()
	own := verification.Proof{Scheme: "jwt", BodyUnsigned: true,
		Keys: &verification.Keys{JWKS: &verification.JWKS{URL: "https://keys.example/certs", TTLS: "600"}},
		JWT:  &verification.JWTRule{From: "header:x-jwt", Algs: []string{"ES256"}, Aud: []string{"{param:account}"}}}
	for name, tt := range map[string]struct {
		proof         verification.Proof
		account, want bool
	}{
		"hmac":                {std.Proof, false, true},
		"a key of its own":    {own, true, false},
		"any with both":       {verification.Proof{AnyOf: []verification.Proof{std.Proof, own}}, true, false},
		"any with secrets":    {verification.Proof{AnyOf: []verification.Proof{std.Proof, std.Proof}}, false, true},
		"all with one secret": {verification.Proof{AllOf: []verification.Proof{own, std.Proof}}, true, true},
	} {
		d, params := verification.Declaration{Proof: tt.proof, Event: std.Event}, map[string]string{}
		if tt.account {
			params["account"] = "a"
			d.Params = []verification.Param{{Name: "account", Description: "The account.", Pattern: ".+", Required: true,
				Example: "a"}}
		}
		engine, err := verification.Compile(d)
		require.NoError(t, err, name)
		v, err := engine.Prepare(params, nil)
		require.NoError(t, err, name)
		require.Equal(t, tt.want, v.NeedsSecret(), name)
	}
}

// Groups stay small, never contain the scheme that proves nothing, and say nothing themselves.
func TestCompileRefusesGroups(t *testing.T) {
	t.Parallel()
	good := sha256Proof("header:X-S", "{body}")
	none := verification.Proof{Scheme: "none"}
	anyOf := func(list ...verification.Proof) verification.Proof { return verification.Proof{AnyOf: list} }
	tests := map[string]struct {
		p    verification.Proof
		want []string
	}{
		"none":   {anyOf(good, none), []string{"any_of[1].scheme coherent"}},
		"one":    {anyOf(good), []string{"any_of required"}},
		"empty":  {verification.Proof{AllOf: []verification.Proof{}}, []string{"all_of required"}},
		"beside": {verification.Proof{AnyOf: anyOf(good, good).AnyOf, Scheme: "hmac"}, []string{"any_of coherent"}},
		"both": {verification.Proof{AnyOf: anyOf(good, good).AnyOf, AllOf: anyOf(good, good).AnyOf},
			[]string{"any_of coherent"}},
		"deep": {anyOf(good, anyOf(good, anyOf(good, good))), []string{"any_of[1].any_of[1].any_of limit"}},
		"many": {anyOf(anyOf(good, good, good), anyOf(good, good, good), anyOf(good, good, good)),
			[]string{"any_of[2].any_of[2].scheme limit"}},
		"wrong leaf": {anyOf(good, verification.Proof{Scheme: "token"}), []string{"any_of[1].signature required"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, violationsOfProof(t, tt.p))
		})
	}
}
