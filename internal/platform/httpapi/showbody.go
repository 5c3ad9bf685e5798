package httpapi

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"sallyport/internal/platform/httpapi/oas"
)

// BodyEncoding says how ShowBody shows a body.
type BodyEncoding string

const (
	asText   BodyEncoding = "text"
	asBase64 BodyEncoding = "base64"
)

// Schema returns the schema with the encodings.
func (BodyEncoding) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]BodyEncoding{asText, asBase64})
}

// ShowBody returns a body as text if it is UTF-8 and in base64 otherwise. It omits an incomplete character at the end
// of a truncated body.
func ShowBody(body []byte, truncated bool) (text string, encoding BodyEncoding) {
	whole := body
	if truncated {
		whole = wholeRunes(body)
	}
	if utf8.Valid(whole) {
		return string(whole), asText
	}
	return base64.StdEncoding.EncodeToString(body), asBase64
}

// wholeRunes returns b without an incomplete character at its end.
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

// Milliseconds returns d in milliseconds with microsecond precision.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
