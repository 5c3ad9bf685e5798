package requestsigning_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/requestsigning"
)

func pemOf(t *testing.T, kind string, der []byte, err error) secretbox.Secret {
	t.Helper()
	require.NoError(t, err)
	return secretbox.Secret(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func pkcs8(t *testing.T, key any) secretbox.Secret {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pemOf(t, "PRIVATE KEY", der, err)
}

// Each algorithm signs with each form of key that providers hand out, and the public half verifies it.
func TestSignJWT(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	pkcs1 := pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil)
	sec1, err := x509.MarshalECPrivateKey(ecKey)
	ecPEM := pemOf(t, "EC PRIVATE KEY", sec1, err)
	const secret = "a secret of thirty-two characters"
	for name, c := range map[string]struct {
		algorithm string
		key       secretbox.Secret
		verify    any
	}{
		"RS256 PKCS1": {"RS256", pkcs1, &rsaKey.PublicKey}, "RS256 PKCS8": {"RS256", pkcs8(t, rsaKey), &rsaKey.PublicKey},
		"RS384": {"RS384", pkcs1, &rsaKey.PublicKey}, "RS512": {"RS512", pkcs1, &rsaKey.PublicKey},
		"PS256": {"PS256", pkcs1, &rsaKey.PublicKey}, "ES256 SEC1": {"ES256", ecPEM, &ecKey.PublicKey},
		"ES256 PKCS8": {"ES256", pkcs8(t, ecKey), &ecKey.PublicKey}, "EdDSA": {"EdDSA", pkcs8(t, edKey), edPublic},
		"HS256": {"HS256", secret, []byte(secret)},
		"line breaks": {"RS256", secretbox.Secret(" " + strings.ReplaceAll(pkcs1.Reveal(), "\n", `\n`) + "\n"),
			&rsaKey.PublicKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token, err := requestsigning.SignJWT(requestsigning.JWT{Algorithm: c.algorithm, Key: c.key, KeyID: "k1",
				Claims: map[string]any{"iss": "me", "exp": 1790000000}})
			require.NoError(t, err)
			parsed, err := jose.ParseSignedCompact(token.Reveal(),
				[]jose.SignatureAlgorithm{jose.SignatureAlgorithm(c.algorithm)})
			require.NoError(t, err)
			payload, err := parsed.Verify(c.verify)
			require.NoError(t, err)
			require.JSONEq(t, `{"iss":"me","exp":1790000000}`, string(payload))
			header := parsed.Signatures[0].Protected
			require.Equal(t, "k1", header.KeyID)
			require.Equal(t, "JWT", header.ExtraHeaders[jose.HeaderType])
			require.NotContains(t, header.ExtraHeaders, jose.HeaderKey("jwk"))
			shown, err := json.Marshal(token)
			require.NoError(t, err)
			require.JSONEq(t, `"`+secretbox.Redacted+`"`, string(shown))
		})
	}
}

// A key that does not fit is refused with a reason that contains nothing of it.
func TestSignJWTRefusals(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // the weak key that is refused
	require.NoError(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	large, err := rsa.GenerateKey(rand.Reader, 4352)
	require.NoError(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	good := pkcs8(t, rsaKey)
	public, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
	publicPEM := pemOf(t, "PUBLIC KEY", public, err)
	damaged := secretbox.Secret(strings.Replace(good.Reveal(), "MII", "AAA", 1))
	body := strings.Split(good.Reveal(), "\n")[1]
	for name, c := range map[string]struct {
		algorithm string
		key       secretbox.Secret
		claims    map[string]any
		want      error
	}{
		"algorithm":        {"none", good, nil, requestsigning.ErrSettings},
		"unknown":          {"RS257", good, nil, requestsigning.ErrSettings},
		"claims":           {"RS256", good, map[string]any{"a": func() {}}, requestsigning.ErrSettings},
		"empty":            {"RS256", "", nil, requestsigning.ErrKey},
		"no PEM":           {"RS256", secretbox.Secret(body), nil, requestsigning.ErrKey},
		"cut":              {"RS256", good[:len(good)/2], nil, requestsigning.ErrKey},
		"two blocks":       {"RS256", good + good, nil, requestsigning.ErrKey},
		"damaged":          {"RS256", damaged, nil, requestsigning.ErrKey},
		"public":           {"RS256", publicPEM, nil, requestsigning.ErrKey},
		"encrypted":        {"RS256", pemOf(t, "ENCRYPTED PRIVATE KEY", []byte(body), nil), nil, requestsigning.ErrKey},
		"weak":             {"RS256", pkcs8(t, weak), nil, requestsigning.ErrKey},
		"large":            {"RS256", pkcs8(t, large), nil, requestsigning.ErrKey},
		"RSA for EC":       {"ES256", good, nil, requestsigning.ErrKey},
		"RSA for Ed25519":  {"EdDSA", good, nil, requestsigning.ErrKey},
		"EC for RSA":       {"PS256", pkcs8(t, p384), nil, requestsigning.ErrKey},
		"another curve":    {"ES256", pkcs8(t, p384), nil, requestsigning.ErrKey},
		"short secret":     {"HS256", "planted-secret", nil, requestsigning.ErrKey},
		"no key for EC":    {"ES256", "planted-secret", nil, requestsigning.ErrKey},
		"no key for EdDSA": {"EdDSA", "planted-secret", nil, requestsigning.ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token, err := requestsigning.SignJWT(requestsigning.JWT{Algorithm: c.algorithm, Key: c.key, Claims: c.claims})
			require.ErrorIs(t, err, c.want)
			require.Empty(t, token)
			require.NotContains(t, err.Error(), body[:16])
			require.NotContains(t, err.Error(), "planted")
		})
	}
}

// A client's key says by which algorithm it signs, in each form; other keys are refused without a word of theirs.
func TestAlgorithmOf(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	for want, key := range map[string]any{"RS256": rsaKey, "ES256": ecKey, "EdDSA": edKey} {
		got, err := requestsigning.AlgorithmOf(pkcs8(t, key))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	large, err := rsa.GenerateKey(rand.Reader, 4352)
	require.NoError(t, err)
	for _, bad := range []secretbox.Secret{"", "planted", pkcs8(t, other), pkcs8(t, large)} {
		_, err := requestsigning.AlgorithmOf(bad)
		require.ErrorIs(t, err, requestsigning.ErrKey)
		require.NotContains(t, err.Error(), "planted")
	}
}

// A key whose reading alone would cost much is refused for its size, before it is read.
func TestHugeKeysAreNotRead(t *testing.T) {
	t.Parallel()
	huge := pemOf(t, "RSA PRIVATE KEY", make([]byte, 8<<10), nil)
	_, err := requestsigning.SignJWT(requestsigning.JWT{Algorithm: "RS256", Key: huge})
	require.ErrorIs(t, err, requestsigning.ErrKey)
	require.ErrorContains(t, err, "at most 4096 bits")
	_, err = requestsigning.AlgorithmOf(huge)
	require.ErrorIs(t, err, requestsigning.ErrKey)
	require.ErrorContains(t, err, "at most 4096 bits")
}
