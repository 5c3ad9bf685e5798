package verification

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// bodyVariant is a body from which what arrived could have been made on its way.
type bodyVariant struct {
	name string
	body []byte
}

// bodyVariants returns what the sender may have signed when a proxy or framework touched the body.
func bodyVariants(body []byte) []bodyVariant {
	variants := []bodyVariant{
		{"with a line end behind it", append(bytes.Clone(body), '\n')},
		{"with a CR LF behind it", append(bytes.Clone(body), '\r', '\n')},
		{"without the line end behind it", bytes.TrimRight(body, "\r\n")},
		{"without the space around it", bytes.TrimSpace(body)},
		{"with LF instead of CR LF", bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))},
		{"with CR LF instead of LF", bytes.ReplaceAll(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))},
		{"without the byte order mark", bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))},
	}
	if _, ok := (pointer{}).lookup(body); !ok {
		return variants
	}
	var compact bytes.Buffer
	if json.Compact(&compact, body) != nil {
		return variants
	}
	tight := compact.Bytes()
	ascii := escapeJSON(tight, false)
	variants = append(variants,
		bodyVariant{"as JSON without spaces", tight},
		bodyVariant{"as JSON with a space behind each comma and colon", spaceJSON(tight)},
		bodyVariant{"as JSON with escapes for what is not ASCII", ascii},
		bodyVariant{"as JSON with spaces, and escapes for what is not ASCII", spaceJSON(ascii)},
		bodyVariant{"as JSON with escaped slashes", escapeJSON(tight, true)},
	)
	for _, indent := range []string{"  ", "    ", "\t"} {
		var out bytes.Buffer
		if json.Indent(&out, body, "", indent) == nil {
			variants = append(variants, bodyVariant{"as indented JSON", out.Bytes()})
		}
	}
	return append(variants, sortedJSON(body)...)
}

// sortedJSON returns the body with members sorted by name, as encoders write maps.
func sortedJSON(body []byte) []bodyVariant {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return nil
	}
	var variants []bodyVariant
	for _, html := range []bool{false, true} {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(html)
		if e.Encode(value) == nil {
			variants = append(variants, bodyVariant{"as JSON with sorted members", bytes.TrimSuffix(out.Bytes(), []byte("\n"))})
		}
	}
	return variants
}

// spaceJSON puts a space behind each comma and colon of compact JSON.
func spaceJSON(compact []byte) []byte {
	out := make([]byte, 0, len(compact)+len(compact)/4)
	inString := false
	for i := 0; i < len(compact); i++ {
		c := compact[i]
		out = append(out, c)
		switch {
		case inString && c == '\\' && i+1 < len(compact):
			i++
			out = append(out, compact[i])
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == ':'):
			out = append(out, ' ')
		}
	}
	return out
}

// escapeJSON escapes either the slashes of compact JSON, or the characters outside ASCII. Both stand in strings only.
func escapeJSON(compact []byte, slashes bool) []byte {
	out := make([]byte, 0, len(compact))
	for len(compact) > 0 {
		r, size := utf8.DecodeRune(compact)
		switch {
		case slashes && r == '/':
			out = append(out, '\\', '/')
		case slashes || r < utf8.RuneSelf:
			out = append(out, compact[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		compact = compact[size:]
	}
	return out
}
