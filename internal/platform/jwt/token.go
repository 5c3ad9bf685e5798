package jwt

import (
	"encoding/base64"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// Token is a token whose signature has not been verified.
type Token struct {
	// Header is the protected header. Its key id and algorithm select keys; nothing in it is trusted otherwise.
	Header jose.Header

	jws *jose.JSONWebSignature
}

// Parse reads a token in the compact serialization and checks its length, algorithm and type.
func (p *Policy) Parse(token string) (*Token, error) {
	if len(token) > p.MaxBytes {
		return nil, ErrTooLarge
	}
	if !canonical(token) {
		return nil, ErrMalformed
	}
	jws, err := jose.ParseSignedCompact(token, p.Algorithms)
	if err != nil || len(jws.Signatures) != 1 {
		return nil, ErrAlgorithm
	}
	header := jws.Signatures[0].Protected
	if _, critical := header.ExtraHeaders["crit"]; critical {
		return nil, ErrCritical
	}
	if !p.acceptsType(header) {
		return nil, ErrType
	}
	return &Token{Header: header, jws: jws}, nil
}

// Verify returns the payload if one of the keys verifies the signature. A key is one that go-jose accepts: a public
// key, a secret, a jose.JSONWebKey or a jose.OpaqueVerifier. The caller passes only keys that are meant for the
// algorithm.
func (t *Token) Verify(keys ...any) (payload []byte, err error) {
	for _, key := range keys {
		if payload, err := t.jws.Verify(key); err == nil {
			return payload, nil
		}
	}
	return nil, ErrSignature
}

// Decode reads the claims of a verified payload. It rejects duplicate members, whose meaning depends on the reader, and
// matches names in their exact case.
func Decode(payload []byte, into any) error {
	if err := json.Unmarshal(payload, into); err != nil {
		return ErrClaims
	}
	return nil
}

// canonical reports whether every part of a compact token is written in the one way that its bytes have. The decoder
// ignores the spare bits of a part's last character, so otherwise several texts would be the same token.
func canonical(token string) bool {
	parts := 0
	for part := range strings.SplitSeq(token, ".") {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return false
		}
		parts++
	}
	return parts == 3
}
