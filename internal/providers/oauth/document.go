package oauth

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a response: bytes, and objects and arrays in each other.
const (
	maxResponse = 1 << 20
	maxDepth    = 32
)

// errUnreadable means that a body is neither a JSON object nor a form. The reason is not said, because the
// body may hold tokens.
var errUnreadable = errors.New("the response is neither a JSON object nor a form")

// document is a response: a JSON object, or a form as an object of strings.
type document map[string]any

// parseDocument reads a body for what it is. Content types are not looked at: GitHub sends forms, others send JSON as
// text/html or text/plain.
//
// A name that occurs twice makes a body unreadable (RFC 6749, section 3.2), because two readers would take different
// values of it.
func parseDocument(body []byte) (document, error) {
	if len(body) > maxResponse || !utf8.Valid(body) {
		return nil, errUnreadable
	}
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	if len(body) == 0 {
		return nil, errUnreadable
	}
	switch c := body[0]; {
	case c == '{':
		return parseJSON(body)
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '%':
		return parseForm(body)
	default:
		return nil, errUnreadable
	}
}

func parseForm(body []byte) (document, error) {
	if bytes.ContainsAny(body, " \t\r\n<>\"{}") || !bytes.Contains(body, []byte("=")) {
		return nil, errUnreadable
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errUnreadable
	}
	doc := document{}
	for name, list := range values {
		if len(list) != 1 {
			return nil, errUnreadable
		}
		doc[name] = list[0]
	}
	return doc, nil
}

func parseJSON(body []byte) (document, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	value, err := readValue(decoder, 0)
	if err != nil {
		return nil, errUnreadable
	}
	// Nothing may follow the object.
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errUnreadable
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errUnreadable
	}
	return object, nil
}

// readValue reads the next value, which lies in depth objects and arrays.
func readValue(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == maxDepth {
		return nil, errUnreadable
	}
	if delim == '{' {
		return readObject(decoder, depth)
	}
	list := []any{}
	for decoder.More() {
		value, err := readValue(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err = decoder.Token()
	return list, err
}

func readObject(decoder *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if _, twice := object[name]; !ok || twice {
			return nil, errUnreadable
		}
		if object[name], err = readValue(decoder, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	return object, err
}

// at returns the value at a path (see parsePath), or nil.
func (d document) at(path string) any {
	if path == "" {
		return nil
	}
	var value any = map[string]any(d)
	for _, member := range parsePath(path) {
		switch v := value.(type) {
		case map[string]any:
			value = v[member]
		case []any:
			i, err := strconv.Atoi(member)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// text returns the string at a path, or a number or boolean as it is written.
func (d document) text(path string) (string, bool) {
	switch v := d.at(path).(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	default:
		return "", false
	}
}

// str returns the string at a path, or "".
func (d document) str(path string) string {
	s, _ := d.at(path).(string)
	return s
}

// Test judges a response, as a definition declares it. The body has at most 1 MiB and is foreign input.
type Test func(status int, header http.Header, body []byte) bool

// parsePath reads a path into a document: a JSON pointer (RFC 6901) if it begins with a slash, else names with dots
// between them.
func parsePath(path string) []string {
	rest, pointer := strings.CutPrefix(path, "/")
	if !pointer {
		return strings.Split(path, ".")
	}
	members := strings.Split(rest, "/")
	for i, member := range members {
		members[i] = strings.ReplaceAll(strings.ReplaceAll(member, "~1", "/"), "~0", "~")
	}
	return members
}
