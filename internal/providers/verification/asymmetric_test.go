package verification_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // One provider signs with RSA over SHA-1.
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/verification"
)

// signer makes signatures of one algorithm, and knows its public key.
type signer struct {
	sign   func(message []byte) []byte
	public crypto.PublicKey
}

// rsaKey is made once: making it takes longer than all tests with it.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newSigner(t *testing.T, algorithm string) signer {
	t.Helper()
	digest := func(m []byte) []byte { sum := sha256.Sum256(m); return sum[:] }
	must := func(sig []byte, err error) []byte { require.NoError(t, err); return sig }
	switch algorithm {
	case "ed25519":
		public, private, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		return signer{func(m []byte) []byte { return ed25519.Sign(private, m) }, public}
	case "ecdsa_p256_der", "ecdsa_p256_raw":
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		return signer{func(m []byte) []byte {
			if algorithm == "ecdsa_p256_der" {
				return must(ecdsa.SignASN1(rand.Reader, private, digest(m)))
			}
			r, s, err := ecdsa.Sign(rand.Reader, private, digest(m))
			require.NoError(t, err)
			return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
		}, &private.PublicKey}
	case "rsa_sha1":
		return signer{func(m []byte) []byte {
			sum := sha1.Sum(m) //nolint:gosec // see the import
			return must(rsa.SignPKCS1v15(nil, rsaKey(), crypto.SHA1, sum[:]))
		}, &rsaKey().PublicKey}
	case "rsa_sha256":
		return signer{func(m []byte) []byte {
			return must(rsa.SignPKCS1v15(nil, rsaKey(), crypto.SHA256, digest(m)))
		}, &rsaKey().PublicKey}
	default:
		return signer{func(m []byte) []byte {
			return must(rsa.SignPSS(rand.Reader, rsaKey(), crypto.SHA256, digest(m), nil))
		}, &rsaKey().PublicKey}
	}
}

func (s signer) der(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.public)
	require.NoError(t, err)
	return der
}

func (s signer) pem(t *testing.T) string {
	t.Helper()
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: s.der(t)}))
}

func (s signer) b64(t *testing.T) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(s.der(t))
}

func asymmetric(algorithm, encoding string) verification.Proof {
	return verification.Proof{
		Scheme: "asymmetric", Algorithm: algorithm, Signed: "{ts}{body}",
		Signature: []verification.SignatureSource{{From: "header:X-S", Encoding: encoding}},
		Timestamp: &verification.TimestampRule{From: "header:X-T", Format: "unix_s", Signed: true},
	}
}

func algorithms() []string {
	return []string{"ed25519", "ecdsa_p256_der", "ecdsa_p256_raw", "rsa_sha1", "rsa_sha256", "rsa_pss_sha256"}
}

// Each algorithm accepts what its key signed, in any pasted form of the key, and nothing else: no other body,
// timestamp, key or algorithm.
func TestAsymmetric(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			good := newSigner(t, algorithm)
			sig := base64.StdEncoding.EncodeToString(good.sign([]byte(stamp(0) + "{}")))
			send := func(body, ts, sig string) *verification.Request { return request(body, "X-T", ts, "X-S", sig) }
			for _, text := range []string{good.pem(t), " " + good.b64(t) + "\n"} {
				v := verifier(t, declared(asymmetric(algorithm, "base64")), newSigner(t, algorithm).pem(t), text)
				result, refusal := v.Verify(t.Context(), send("{}", stamp(0), sig))
				require.Nil(t, refusal)
				require.Equal(t, "asymmetric", result.Scheme)
				requireRefused(t, v, send("{ }", stamp(0), sig), verification.ReasonSignatureMismatch)
				requireRefused(t, v, send("{}", stamp(1e9), sig), verification.ReasonSignatureMismatch)
				requireRefused(t, v, send("{}", stamp(0), sig[:len(sig)-4]), verification.ReasonSignatureMismatch)
				requireRefused(t, v, send("{}", stamp(0), "!"), verification.ReasonSignatureMalformed)
				requireRefused(t, v, send("{}", stamp(0), sig+"\n"), verification.ReasonSignatureMalformed)
			}
			for _, other := range algorithms() {
				engine, err := verification.Compile(declared(asymmetric(other, "base64")))
				require.NoError(t, err)
				v, err := engine.Prepare(nil, secrets(good.pem(t)))
				if err != nil {
					require.Equal(t, []string{"secret format"}, violationsOf(t, err))
				} else if other != algorithm {
					requireRefused(t, v, send("{}", stamp(0), sig), verification.ReasonSignatureMismatch)
				}
			}
		})
	}
}

// A webhook cannot make the verifier check public keys without limit.
func TestAsymmetricCandidates(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "ed25519")
	p := asymmetric("ed25519", "hex")
	p.Signature[0].Parse.List = &verification.ListParse{Sep: " "}
	v := verifier(t, declared(p), s.pem(t))
	good, bad := hex.EncodeToString(s.sign([]byte(stamp(0)+"{}"))), strings.Repeat("00", 64)+" "
	requireProved(t, v, request("{}", "X-T", stamp(0), "X-S", strings.Repeat(bad, 7)+good), "asymmetric", "whs_0")
	requireRefused(t, v, request("{}", "X-T", stamp(0), "X-S", strings.Repeat(bad, 8)+good),
		verification.ReasonSignatureMismatch)
}

// Ed25519 keys are taken as the senders show them: hexadecimal (Discord) or whpk_ with base64 (Standard
// Webhooks).
func TestEd25519Forms(t *testing.T) {
	t.Parallel()
	s := newSigner(t, "ed25519")
	raw, ok := s.public.(ed25519.PublicKey)
	require.True(t, ok)
	r := request("{}", "X-T", stamp(0), "X-S", hex.EncodeToString(s.sign([]byte(stamp(0)+"{}"))))
	for _, text := range []string{hex.EncodeToString(raw), "whpk_" + base64.StdEncoding.EncodeToString(raw),
		base64.RawStdEncoding.EncodeToString(raw)} {
		requireProved(t, verifier(t, declared(asymmetric("ed25519", "hex")), text), r, "asymmetric", "whs_0")
	}
}

// The vector in the tests of SendGrid's Go library verifies.
func TestSendGridVector(t *testing.T) {
	t.Parallel()
	p := asymmetric("ecdsa_p256_der", "base64")
	p.Keys = &verification.Keys{Static: []string{"{param:key}"}}
	d := declared(p)
	d.Params = []verification.Param{{Name: "key", Description: "The key.", Pattern: ".+", Required: true,
		Example: "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMMsTbhdbcwHBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA=="}}
	engine, err := verification.Compile(d)
	require.NoError(t, err)
	v, err := engine.Prepare(map[string]string{"key": d.Params[0].Example}, nil)
	require.NoError(t, err)
	const body = `{"category":"example_payload","event":"test_event","message_id":"message_id"}`
	r := request(body, "X-T", "1588788367", "X-S",
		"MEUCIQCtIHJeH93Y+qpYeWrySphQgpNGNr/U+UyUlBkU6n7RAwIgJTz2C+8a8xonZGi6BpSzoQsbVRamr2nlxFDWYNH2j/0=")
	requireProved(t, v, r, "asymmetric", "static-0")
	r.Body = r.Body[:len(r.Body)-1]
	requireRefused(t, v, r, verification.ReasonSignatureMismatch)

	_, err = engine.Prepare(map[string]string{"key": "nonsense"}, nil)
	require.Equal(t, []string{"params.key format"}, violationsOf(t, err))
	_, err = engine.Prepare(map[string]string{"key": d.Params[0].Example}, secrets(testKey))
	require.Equal(t, []string{"secret coherent"}, violationsOf(t, err))
}

// Keys that are no keys, of another kind, or too short to trust are refused when they are set.
func TestPublicKeysRefused(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // the point of the test
	require.NoError(t, err)
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	for algorithm, texts := range map[string][]string{
		"rsa_sha256": {signer{public: &weak.PublicKey}.pem(t), newSigner(t, "ed25519").pem(t), "AAAA",
			"-----BEGIN PUBLIC KEY-----\nleak", ""},
		"ecdsa_p256_raw": {signer{public: &other.PublicKey}.b64(t), newSigner(t, "rsa_sha1").b64(t)},
		"ed25519":        {"00", newSigner(t, "ecdsa_p256_der").pem(t)},
	} {
		engine, err := verification.Compile(declared(asymmetric(algorithm, "base64")))
		require.NoError(t, err)
		for _, text := range texts {
			_, err := engine.Prepare(nil, secrets(text))
			require.Equal(t, []string{"secret format"}, violationsOf(t, err), "%s", text)
			require.NotContains(t, err.Error(), "leak")
		}
	}
	p := asymmetric("ed25519", "hex")
	p.Keys = &verification.Keys{}
	require.Equal(t, []string{"keys coherent"}, violationsOfProof(t, p))
	p.Keys.Static = []string{}
	require.Equal(t, []string{"keys.static required"}, violationsOfProof(t, p))
	p.Keys.Static = []string{"x"}
	require.Equal(t, []string{"keys.static[0] format"}, violationsOfProof(t, p))
	p.Algorithm = "sha256"
	require.Equal(t, []string{"algorithm enum"}, violationsOfProof(t, p))
}

// newB64 is a message's RSA-SHA256 signature in base64.
func newB64(t *testing.T, message string) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(newSigner(t, "rsa_sha256").sign([]byte(message)))
}
