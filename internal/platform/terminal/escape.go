// Package terminal prints for people: text from outside that cannot control the terminal, and tables that fit it.
package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Inline returns s as one line of printable text: line breaks, control and format characters and invalid UTF-8 become
// escapes such as \n, \x1b and \u202e. Event types, ids and error texts come from outside, and a terminal executes
// control sequences.
func Inline(s string) string { return escape(s, false) }

// Text is Inline for text of several lines: it keeps line feeds and tabs.
func Text(s string) string { return escape(s, true) }

func escape(s string, lines bool) string {
	keep := func(r rune) bool { return unicode.IsPrint(r) || lines && (r == '\n' || r == '\t') }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !keep(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case keep(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		s = s[size:]
	}
	return b.String()
}

// JSON returns JSON text in which control characters of terminals are escaped. A parser reads the same values: such
// characters occur only in strings, where \u means the same. Blanks between tokens stay.
func JSON(text []byte) []byte {
	unsafe := func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) || r == utf8.RuneError }
	if !bytes.ContainsFunc(text, unsafe) {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case !unsafe(r):
			out = append(out, text[:size]...)
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
		text = text[size:]
	}
	return out
}
