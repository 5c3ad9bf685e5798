package ingest

import (
	"bytes"
	"encoding/json"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/events"
)

// hopByHop reports whether a header is about one connection only (RFC 9110 §7.6.1).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	default:
		return false
	}
}

// appendMember appends a member to a JSON object that has no end yet, or begins one.
func appendMember(b, name []byte, value string) []byte {
	switch len(b) {
	case 0:
		b = append(b, '{')
	case 1:
	default:
		b = append(b, ',')
	}
	b = append(appendString(b, name), ':')
	return appendString(b, value)
}

// appendLower appends the name of a header, which is ASCII (RFC 9110 section 5.1), in lower case.
func appendLower(b []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

// appendString appends s as a JSON string. Plain ASCII needs no encoder.
func appendString[T string | []byte](b []byte, s T) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			quoted, err := json.Marshal(string(s)) // replaces what is not UTF-8
			if err != nil {
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// maxContentType limits the stored content type.
const maxContentType = 256

// storedContentType returns s as text that both engines store: UTF-8 without NUL, of limited length.
func storedContentType(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
	if len(s) > maxContentType {
		s = strings.ToValidUTF8(s[:maxContentType], "")
	}
	return s
}

// maxJSONDepth is the maximum nesting of the arrays and objects of a body that is shown as JSON. The parsers of
// receivers and of our own clients recurse, and fail somewhere beyond it (RFC 8259 section 9 allows that).
const maxJSONDepth = 512

// encodingOf decides how a body is shown. JSON is a body whose content type says so, or that has none and begins like
// an object or array, and that is valid and not nested too deep; other JSON is text.
func encodingOf(contentType string, body []byte) events.Encoding {
	if !utf8.Valid(body) {
		return events.Base64
	}
	if saysJSON(contentType, body) && !isNestedDeeper(body, maxJSONDepth) && verification.IsJSON(body) {
		return events.JSON
	}
	return events.Text
}

// isNestedDeeper reports whether the arrays and objects of a JSON text are nested deeper than most. For other text the
// result is undefined.
func isNestedDeeper(text []byte, most int) bool {
	if bytes.Count(text, []byte{'{'})+bytes.Count(text, []byte{'['}) <= most {
		return false // the common case, decided without a look at strings
	}
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++ // an escaped character does not end the string
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

func saysJSON(contentType string, body []byte) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil && (media == "application/json" || strings.HasSuffix(media, "+json") || media == "text/json") {
		return true
	}
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	return len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
}

// readHops returns how many gateways the event has passed: the greatest number if there are several. A value that is
// not a number counts as too many, because only a loop or a forgery sends it.
func readHops(h http.Header) int64 {
	var most int64
	for _, value := range h.Values("Sallyport-Hops") {
		for _, field := range strings.Split(value, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(field), 10, 16)
			if err != nil || n < 0 {
				n = math.MaxInt16
			}
			most = max(most, n)
		}
	}
	return most
}
