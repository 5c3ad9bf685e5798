package events

import (
	"crypto/sha256"
	"strings"
)

// SourceBodyHash is the source of a key that is the hash of type and body, within a window. Its text is
// body:<hash>:<uuid of the window's first event>.
const SourceBodyHash = "body_hash"

// keyBytes is the length of the part of a SHA-256 that names a key: 128 bits, too many for collisions, at half the size
// of the index.
const keyBytes = 16

// HashID returns the hash under which a provider's id is claimed.
func HashID(text string) []byte { return hashKey("id", text) }

// HashSignedID returns the hash under which an id is claimed that the signature covers. It differs from HashID, so that
// an unsigned id, which anyone may write, cannot make a later event a duplicate.
func HashSignedID(text string) []byte { return hashKey("signed id", text) }

// HashBody returns the hash under which the hexadecimal hash of a body is claimed.
func HashBody(sum string) []byte { return hashKey("body", sum) }

// HashSingleUse returns the hash under which a signed value is claimed that a provider uses once. Ids and bodies have
// other hashes.
func HashSingleUse(text string) []byte { return hashKey("single use", text) }

// HashPublished returns the hash under which a publisher's key is claimed. It differs from those of providers, so that
// publishing cannot suppress a provider's event.
func HashPublished(text string) []byte { return hashKey(SourcePublisher, text) }

func hashKey(kind, text string) []byte {
	sum := sha256.Sum256([]byte(kind + "\x00" + text))
	return sum[:keyBytes]
}

// BodyKey returns the text of a key of SourceBodyHash.
func BodyKey(sum, firstUUID string) string { return "body:" + sum + ":" + firstUUID }

// HashesOfKey returns the hashes of which an event with this key, from this source, has claimed one; none for an event
// without a key.
func HashesOfKey(source, key string) [][]byte {
	switch source {
	case SourceEvent:
		return nil
	case SourcePublisher:
		return [][]byte{HashPublished(key)}
	case SourceBodyHash:
		sum, _, _ := strings.Cut(strings.TrimPrefix(key, "body:"), ":")
		return [][]byte{HashBody(sum)}
	default:
		return [][]byte{HashID(key), HashSignedID(key)}
	}
}
