package verification

import (
	"bytes"
	"mime"
	"net/url"
	"slices"
	"strings"
)

// view reads values of one webhook. It finds the JSON when it is first asked for.
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
	memo map[string]remembered
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
			w.doc, _ = formField(w.request.Body, w.formField)
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
	case sourceJWT:
		return jsonValue(w.claims, src)
	case sourceItem:
		return jsonValue(w.entry, src)
	case sourceItemMember:
		return member(w.entry, src.names)
	case sourceJSON, sourceForm, sourceMember:
		return w.bodyValue(src)
	default:
		return "", absent
	}
}

// remembered is the result of looking for a value of the body.
type remembered struct {
	text  string
	state presence
}

// bodyValue reads a source that stands in the body.
func (w *view) bodyValue(src *source) (text string, state presence) {
	if known, ok := w.memo[src.text]; ok {
		return known.text, known.state
	}
	switch src.kind {
	case sourceForm:
		text, state = w.formValue(src.name)
	case sourceMember:
		text, state = member(w.json(), src.names)
	default:
		text, state = jsonValue(w.json(), src)
	}
	if w.memo != nil {
		w.memo[src.text] = remembered{text, state}
	}
	return text, state
}

func jsonValue(doc []byte, src *source) (string, presence) {
	value, _ := src.pointer.text(doc)
	if value == "" {
		return "", absent
	}
	return value, present
}

// beginsJSON reports whether a body can only be JSON and not a form. The body decides and not its content type, which
// no signature covers: anyone who replays a webhook must not be able to change its interpretation.
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

// formValue returns a field of a body that is a form. A body that begins like JSON is none.
func (w *view) formValue(name string) (string, presence) {
	if beginsJSON(w.request.Body) {
		return "", absent
	}
	value, state := formField(w.request.Body, name)
	return string(value), state
}

// formField returns a field of a form (WHATWG URL standard, application/x-www-form-urlencoded), which may stand once.
// In a form of more than maxFormFields it has no value: no provider sends one, and a stranger's may be all separators.
func formField(body []byte, name string) ([]byte, presence) {
	var value []byte
	found := false
	for more, fields := true, 0; more; fields++ {
		if fields == maxFormFields {
			return nil, unfit
		}
		var pair []byte
		pair, body, more = bytes.Cut(body, []byte("&"))
		rawKey, rawValue, _ := bytes.Cut(pair, []byte("="))
		if !isField(rawKey, name) {
			continue
		}
		decoded, err := url.QueryUnescape(string(rawValue))
		if found || err != nil {
			return nil, unfit
		}
		found, value = true, []byte(decoded)
	}
	if len(value) == 0 {
		return nil, absent
	}
	return value, present
}

// isField compares the encoded name of a form's field with a name.
func isField(raw []byte, name string) bool {
	if string(raw) == name {
		return !strings.ContainsAny(name, "%+")
	}
	if bytes.IndexByte(raw, '%') < 0 && bytes.IndexByte(raw, '+') < 0 {
		return false
	}
	key, err := url.QueryUnescape(string(raw))
	return err == nil && key == name
}

// member returns the first of the names that the object in a document has as a member.
func member(doc []byte, names []string) (string, presence) {
	s := scanner{data: doc}
	s.space()
	best := len(names)
	isObject := s.members(func(raw []byte) {
		if i := slices.IndexFunc(names[:best], func(name string) bool { return sameKey(raw, name) }); i >= 0 {
			best = i
		}
	})
	if !isObject || best == len(names) {
		return "", absent
	}
	return names[best], present
}
