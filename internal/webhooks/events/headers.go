package events

import (
	"encoding/json"
	"iter"
	"strings"
)

// IsCredential reports whether a header, by its name in lower case, identifies the sender to the gateway or to a proxy
// in front of it. Its value is not stored. Names are compared as receivers behind CGI see them.
func IsCredential(name string) bool {
	switch plain(name) {
	case "authorization", "proxy-authorization", "authentication", "x-authorization", "x-authentication", "cookie",
		"cookie2", "set-cookie", "set-cookie2", "api-key", "apikey", "x-api-key", "x-apikey", "x-auth-key",
		"x-auth-token", "x-access-token", "api-token", "x-api-token", "private-token", "x-amz-security-token", "dpop":
		return true
	default:
		return false
	}
}

// Headers of stored events that no sender sets.
const (
	// QueryHeader is the query of the URL that the provider called, without credentials.
	QueryHeader = "Sallyport-Query"
	// SenderIDHeader is the sender's own webhook-id, in whose place receivers get the gateway's.
	SenderIDHeader = "Sallyport-Sender-Webhook-Id"
)

// LooksLikeCredential is IsCredential for a header that only resembles one in its name, such as X-Vault-Token. It may
// be none if the provider's definition reads it.
func LooksLikeCredential(name string) bool {
	name = plain(name)
	i := strings.LastIndexByte(name, '-')
	switch name[i+1:] {
	case "token", "apikey", "secret", "password", "authorization", "authentication", "cookie":
		return true
	case "key": // and not X-Event-Key or Idempotency-Key
		for _, kind := range []string{"api", "access", "auth", "secret", "subscription", "functions", "private"} {
			if i >= 0 && (name[:i] == kind || strings.HasSuffix(name[:i], "-"+kind)) {
				return true
			}
		}
	}
	return false
}

// plain returns a name in lower case with a hyphen for every character that is neither letter nor digit.
func plain(name string) string {
	odd := func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	if !strings.ContainsFunc(name, odd) {
		return name
	}
	return strings.Map(func(r rune) rune {
		if odd(r) {
			return '-'
		}
		return r
	}, name)
}

// EachHeader returns the headers of a JSON object of names and texts, such as Payload.Headers, in its order: each name,
// and its value as JSON. It ends where the text is no such object. Every attempt reads headers, so it neither decodes
// nor copies them.
func EachHeader(text string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		rest, ok := strings.CutPrefix(text, "{")
		for ok {
			var name, value string
			if name, rest, ok = cutJSONString(rest); !ok {
				return
			}
			if rest, ok = strings.CutPrefix(rest, ":"); !ok {
				return
			}
			if value, rest, ok = cutJSONString(rest); !ok || !yield(HeaderText(name), value) {
				return
			}
			rest, ok = strings.CutPrefix(rest, ",")
		}
	}
}

// HeaderText returns the text of a value that EachHeader has returned.
func HeaderText(value string) string {
	if strings.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1]
	}
	var text string
	if json.Unmarshal([]byte(value), &text) != nil {
		return ""
	}
	return text
}

// cutJSONString returns the JSON string at the beginning of s, with its quotes, and what follows it.
func cutJSONString(s string) (text, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", s, false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return s[:i+1], s[i+1:], true
		case '\\':
			i++
		}
	}
	return "", s, false
}
