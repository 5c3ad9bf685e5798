package verification

import (
	"bytes"
	"mime"
	"net/url"
	"strings"
)

// view reads values of one delivery. It finds the JSON when it is first asked for.
type view struct {
	request   *Request
	formField string
	// item is the array's item on which a signature stands where each item has its own; JSON is then read from it.
	item []byte
	// entry is the item of a batch that is described.
	entry []byte
	// claims is the payload of the token that was verified.
	claims []byte
	found  bool
	doc    []byte
	// memo keeps values of the body while the items of a batch are described, so that the body is not read again for each.
	memo map[string]string
}

func (w *view) reset(r *Request, formField string) {
	*w = view{request: r, formField: formField}
}

func (w *view) json() []byte {
	if w.item != nil {
		return w.item
	}
	if !w.found {
		w.found = true
		w.doc = w.request.Body
		if w.formField != "" && !beginsJSON(w.doc) {
			w.doc = formField(w.request.Body, w.formField)
		}
	}
	return w.doc
}

// text reads a source that holds one value. An empty value counts as absent.
func (w *view) text(src *source) (string, presence) {
	switch src.kind {
	case sourceHeader:
		return src.header(w.request.Header)
	case sourceQuery:
		return queryValue(w.request.RawQuery, src.name)
	case sourceMethod:
		return w.request.Method, present
	case sourceJSON, sourceJWT, sourceItem:
		value := w.value(src)
		if value == "" {
			return "", absent
		}
		return value, present
	default:
		return "", absent
	}
}

// value reads a JSON source; it is empty where there is none.
func (w *view) value(src *source) string {
	doc := w.claims
	switch src.kind {
	case sourceItem:
		doc = w.entry
	case sourceJSON:
		if value, known := w.memo[src.text]; known {
			return value
		}
		doc = w.json()
	default:
	}
	value, _ := src.pointer.text(doc)
	if w.memo != nil && src.kind == sourceJSON {
		w.memo[src.text] = value
	}
	return value
}

// beginsJSON reports whether a body can only be JSON and no form. The body decides and not its content type, which no
// signature covers: whoever replays a delivery must not be able to have it read in another way.
func beginsJSON(body []byte) bool {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	return len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
}

// queryValue returns a parameter of a raw query, which may stand once.
func queryValue(query, name string) (string, presence) {
	if len(query) > maxQueryBytes {
		return "", unfit
	}
	value, found := "", absent
	for more := true; more; {
		var pair string
		pair, query, more = strings.Cut(query, "&")
		rawKey, rawValue, _ := strings.Cut(pair, "=")
		if key, err := url.QueryUnescape(rawKey); err != nil || key != name {
			continue
		}
		decoded, err := url.QueryUnescape(rawValue)
		if found != absent || err != nil {
			return "", unfit
		}
		if value = decoded; value != "" {
			found = present
		}
	}
	return value, found
}

func isForm(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/x-www-form-urlencoded"
}

// formField returns a field of a form (WHATWG URL standard, application/x-www-form-urlencoded), or nothing when it is
// missing, stands twice or cannot be decoded.
func formField(body []byte, name string) []byte {
	var value []byte
	found := false
	for more := true; more; {
		var pair []byte
		pair, body, more = bytes.Cut(body, []byte("&"))
		rawKey, rawValue, _ := bytes.Cut(pair, []byte("="))
		key, err := url.QueryUnescape(string(rawKey))
		if err != nil || key != name {
			continue
		}
		if found {
			return nil
		}
		found = true
		decoded, err := url.QueryUnescape(string(rawValue))
		if err != nil {
			return nil
		}
		value = []byte(decoded)
	}
	return value
}
