package documents

import (
	"encoding/json"
	"strconv"
	"strings"

	"sallyport/internal/platform/jsonindex"
)

// This file has the ways in which schemas of Google Discovery differ from those of OpenAPI: they write all constants as
// strings, describe each value of an enum, and have keywords next to a reference.

// is reports whether a schema, or the one to which it refers, has a keyword that is true. Before OpenAPI 3.1, keywords
// next to a reference mean nothing.
func (d *Document) is(v jsonindex.Value, keyword string) bool {
	return d.resolve(v).Get(keyword).Bool() || (d.Format == Discovery || d.Format == OpenAPI31) && v.Get(keyword).Bool()
}

// describe returns the description of a schema, with those of the values of its enum.
func (d *Document) describe(v jsonindex.Value) string {
	text := prose(v.Get("description"), maxInSchema)
	descriptions := v.Get("enumDescriptions")
	if d.Format != Discovery || descriptions.Kind() != jsonindex.Array {
		return text
	}
	var values []string
	for value := range v.Get("enum").Items() {
		values = append(values, line(value, maxTag))
	}
	var out strings.Builder
	out.WriteString(text)
	for words := range descriptions.Items() {
		if len(values) == 0 || out.Len() > maxInSchema {
			break
		}
		if words := line(words, maxTitle); words != "" && values[0] != "" {
			out.WriteString("\n- " + values[0] + ": " + words)
		}
		values = values[1:]
	}
	return short(strings.TrimSpace(out.String()), maxInSchema)
}

// format returns the name by which validators know a format.
func (d *Document) format(name string) string {
	if d.Format == Discovery && name == "google-datetime" {
		return "date-time"
	}
	return name
}

// literal returns the JSON of a default, a constant or a value of an enum; nil for one that does not fit the type.
func (d *Document) literal(v jsonindex.Value, types []string) []byte {
	text, isText := v.Text()
	if d.Format != Discovery || !isText || len(types) == 0 || types[0] == "string" {
		if !isMeasured(v) {
			return nil
		}
		return v.Raw()
	}
	switch types[0] {
	case "boolean":
		if text == "true" || text == "false" {
			return []byte(text)
		}
	case "integer", "number":
		if isNumber(text) {
			return []byte(text)
		}
	}
	return nil
}

// limit returns the JSON of a limit of numbers; nil for none.
func (d *Document) limit(v jsonindex.Value, types []string) []byte {
	if v.Kind() == jsonindex.Number && isMeasured(v) {
		return v.Raw()
	}
	if d.Format == Discovery && len(types) == 1 && (types[0] == "integer" || types[0] == "number") &&
		isNumber(v.String()) {
		return []byte(v.String())
	}
	return nil
}

// isNumber reports whether a text is a number of JSON.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && json.Valid([]byte(text)) &&
		isMeasuredNumber(text)
}

// isMeasured reports whether the numbers in a value have so few digits that a validator can compute with them: it
// writes them out, and 1e999999 has a million.
func isMeasured(v jsonindex.Value) bool {
	if v.Kind() == jsonindex.Number {
		return isMeasuredNumber(string(v.Raw()))
	}
	for item := range v.Items() {
		if !isMeasured(item) {
			return false
		}
	}
	for _, member := range v.Members() {
		if !isMeasured(member) {
			return false
		}
	}
	return true
}

// maxDigits is how many digits a number has at most when it is written out: all that a float64 can have.
const maxDigits = 400

func isMeasuredNumber(text string) bool {
	if len(text) > maxDigits {
		return false
	}
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return true
	}
	exponent, err := strconv.Atoi(text[at+1:])
	return err == nil && exponent >= -maxDigits && exponent <= maxDigits
}
