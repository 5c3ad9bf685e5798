package requestsigning

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"sallyport/internal/platform/secretbox"
)

// JWT is a signed assertion (RFC 7519).
type JWT struct {
	// Algorithm is RS256, RS384, RS512, PS256, ES256, EdDSA or HS256.
	Algorithm string
	// Key is a private key in PEM (PKCS #8, PKCS #1 for RSA, SEC 1 for EC), and for HS256 the secret itself. Line breaks
	// that were written as \n, as in the JSON of a service account, are accepted.
	Key secretbox.Secret
	// KeyID is the header kid, and left out if it is empty.
	KeyID string
	// Claims are encoded as JSON.
	Claims map[string]any
}

const (
	// minRSABits and minSecretBytes are the least sizes of keys (RFC 7518, sections 3.3 and 3.2).
	minRSABits     = 2048
	minSecretBytes = 32
	// maxRSABits bounds what a signature costs: one of 16,384 bits takes a second of a processor. maxKeyBytes is somewhat
	// more than such a key has in DER, and is checked first, because reading a key costs as much.
	maxRSABits  = 4096
	maxKeyBytes = 3 << 10
)

// SignJWT returns a token in compact form. It is a secret: anyone who has it can use it until it expires.
func SignJWT(j JWT) (secretbox.Secret, error) {
	key, err := signingKey(j.Algorithm, j.Key)
	if err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	if j.KeyID != "" {
		options = options.WithHeader(jose.HeaderKey("kid"), j.KeyID)
	}
	// Errors of libraries are not passed on, because they may quote what they refuse.
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(j.Algorithm), Key: key}, options)
	if err != nil {
		return "", fmt.Errorf("%w: the key does not fit the algorithm", ErrKey)
	}
	payload, err := json.Marshal(j.Claims)
	if err != nil {
		return "", fmt.Errorf("%w: the claims are not JSON", ErrSettings)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("%w: the key cannot sign", ErrKey)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("%w: the token cannot be written", ErrSettings)
	}
	return secretbox.Secret(token), nil
}

// AlgorithmOf returns the algorithm with which authorization servers expect signatures of a private key in PEM: RS256,
// ES256 or EdDSA.
func AlgorithmOf(key secretbox.Secret) (string, error) {
	parsed, err := privateKey(key)
	if err != nil {
		return "", err
	}
	switch k := parsed.(type) {
	case *rsa.PrivateKey:
		if err := checkSize(k); err != nil {
			return "", err
		}
		return string(jose.RS256), nil
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			return string(jose.ES256), nil
		}
	case ed25519.PrivateKey:
		return string(jose.EdDSA), nil
	}
	return "", fmt.Errorf("%w: the private key is neither of RSA nor of Ed25519 nor of P-256", ErrKey)
}

// signingKey returns the key of an algorithm.
func signingKey(algorithm string, secret secretbox.Secret) (any, error) {
	mismatch := fmt.Errorf("%w: the private key does not fit the algorithm %.8q", ErrKey, algorithm)
	switch jose.SignatureAlgorithm(algorithm) {
	case jose.HS256:
		if len(secret) < minSecretBytes {
			return nil, fmt.Errorf("%w: a secret for HS256 has at least %d bytes", ErrKey, minSecretBytes)
		}
		return []byte(secret.Reveal()), nil
	case jose.RS256, jose.RS384, jose.RS512, jose.PS256:
		key, err := privateKey(secret)
		if err != nil {
			return nil, err
		}
		k, ok := key.(*rsa.PrivateKey)
		if !ok {
			return nil, mismatch
		}
		return k, checkSize(k)
	case jose.ES256:
		key, err := privateKey(secret)
		if err != nil {
			return nil, err
		}
		if k, ok := key.(*ecdsa.PrivateKey); ok && k.Curve == elliptic.P256() {
			return k, nil
		}
		return nil, mismatch
	case jose.EdDSA:
		key, err := privateKey(secret)
		if err != nil {
			return nil, err
		}
		if k, ok := key.(ed25519.PrivateKey); ok {
			return k, nil
		}
		return nil, mismatch
	default:
		return nil, fmt.Errorf("%w: the algorithm is unknown", ErrSettings)
	}
}

func checkSize(k *rsa.PrivateKey) error {
	switch bits := k.N.BitLen(); {
	case bits < minRSABits:
		return fmt.Errorf("%w: an RSA key has at least %d bits", ErrKey, minRSABits)
	case bits > maxRSABits:
		return tooLarge()
	default:
		return nil
	}
}

func tooLarge() error { return fmt.Errorf("%w: an RSA key has at most %d bits", ErrKey, maxRSABits) }

// privateKey reads a key in PEM. Errors do not say what is wrong with its bytes.
func privateKey(secret secretbox.Secret) (any, error) {
	text := strings.ReplaceAll(strings.TrimSpace(secret.Reveal()), `\n`, "\n")
	block, rest := pem.Decode([]byte(text))
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return nil, fmt.Errorf("%w: the private key is not one block of PEM", ErrKey)
	}
	if len(block.Bytes) > maxKeyBytes {
		return nil, tooLarge()
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		return nil, fmt.Errorf("%w: the private key is encrypted", ErrKey)
	default:
		return nil, fmt.Errorf("%w: the PEM holds no private key of a known form", ErrKey)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the private key cannot be read", ErrKey)
	}
	return key, nil
}
