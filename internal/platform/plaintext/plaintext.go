// Package plaintext says which characters the names that people give to things may have.
package plaintext

import "unicode"

// IsControl reports whether a character does not belong in a name that people read: a control character, or one that
// turns the direction of the text around it (Unicode Standard Annex #9, section 2), which makes a name show as another.
func IsControl(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
