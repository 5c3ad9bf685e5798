package events

import (
	"crypto/sha256"
	"strings"
)

// SourceBodyHash is the source of a key that is the hash of type and body, within a window. Its text is
// body:<hash>:<uuid of the window's first event>.
const SourceBodyHash = "body_hash"

// keyBytes is how much of a SHA-256 names a key: 128 bits, which nobody can make collide, in half the index.
const keyBytes = 16

// HashID is the hash under which an id of the provider's is claimed.
func HashID(text string) []byte { return hashKey("id", text) }

// HashSignedID is the hash under which an id that the signature covers is claimed. It is apart from ids that anybody
// may write, so that none of those makes a repeat of the event that is yet to come.
func HashSignedID(text string) []byte { return hashKey("signed id", text) }

// HashBody is the hash under which the hexadecimal hash of a body is claimed.
func HashBody(sum string) []byte { return hashKey("body", sum) }

// HashPublished is the hash under which a publisher's key is claimed: of another kind than a provider's id, so that
// nobody can publish a provider's event away.
func HashPublished(text string) []byte { return hashKey(SourcePublisher, text) }

func hashKey(kind, text string) []byte {
	sum := sha256.Sum256([]byte(kind + "\x00" + text))
	return sum[:keyBytes]
}

// BodyKey is the text of a body-hash key.
func BodyKey(sum, firstUUID string) string { return "body:" + sum + ":" + firstUUID }

// HashesOfKey returns the hashes under one of which an event with this key, from this source, has claimed it; none for
// an event without one.
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
