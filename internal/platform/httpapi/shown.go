package httpapi

import (
	"encoding/base64"
	"time"
	"unicode/utf8"
)

// ShowBody returns a body as text where it is UTF-8, else in base64, and which of the two, "text" or "base64". Where
// the body was cut off, so may its last character have been; that part of it is left out.
func ShowBody(body []byte, truncated bool) (text, encoding string) {
	whole := body
	if truncated {
		whole = wholeRunes(body)
	}
	if utf8.Valid(whole) {
		return string(whole), "text"
	}
	return base64.StdEncoding.EncodeToString(body), "base64"
}

// wholeRunes returns b without the beginning of a character at its end.
func wholeRunes(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

// Milliseconds returns d in milliseconds, to the microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
