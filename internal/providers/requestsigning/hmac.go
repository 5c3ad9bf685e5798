package requestsigning

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // OAuth 1.0 and older APIs prescribe HMAC-SHA1, which collisions of SHA-1 do not break.
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"regexp"
	"strings"

	"sallyport/internal/platform/secretbox"
)

// HMAC is a signature in a header over content that the caller rendered.
type HMAC struct {
	// Algorithm is the hash: sha1, sha256, sha384 or sha512.
	Algorithm string
	// Key is the key itself, as bytes: encoded keys are decoded by the caller.
	Key secretbox.Secret
	// Encoding of the signature: hex, base64 (RFC 4648, section 4) or base64url (section 5, without padding).
	Encoding string
	// Content is what is signed.
	Content []byte
	// Header gets Prefix and the signature. Values that it has are replaced.
	Header, Prefix string
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")

// SignHMAC signs content that was rendered of a request and its body, and makes body the body of the request.
func SignHMAC(req *http.Request, body []byte, h HMAC) error {
	newHash := newHash(h.Algorithm)
	encode := encoder(h.Encoding)
	switch {
	case newHash == nil, encode == nil:
		return fmt.Errorf("%w: the algorithm or the encoding is unknown", ErrSettings)
	case !headerName.MatchString(h.Header), strings.EqualFold(h.Header, "Host"):
		return fmt.Errorf("%w: the header cannot hold a signature", ErrSettings)
	case strings.ContainsFunc(h.Prefix, func(r rune) bool { return r < ' ' || r >= 0x7f }):
		return fmt.Errorf("%w: the prefix cannot be in a header", ErrSettings)
	case h.Key == "":
		return fmt.Errorf("%w: the key is empty", ErrKey)
	}
	if err := check(req); err != nil {
		return err
	}
	setBody(req, body)
	req.Header.Set(h.Header, h.Prefix+encode(sum(newHash, h.Key.Reveal(), h.Content)))
	return nil
}

func sum(newHash func() hash.Hash, key string, content []byte) []byte {
	mac := hmac.New(newHash, []byte(key))
	mac.Write(content)
	return mac.Sum(nil)
}

// newHash returns the constructor of a hash, or nil.
func newHash(algorithm string) func() hash.Hash {
	switch algorithm {
	case "sha1":
		return sha1.New
	case "sha256":
		return sha256.New
	case "sha384":
		return sha512.New384
	case "sha512":
		return sha512.New
	default:
		return nil
	}
}

// encoder returns how bytes are written, or nil.
func encoder(encoding string) func([]byte) string {
	switch encoding {
	case "hex":
		return hex.EncodeToString
	case "base64":
		return base64.StdEncoding.EncodeToString
	case "base64url":
		return base64.RawURLEncoding.EncodeToString
	default:
		return nil
	}
}
