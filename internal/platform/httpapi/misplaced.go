package httpapi

import (
	"strings"

	"sallyport/internal/platform/access"
)

// The messages to a caller whose credential is in the wrong place. Its form alone shows that, so they do not depend on
// whether the credential is valid.
const (
	messageNeedsUser  = "This operation needs a user's access token; API keys cannot use it"
	messageKeyHeader  = "Send API keys in the API-Key header"
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
	case len(c.tokens) == 1:
		scheme, value, found := strings.Cut(c.tokens[0], " ")
		if !found {
			scheme, value = "", c.tokens[0]
		}
		if isKey(strings.TrimLeft(value, " ")) {
			return key
		}
		if !strings.EqualFold(scheme, "Bearer") && isToken(value) {
			return messageTokenPlace
		}
	case len(c.strayKeys) > 0:
		return key
	}
	return ""
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
	return []string{messageKeyHeader, messageTokenPlace}
}
