package events

import (
	"encoding/json"
	"iter"
	"strings"
)

// IsCredential reports whether a header, by its name in lower case, identifies the sender to the gateway or to a proxy
// in front of it. Its value is not stored.
func IsCredential(name string) bool {
	switch name {
	case "authorization", "proxy-authorization", "cookie", "api-key", "x-api-key", "x-auth-token", "x-access-token",
		"x-amz-security-token":
		return true
	default:
		return false
	}
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
