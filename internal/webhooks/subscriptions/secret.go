package subscriptions

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/internal/platform/secretbox"
)

// hintLength is how many characters a hint shows.
const hintLength = 4

// hintFrom is the length in characters from which a value may show its last four.
const hintFrom = 12

// NewSigningSecret returns a secret in the form of Standard Webhooks: the prefix and the base64 of 32 random bytes.
func NewSigningSecret() secretbox.Secret {
	key := make([]byte, generatedSecret)
	// crypto/rand.Read never returns an error; it ends the program when the system has no entropy.
	_, _ = rand.Read(key)
	return secretbox.Secret(SecretPrefix + base64.StdEncoding.EncodeToString(key))
}

// SigningKey returns the key of a signing secret, for programs that sign as a subscription does. An unacceptable secret
// is an error, which does not contain it.
func SigningKey(secret secretbox.Secret) ([]byte, error) {
	key, _, message := signingKey(secret)
	if message != "" {
		return nil, errors.New("the signing secret " + message)
	}
	return key, nil
}

// signingKey returns the key of a secret. With SecretPrefix it is what the base64 encodes (Standard Webhooks,
// "Signature scheme"); any other secret is used as it is. The rule and message are empty if the secret is acceptable.
func signingKey(secret secretbox.Secret) (key []byte, rule, message string) {
	text := secret.Reveal()
	switch {
	case len(text) > MaxSecret:
		return nil, "max_length", fmt.Sprintf("must be at most %d bytes", MaxSecret)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return nil, "pattern", "must not contain control characters"
	}
	encoded, ok := strings.CutPrefix(text, SecretPrefix)
	if !ok {
		if len(text) < MinSecret {
			return nil, "min_length", fmt.Sprintf("must be at least %d bytes", MinSecret)
		}
		return []byte(text), "", ""
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) < MinSecretKey || len(key) > MaxSecretKey {
		return nil, "pattern", fmt.Sprintf("must be %s and the base64 of %d to %d bytes", SecretPrefix, MinSecretKey,
			MaxSecretKey)
	}
	return key, "", ""
}

// secretHint returns the last four characters of a signing secret, or nothing if the secret is so short that four would
// reveal too much.
func secretHint(secret secretbox.Secret) string {
	if text := secret.Reveal(); utf8.RuneCountInString(text) >= hintFrom {
		return lastCharacters(text)
	}
	return ""
}

// Hint returns the last four characters of the header's value behind an ellipsis, or none of them if the value is too
// short.
func (h Header) Hint() string {
	if len(h.Value) < hintFrom {
		return secretbox.Redacted
	}
	return "…" + lastCharacters(h.Value)
}

func lastCharacters(s string) string {
	r := []rune(s)
	return string(r[max(0, len(r)-hintLength):])
}
