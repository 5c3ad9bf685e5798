package verification

import (
	"bytes"
	"mime"
	"net/url"
	"slices"
	"strings"
)

// unknownType is the type of an event that does not tell its type.
const unknownType = "unknown"

// Event is what a delivery tells of itself.
type Event struct {
	// Type is 1 to 256 bytes of printable ASCII without spaces; "unknown" where none can be derived.
	Type string
	// ID is the provider's id of the delivery, at most 512 bytes of UTF-8 without NUL; empty where there is none.
	ID string
	// IDSource is where ID stood: "header:x-github-delivery", "json:/id", or "header:ce-source+ce-id" for a CloudEvents
	// source and id with a space between them. Empty without ID.
	IDSource string
	// IDSigned is true when the signature covers ID. Another ID is no protection against replays.
	IDSigned bool
	// Control is true for pings and confirmations, which are stored and not forwarded.
	Control bool
}

// Describe derives type, id and kind from a delivery. It looks at no signature: call it after Verify.
func (v *Verifier) Describe(r *Request) Event {
	w := &view{plan: v.plan, request: r}
	event := Event{Type: v.plan.eventType(w)}
	for i := range v.plan.ids {
		rule := &v.plan.ids[i]
		if id, ok := v.plan.eventID(w, rule); ok {
			event.ID, event.IDSource, event.IDSigned = id, rule.text, rule.signed
			break
		}
	}
	for _, p := range v.plan.control {
		if value, ok := v.plan.value(w, p.src); ok && slices.Contains(p.equals, value) {
			event.Control = true
			break
		}
	}
	return event
}

// eventType renders the first template whose tokens all have a value.
func (p *plan) eventType(w *view) string {
	for _, segments := range p.types {
		text, ok := p.render(w, segments)
		if !ok {
			continue
		}
		if renamed, ok := p.rename[text]; ok {
			return renamed
		}
		if printable(text, maxTypeBytes) {
			return text
		}
		return unknownType
	}
	return unknownType
}

func (p *plan) render(w *view, segments []segment) (string, bool) {
	var out strings.Builder
	for _, seg := range segments {
		if seg.kind == segmentLiteral {
			out.WriteString(seg.text)
			continue
		}
		value, ok := p.value(w, seg.src)
		if !ok {
			return "", false
		}
		out.WriteString(value)
	}
	return out.String(), true
}

// eventID joins the values of a rule's sources by a space, which no CloudEvents source contains.
func (p *plan) eventID(w *view, rule *idRule) (string, bool) {
	values := make([]string, 0, 2)
	for _, src := range rule.sources {
		value, ok := p.value(w, src)
		if !ok {
			return "", false
		}
		values = append(values, value)
	}
	id := strings.Join(values, " ")
	return id, validID(id)
}

// value reads a source; an empty value counts as none.
func (p *plan) value(w *view, src source) (string, bool) {
	if src.kind == sourceHeader {
		value, state := single(w.request.Header, src.name)
		return value, state == present
	}
	value, ok := p.jsonText(w, src)
	return value, ok && value != ""
}

func (p *plan) jsonText(w *view, src source) (string, bool) { return src.pointer.text(w.json()) }

// view finds a delivery's JSON when it is first asked for.
type view struct {
	plan    *plan
	request *Request
	found   bool
	doc     []byte
}

func (w *view) json() []byte {
	if !w.found {
		w.found = true
		w.doc = w.request.Body
		if w.plan.formField != "" && isForm(w.request.Header.Get("Content-Type")) {
			w.doc = formField(w.request.Body, w.plan.formField)
		}
	}
	return w.doc
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
