package verification

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// pointer is a JSON pointer (RFC 6901).
type pointer struct{ refs []string }

var errPointer = errors.New("is not a JSON pointer: it starts with /, and ~ occurs only in ~0 and ~1 (RFC 6901)")

// parsePointer reads a pointer. The one to the whole document, which is empty, is refused: it is a slip in a
// definition.
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

// lookup returns the raw value that the pointer names in a JSON document (RFC 8259). Nothing is found in a document
// that is not valid JSON or nests deeper than maxJSONDepth. Of members with the same name the last counts, as it does
// to encoding/json, JavaScript and Python, so that type and id are those that the receiver of the event reads.
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

// text returns the string, number or boolean that the pointer names: strings unescaped, the others as written. Null,
// objects and arrays have no text, nor have strings that are not Unicode text.
func (p pointer) text(doc []byte) (string, bool) { return scalar(p.lookup(doc)) }

// scalar returns the text of a raw value.
func scalar(raw []byte, ok bool) (string, bool) {
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
