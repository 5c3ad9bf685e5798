package apikeys

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"slices"
	"strings"

	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
)

// The form of an API key: spk_{live|test}_{lookup}_{secret}_{checksum}, every part of fixed length and in base62.
const (
	keyScheme      = access.APIKeyScheme
	modeLength     = 4 // live, test
	lookupLength   = 10
	secretBytes    = 32
	secretLength   = 43 // base62 digits of 256 bits
	checksumLength = 6  // base62 digits of 32 bits
	lastFourLength = 4

	lookupStart   = len(keyScheme) + modeLength + 1
	secretStart   = lookupStart + lookupLength + 1
	checksumStart = secretStart + secretLength + 1
	keyLength     = checksumStart + checksumLength
)

// keyText is a well-formed API key: its checksum is right. Whether it was ever issued, only the database knows.
type keyText struct {
	// body is everything before the checksum and its underscore.
	body string
}

// lookup is the part by which the key is found; it is not secret.
func (k keyText) lookup() string { return k.body[lookupStart : lookupStart+lookupLength] }

// prefix is the key up to its secret.
func (k keyText) prefix() string { return k.body[:secretStart-1] }

// lastFour is what a person may see of the secret, to distinguish keys.
func (k keyText) lastFour() string { return k.body[len(k.body)-lastFourLength:] }

// String is the whole key.
func (k keyText) String() string { return k.body + "_" + checksum(k.body) }

// mac is stored in place of the secret. It covers the mode and the lookup part too, so that neither can be exchanged.
func (k keyText) mac(pepper installation.Pepper) []byte {
	m := hmac.New(sha256.New, pepper)
	m.Write([]byte(k.body))
	return m.Sum(nil)
}

// newKeyText returns a fresh key with 256 random bits. The mode shows a person, or a scanner that finds the key,
// whether production is at stake. No decision depends on it.
func newKeyText(mode team.EnvironmentType) keyText {
	lookup := make([]byte, lookupLength) // 80 bits, reduced below to the 59 that ten digits hold
	// crypto/rand.Read never returns an error; it ends the program when the system has no entropy.
	_, _ = rand.Read(lookup)
	span := new(big.Int).Exp(big.NewInt(62), big.NewInt(lookupLength), nil)
	n := new(big.Int).SetBytes(lookup)
	return rotated(keyPrefix(mode, base62(n.Mod(n, span), lookupLength)))
}

// rotated returns a key of that prefix with a fresh secret.
func rotated(prefix string) keyText {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never an error, as above
	return keyText{body: prefix + "_" + base62(new(big.Int).SetBytes(secret), secretLength)}
}

// parseKey reads a key strictly: one form, no surrounding space, the checksum right. A refused text was mistyped or
// made up, and costs no query.
func parseKey(s string) (keyText, bool) {
	if len(s) != keyLength || s[:len(keyScheme)] != keyScheme {
		return keyText{}, false
	}
	for i := len(keyScheme); i < keyLength; i++ {
		switch i {
		case lookupStart - 1, secretStart - 1, checksumStart - 1:
			if s[i] != '_' {
				return keyText{}, false
			}
		default:
			if !isBase62(s[i]) {
				return keyText{}, false
			}
		}
	}
	if mode := team.EnvironmentType(s[len(keyScheme) : lookupStart-1]); !slices.Contains(team.EnvironmentTypes(), mode) {
		return keyText{}, false
	}
	body := s[:checksumStart-1]
	if s[checksumStart:] != checksum(body) {
		return keyText{}, false
	}
	return keyText{body: body}, true
}

// keyPrefix is the part of a key that is not secret, for lists.
func keyPrefix(mode team.EnvironmentType, lookup string) string {
	return keyScheme + string(mode) + "_" + lookup
}

// checksum is the CRC-32 (IEEE 802.3) of the body. It detects every change of a single character.
func checksum(body string) string {
	return base62(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), checksumLength)
}

// base62 writes n in the digits 0-9, a-z, A-Z, padded to length.
func base62(n *big.Int, length int) string {
	s := n.Text(62)
	return strings.Repeat("0", length-len(s)) + s
}

func isBase62(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
