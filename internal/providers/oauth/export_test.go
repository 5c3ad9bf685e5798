package oauth

import (
	"net/http"
	"slices"
)

// BodyIs returns the Test whether the value at a path is one of these: a string, or a number or boolean as it is
// written. A path is names with dots between them, or a JSON pointer.
func BodyIs(path string, values ...string) Test {
	return func(_ int, _ http.Header, body []byte) bool {
		doc, err := parseDocument(body)
		if err != nil {
			return false
		}
		text, ok := doc.text(path)
		return ok && slices.Contains(values, text)
	}
}
