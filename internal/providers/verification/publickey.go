package verification

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
)

// Sizes of RSA keys that are accepted. A shorter one can be broken; a longer one makes each verification a burden.
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// keyFamily is a kind of public key.
type keyFamily string

const (
	familyEd25519 keyFamily = "ed25519"
	familyP256    keyFamily = "ECDSA P-256"
	familyRSA     keyFamily = "RSA"
)

// parsePublicKey reads a public key in PEM, or in base64 of a SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7); an
// ed25519 key also in 64 hexadecimal digits or in base64 of its 32 bytes, with or without the prefix whpk_ of Standard
// Webhooks. wrong says what is wrong without quoting any of it.
func parsePublicKey(families []keyFamily, text string) (key crypto.PublicKey, wrong string) {
	text = strings.TrimSpace(text)
	if len(text) > maxSecretBytes {
		return nil, "is too long"
	}
	if slices.Contains(families, familyEd25519) {
		if raw, ok := rawEd25519(text); ok {
			return raw, ""
		}
	}
	der, ok := publicKeyDER(text)
	if !ok {
		return nil, noPublicKey(families)
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		if key, err = x509.ParsePKCS1PublicKey(der); err != nil {
			return nil, noPublicKey(families)
		}
	}
	if !familyIn(families, key) {
		return nil, fmt.Sprintf("is not a key for %v, as this provider's signatures need; RSA keys have 2048 to 8192 bits",
			families)
	}
	return key, ""
}

func noPublicKey(families []keyFamily) string {
	forms := "PEM or base64"
	if slices.Contains(families, familyEd25519) {
		forms = "hexadecimal, PEM or base64"
	}
	return "is no public key in " + forms + "; copy it from the provider again"
}

func rawEd25519(text string) (ed25519.PublicKey, bool) {
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == ed25519.PublicKeySize {
		return raw, true
	}
	raw, err := decodeBase64(strings.TrimPrefix(text, "whpk_"))
	return raw, err == nil && len(raw) == ed25519.PublicKeySize
}

func publicKeyDER(text string) ([]byte, bool) {
	if !strings.HasPrefix(text, "-----BEGIN ") {
		der, err := base64.StdEncoding.DecodeString(text)
		return der, err == nil
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || strings.TrimSpace(string(rest)) != "" || block.Type != "PUBLIC KEY" &&
		block.Type != "RSA PUBLIC KEY" {
		return nil, false
	}
	return block.Bytes, true
}

// has reports whether a key is one of the family.
func (f keyFamily) has(key crypto.PublicKey) bool {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return f == familyEd25519 && len(k) == ed25519.PublicKeySize
	case *ecdsa.PublicKey:
		return f == familyP256 && k.Curve == elliptic.P256()
	case *rsa.PublicKey:
		return f == familyRSA && k.N.BitLen() >= minRSABits && k.N.BitLen() <= maxRSABits
	default:
		return false
	}
}
