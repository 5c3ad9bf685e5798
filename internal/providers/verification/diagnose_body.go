package verification

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// bodyVariant is a body from which what arrived could have been made on its way.
type bodyVariant struct {
	name string
	body []byte
}

// bodyVariants yields what the sender may have signed when a proxy or framework touched the body.
func bodyVariants(body []byte) iter.Seq[bodyVariant] {
	return func(yield func(bodyVariant) bool) {
		_ = textVariants(body, yield) && jsonVariants(body, yield)
	}
}

// textVariants is false where no more are wanted.
func textVariants(body []byte, yield func(bodyVariant) bool) bool {
	lf := bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
	return yield(bodyVariant{"with a line end behind it", append(bytes.Clone(body), '\n')}) &&
		yield(bodyVariant{"with a CR LF behind it", append(bytes.Clone(body), '\r', '\n')}) &&
		yield(bodyVariant{"without the line end behind it", bytes.TrimRight(body, "\r\n")}) &&
		yield(bodyVariant{"without the space around it", bytes.TrimSpace(body)}) &&
		yield(bodyVariant{"with LF instead of CR LF", lf}) &&
		yield(bodyVariant{"with CR LF instead of LF", bytes.ReplaceAll(lf, []byte("\n"), []byte("\r\n"))}) &&
		yield(bodyVariant{"without the byte order mark", bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))}) &&
		yield(bodyVariant{"as a form with + for spaces", bytes.ReplaceAll(body, []byte("%20"), []byte("+"))}) &&
		yield(bodyVariant{"as a form with %20 for spaces", bytes.ReplaceAll(body, []byte("+"), []byte("%20"))})
}

// jsonVariants yields the body as the usual encoders write it: each way to escape with each way to space, and last with
// its members sorted. It is false where no more are wanted.
func jsonVariants(body []byte, yield func(bodyVariant) bool) bool {
	var compact bytes.Buffer
	if _, ok := (pointer{}).lookup(body); !ok || json.Compact(&compact, body) != nil {
		return true
	}
	tight := compact.Bytes()
	plain := unescapeJSON(tight)
	for _, escaped := range []bodyVariant{
		{"", tight},
		{" and no escapes that it can do without", plain},
		{" and escapes for non-ASCII characters", escapeJSON(plain, escapeUnicode)},
		{" and escaped slashes", escapeJSON(plain, escapeSlashes)},
		{" and escapes for slashes and non-ASCII characters", escapeJSON(plain, escapeSlashes|escapeUnicode)},
		{" and escapes for <, > and &", escapeJSON(plain, escapeHTML)},
	} {
		if !yield(bodyVariant{"as JSON without spaces" + escaped.name, escaped.body}) ||
			!yield(bodyVariant{"as JSON with a space behind each comma and colon" + escaped.name, spaceJSON(escaped.body)}) {
			return false
		}
		for _, indent := range []string{"  ", "    ", "\t"} {
			var out bytes.Buffer
			if json.Indent(&out, escaped.body, "", indent) == nil &&
				!yield(bodyVariant{"as indented JSON" + escaped.name, out.Bytes()}) {
				return false
			}
		}
	}
	for _, v := range sortedJSON(body) {
		if !yield(v) {
			return false
		}
	}
	return true
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

// escapes are the characters that an encoder of JSON escapes in addition to those that it must.
type escapes int

const (
	escapeUnicode escapes = 1 << iota // what is not ASCII
	escapeSlashes
	escapeHTML // <, > and &, and the line ends U+2028 and U+2029
)

// escapeJSON escapes characters of compact JSON. All of them stand in strings only.
func escapeJSON(compact []byte, what escapes) []byte {
	out := make([]byte, 0, len(compact))
	for len(compact) > 0 {
		r, size := utf8.DecodeRune(compact)
		isHTML := r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029'
		switch {
		case r == '/' && what&escapeSlashes != 0:
			out = append(out, '\\', '/')
		case r > 0xffff && what&escapeUnicode != 0:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		case isHTML && what&escapeHTML != 0, r >= utf8.RuneSelf && what&escapeUnicode != 0:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, compact[:size]...)
		}
		compact = compact[size:]
	}
	return out
}

// unescapeJSON replaces the escapes in compact JSON by the characters that they mean, where a string can hold them.
func unescapeJSON(compact []byte) []byte {
	out := make([]byte, 0, len(compact))
	for i := 0; i < len(compact); {
		size := 1
		if compact[i] == '\\' && i+1 < len(compact) {
			var r rune
			if size, r = readEscape(compact[i:]); r != 0 {
				out = utf8.AppendRune(out, r)
				i += size
				continue
			}
		}
		out = append(out, compact[i:i+size]...)
		i += size
	}
	return out
}

// readEscape returns the length of the escape that s begins with, and the character that it means; 0 for one that has
// to stay.
func readEscape(s []byte) (size int, r rune) {
	if s[1] == '/' {
		return 2, '/'
	}
	first, ok := readUnit(s)
	if !ok {
		return 2, 0
	}
	if utf16.IsSurrogate(first) {
		if second, ok := readUnit(s[6:]); ok && utf16.DecodeRune(first, second) != utf8.RuneError {
			return 12, utf16.DecodeRune(first, second)
		}
		return 6, 0
	}
	if first < ' ' || first == '"' || first == '\\' {
		return 6, 0
	}
	return 6, first
}

// readUnit reads one \uXXXX.
func readUnit(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	return rune(n), err == nil
}
