package httpapi

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"sallyport/internal/platform/access"
)

// The messages to a caller whose credential is in the wrong place. Its form alone shows that, so they do not depend on
// whether the credential is valid.
const (
	messageNeedsUser  = "This operation needs a user's access token; API keys cannot use it"
	messageKeyHeader  = "Send API keys in the API-Key header"
	messageKeyAlone   = "Send the API key alone in the API-Key header, without a word before it"
	messageTokenPlace = "Send access tokens in the Authorization header, after the word Bearer"
)

// misplaced returns what is wrong with the place of the credential, if no credential was sent where the operation reads
// it and the form of the headers shows where it is instead; otherwise an empty text.
func (c credentials) misplaced(op Operation) string {
	key := messageKeyHeader
	if op.Route == "" {
		key = messageNeedsUser
	}
	switch {
	case len(c.keys) == 1:
		if isToken(c.keys[0]) {
			return messageTokenPlace
		}
		if op.Route == "" {
			return messageNeedsUser
		}
		if _, value, found := strings.Cut(c.keys[0], " "); found && isKey(strings.TrimLeft(value, " ")) {
			return messageKeyAlone
		}
	case len(c.tokens) == 1:
		scheme, value, found := strings.Cut(c.tokens[0], " ")
		if !found {
			scheme, value = "", c.tokens[0]
		}
		if isKey(strings.TrimLeft(value, " ")) || strings.EqualFold(scheme, "Basic") && isBasicKey(value) {
			return key
		}
		if !strings.EqualFold(scheme, "Bearer") && isToken(value) {
			return messageTokenPlace
		}
	case len(c.tickets) == 0 && c.strayKey():
		return key
	}
	return ""
}

// strayKey reports whether there is a key in another header than API-Key, or in the query. X-API-Key counts with any
// value, because other services take it for API-Key. Such keys are never used.
func (c credentials) strayKey() bool {
	if len(c.header.Values("X-API-Key")) > 0 {
		return true
	}
	for _, values := range c.header {
		if slices.ContainsFunc(values, isKey) {
			return true
		}
	}
	if !strings.Contains(c.query, access.APIKeyScheme) {
		return false
	}
	query, _ := url.ParseQuery(c.query) // what cannot be read holds no key
	for _, values := range query {
		if slices.ContainsFunc(values, isKey) {
			return true
		}
	}
	return false
}

// isBasicKey reports whether the credentials of the scheme Basic (RFC 7617) are a key, as user or as password.
func isBasicKey(text string) bool {
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	user, password, _ := strings.Cut(string(plain), ":")
	return err == nil && (isKey(user) || isKey(password))
}

// isKey reports whether a text has the beginning of API keys, which no token has.
func isKey(text string) bool { return strings.HasPrefix(text, access.APIKeyScheme) }

// isToken reports whether a text has the form of a JSON Web Token in compact serialisation (RFC 7515 section 3.1):
// three parts, of which the first is the base64url of a JSON object.
func isToken(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}

// misplacedMessages returns what misplaced can return for the operation.
func (op Operation) misplacedMessages() []string {
	if op.Route == "" {
		return []string{messageNeedsUser, messageTokenPlace}
	}
	return []string{messageKeyHeader, messageKeyAlone, messageTokenPlace}
}
