package verification

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pointer is a JSON pointer (RFC 6901).
type pointer struct{ refs []string }

var errPointer = errors.New("is not a JSON pointer: it starts with /, and ~ stands only in ~0 and ~1 (RFC 6901)")

// parsePointer reads a pointer. The one to the whole document, which is empty, is refused: it is a slip in a definition.
func parsePointer(s string) (pointer, error) {
	if !strings.HasPrefix(s, "/") || len(s) > maxText || !utf8.ValidString(s) {
		return pointer{}, errPointer
	}
	refs := strings.Split(s[1:], "/")
	for i, ref := range refs {
		for rest := ref; ; {
			_, after, found := strings.Cut(rest, "~")
			if !found {
				break
			}
			if !strings.HasPrefix(after, "0") && !strings.HasPrefix(after, "1") {
				return pointer{}, errPointer
			}
			rest = after
		}
		refs[i] = strings.ReplaceAll(strings.ReplaceAll(ref, "~1", "/"), "~0", "~")
	}
	return pointer{refs: refs}, nil
}

// lookup returns the raw value that the pointer names in a JSON document (RFC 8259). Nothing is found in a document that is
// not valid JSON or nests deeper than maxJSONDepth. Of members with the same name the last counts, as it does to
// encoding/json, JavaScript and Python, so that type and id are those that the receiver of the event reads.
func (p pointer) lookup(doc []byte) ([]byte, bool) {
	s := scanner{data: doc}
	s.space()
	value, ok := s.value(0, p.refs, true)
	if !ok {
		return nil, false
	}
	s.space()
	return value, s.pos == len(s.data) && value != nil
}

// text returns the string, number or boolean that the pointer names: strings unescaped, the others as written. Null, objects
// and arrays have no text, nor have strings that are not Unicode text.
func (p pointer) text(doc []byte) (string, bool) {
	raw, ok := p.lookup(doc)
	if !ok {
		return "", false
	}
	switch raw[0] {
	case '"':
		return unquote(raw)
	case '{', '[', 'n':
		return "", false
	default:
		return string(raw), true
	}
}

// unquote returns the text of a scanned JSON string.
func unquote(raw []byte) (string, bool) {
	if !utf8.Valid(raw) {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	// encoding/json replaces the escape of a lone surrogate by U+FFFD, which would give different strings one text.
	if strings.ContainsRune(s, utf8.RuneError) {
		return "", false
	}
	return s, true
}

// scanner walks a JSON document once, checking all of it and copying nothing.
type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// next consumes c when it is the next byte.
func (s *scanner) next(c byte) bool {
	if s.pos < len(s.data) && s.data[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// value scans one value and returns the raw value that refs name inside it, when want is set; ok is false for invalid JSON.
func (s *scanner) value(depth int, refs []string, want bool) (found []byte, ok bool) {
	if depth > maxJSONDepth || s.pos >= len(s.data) {
		return nil, false
	}
	start := s.pos
	switch c := s.data[s.pos]; c {
	case '{':
		found, ok = s.object(depth, refs, want)
	case '[':
		found, ok = s.array(depth, refs, want)
	case '"':
		ok = s.str()
	case 't':
		ok = s.literal("true")
	case 'f':
		ok = s.literal("false")
	case 'n':
		ok = s.literal("null")
	default:
		ok = s.number()
	}
	if !ok {
		return nil, false
	}
	if want && len(refs) == 0 {
		found = s.data[start:s.pos]
	}
	return found, true
}

func (s *scanner) object(depth int, refs []string, want bool) (found []byte, ok bool) {
	s.pos++
	s.space()
	if s.next('}') {
		return nil, true
	}
	for {
		keyStart := s.pos
		if !s.str() {
			return nil, false
		}
		match := want && len(refs) > 0 && sameKey(s.data[keyStart:s.pos], refs[0])
		s.space()
		if !s.next(':') {
			return nil, false
		}
		s.space()
		inner, ok := s.value(depth+1, rest(refs), match)
		if !ok {
			return nil, false
		}
		if match {
			found = inner
		}
		s.space()
		if s.next('}') {
			return found, true
		}
		if !s.next(',') {
			return nil, false
		}
		s.space()
	}
}

func (s *scanner) array(depth int, refs []string, want bool) (found []byte, ok bool) {
	s.pos++
	s.space()
	if s.next(']') {
		return nil, true
	}
	wanted := -1
	if want && len(refs) > 0 {
		wanted = arrayIndex(refs[0])
	}
	for i := 0; ; i++ {
		inner, ok := s.value(depth+1, rest(refs), i == wanted)
		if !ok {
			return nil, false
		}
		if i == wanted {
			found = inner
		}
		s.space()
		if s.next(']') {
			return found, true
		}
		if !s.next(',') {
			return nil, false
		}
		s.space()
	}
}

// str scans a string, quotes included.
func (s *scanner) str() bool {
	if !s.next('"') {
		return false
	}
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		s.pos++
		switch {
		case c == '"':
			return true
		case c < ' ':
			return false
		case c == '\\':
			if !s.escape() {
				return false
			}
		}
	}
	return false
}

func (s *scanner) escape() bool {
	if s.pos >= len(s.data) {
		return false
	}
	c := s.data[s.pos]
	s.pos++
	if c != 'u' {
		return strings.IndexByte(`"\/bfnrt`, c) >= 0
	}
	for range 4 {
		if s.pos >= len(s.data) || !isHex(s.data[s.pos]) {
			return false
		}
		s.pos++
	}
	return true
}

func (s *scanner) literal(word string) bool {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return false
	}
	s.pos += len(word)
	return true
}

func (s *scanner) number() bool {
	s.next('-')
	if !s.next('0') && !s.digits() {
		return false
	}
	if s.next('.') && !s.digits() {
		return false
	}
	if s.next('e') || s.next('E') {
		if !s.next('+') {
			s.next('-')
		}
		return s.digits()
	}
	return true
}

// digits consumes one or more digits.
func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func rest(refs []string) []string {
	if len(refs) == 0 {
		return nil
	}
	return refs[1:]
}

// sameKey compares a scanned member name with a reference token.
func sameKey(raw []byte, ref string) bool {
	inner := raw[1 : len(raw)-1]
	if string(inner) == ref {
		// A name without escapes. A reference token with a backslash cannot equal a raw name: there it is doubled.
		return !strings.Contains(ref, `\`)
	}
	if bytes.IndexByte(inner, '\\') < 0 {
		return false
	}
	name, ok := unquote(raw)
	return ok && name == ref
}

// arrayIndex returns the index that a reference token names, or -1. RFC 6901 section 4 allows no leading zeros.
func arrayIndex(ref string) int {
	if ref == "" || len(ref) > 9 || ref[0] == '0' && len(ref) > 1 {
		return -1
	}
	n, err := strconv.ParseUint(ref, 10, 32)
	if err != nil {
		return -1
	}
	return int(n)
}
