package ingest

import (
	"bytes"
	"encoding/json"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sallyport/internal/platform/secretbox"
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

// connectionOptions returns the canonical names of headers that the field Connection says are about this connection
// only (RFC 9110 section 7.6.1).
func connectionOptions(h http.Header) []string {
	var names []string
	for _, value := range h["Connection"] {
		for option := range strings.SplitSeq(value, ",") {
			switch option = strings.Trim(option, " \t"); {
			case option == "", strings.EqualFold(option, "close"), strings.EqualFold(option, "keep-alive"):
			default:
				names = append(names, http.CanonicalHeaderKey(option))
			}
		}
	}
	return names
}

// storedHeaders returns the headers as a JSON object of lower-case names, without hop-by-hop headers. Credentials and
// the headers of secret are redacted, which has names in lower case. Those of them that signatures names as well are
// returned as they came, as another such object, which is empty if there are none. So are the headers of first, which
// receivers need before others.
func storedHeaders(h http.Header, secret, signatures, first []string) (shown, kept string) {
	names := make([]string, 0, len(h))
	options := connectionOptions(h)
	for name := range h {
		if !hopByHop(name) && !slices.Contains(options, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	b := append(make([]byte, 0, 512), '{')
	var own []byte
	var buffer [64]byte
	for _, name := range names {
		lower := appendLower(buffer[:0], name)
		is := func(s string) bool { return s == string(lower) }
		value := strings.Join(h[name], ", ")
		switch {
		case events.IsCredential(string(lower)):
			value = secretbox.Redacted
		case slices.ContainsFunc(secret, is):
			if slices.ContainsFunc(signatures, is) {
				own = appendMember(own, lower, value)
			}
			value = secretbox.Redacted
		case slices.ContainsFunc(first, is):
			own = appendMember(own, lower, value)
		}
		b = appendMember(b, lower, value)
	}
	if own != nil {
		kept = string(append(own, '}'))
	}
	return string(append(b, '}')), kept
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
