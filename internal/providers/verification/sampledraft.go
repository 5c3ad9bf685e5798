package verification

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// draft is a webhook that is being made.
type draft struct {
	header http.Header
	query  url.Values
	// body is the JSON as encoding/json reads it into an any, with numbers as json.Number; nil if there is none yet. A
	// form has fields instead, or both: then the JSON is the value of the field that is called inField.
	body    any
	form    bool
	inField string
	fields  url.Values
	// items are the items of the body's batch.
	items []map[string]any
}

func newDraft() *draft {
	return &draft{header: http.Header{}, query: url.Values{}, fields: url.Values{}}
}

func (d *draft) clone() *draft {
	out := newDraft()
	out.header, out.query, out.form, out.inField = d.header.Clone(), maps.Clone(d.query), d.form, d.inField
	out.fields, out.body = maps.Clone(d.fields), cloneJSON(d.body)
	return out
}

func cloneJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = cloneJSON(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = cloneJSON(item)
		}
		return out
	default:
		return v
	}
}

// readJSON takes a body; it is false for one that is no object or array.
func (d *draft) readJSON(body []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if !json.Valid(body) || decoder.Decode(&d.body) != nil {
		return false
	}
	switch d.body.(type) {
	case map[string]any, []any:
		return true
	default:
		return false
	}
}

func (d *draft) readForm(body []byte) {
	d.form = true
	if fields, err := url.ParseQuery(strings.TrimSpace(string(body))); err == nil {
		d.fields = fields
	}
}

// encoded returns the body as it is sent. An object of plain values becomes the fields of a form that is needed.
func (d *draft) encoded() []byte {
	if !d.form {
		return encodeJSON(d.body)
	}
	fields := maps.Clone(d.fields)
	if d.inField != "" {
		fields.Set(d.inField, string(encodeJSON(d.body)))
	} else if members, ok := d.body.(map[string]any); ok {
		for name, value := range members {
			if !fields.Has(name) {
				fields.Set(name, asText(value))
			}
		}
	}
	return []byte(fields.Encode())
}

func encodeJSON(v any) []byte {
	if v == nil {
		return []byte("{}")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("{}") // what was decoded can be encoded
	}
	return bytes.TrimSpace(b.Bytes())
}

func asText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(encodeJSON(v))
}

// request returns the webhook as the verifier sees it.
func (d *draft) request(o *SampleOrder) *Request {
	h := d.header.Clone()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
		if d.form {
			h.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
	return &Request{Method: http.MethodPost, PublicURL: o.PublicURL, Path: o.Path, RawQuery: d.query.Encode(), Header: h,
		Body: d.encoded(), RemoteIP: o.RemoteIP, Now: o.Now}
}

// set gives a source a value. It is false if the body has a form in which there is no such place.
func (d *draft) set(src *source, value string) bool { return d.put(src, value) }

// put is set for values other than strings too.
func (d *draft) put(src *source, value any) bool {
	text := asText(value)
	switch src.kind {
	case sourceHeader, sourceSequence:
		names := src.headers()
		name := names[0]
		for _, other := range names {
			if d.header.Get(other) != "" {
				name = other
			}
		}
		d.header.Set(name, text)
	case sourceQuery:
		d.query.Set(src.name, text)
	case sourceForm:
		if !d.form {
			return false
		}
		d.fields.Set(src.name, text)
	case sourceJSON:
		return d.takesJSON(src.pointer.refs) && putAt(&d.body, src.pointer.refs, value)
	case sourceItems:
		return !d.form && putAll(&d.body, src.items, value)
	case sourceMember:
		return !d.form && putAt(&d.body, []string{text}, []any{})
	case sourceItem:
		return d.putInItems(src.pointer.refs, value)
	case sourceItemMember:
		return d.putInItems([]string{text}, []any{})
	default:
		return false
	}
	return true
}

// takesJSON reports whether the JSON can have a member at a place. The JSON in a form is declared whole, or ordered,
// and gets no objects that it does not have.
func (d *draft) takesJSON(refs []string) bool {
	if d.inField == "" {
		return !d.form
	}
	at := d.body
	for _, ref := range refs[:max(len(refs)-1, 0)] {
		members, _ := at.(map[string]any)
		at = members[ref]
	}
	_, isObject := at.(map[string]any)
	return isObject
}

// putInItems sets a value of each item of the batch.
func (d *draft) putInItems(refs []string, value any) bool {
	if len(refs) == 0 {
		return false
	}
	for _, item := range d.items {
		var root any = item
		if !putAt(&root, refs, value) {
			return false
		}
	}
	return len(d.items) > 0
}

// has reports whether a source has a value.
func (d *draft) has(src *source) bool {
	if src.kind == sourceItem {
		if len(d.items) == 0 {
			return false
		}
		_, state := jsonValue(encodeJSON(d.items[0]), src)
		return state == present
	}
	w := view{request: d.request(&SampleOrder{}), formField: d.inField}
	_, state := w.text(src)
	return state == present
}

// satisfy makes a predicate true if it can be.
func (d *draft) satisfy(p *predicate, id string) {
	switch {
	case p.empty:
	case p.equals != nil:
		d.set(&p.src, p.equals[0])
	case !d.has(&p.src):
		d.set(&p.src, id)
	}
}

// setID gives the sources of an id values: the one that is called an id gets the sample's, and each other keeps its
// value or gets a plain one.
func (d *draft) setID(rule *idRule, id string) bool {
	own := 0
	for i := range rule.sources {
		if strings.HasSuffix(strings.ToLower(rule.sources[i].text), "id") {
			own = i
		}
	}
	for i := range rule.sources {
		src := &rule.sources[i]
		switch {
		case i == own:
			if !d.set(src, id) {
				return false
			}
		case !d.has(src):
			if !d.set(src, "sample") {
				return false
			}
		}
	}
	return true
}

// setTime gives a source a time.
func (d *draft) setTime(src *source, format timestampFormat, at time.Time) bool {
	text := format.write(at)
	if src.inBody() && format != rfc3339 {
		return d.put(src, json.Number(text))
	}
	return d.set(src, text)
}

// write returns a time in the format.
func (f timestampFormat) write(at time.Time) string {
	switch f {
	case unixSeconds:
		return strconv.FormatInt(at.Unix(), 10)
	case unixMillis:
		return strconv.FormatInt(at.UnixMilli(), 10)
	default:
		return at.UTC().Format("2006-01-02T15:04:05.000Z")
	}
}

// mark puts the sample's id into the body, where IsSample finds it. It is false for a body without a place for it.
func (d *draft) mark(id string) bool {
	if d.form {
		d.fields.Set(sampleMark, id)
		return true
	}
	if d.body == nil {
		d.body = map[string]any{}
	}
	places, ok := d.body.([]any)
	if !ok {
		places = []any{d.body}
	}
	for _, place := range places {
		if object, ok := place.(map[string]any); ok {
			object[sampleMark] = id
			return true
		}
	}
	return false
}

// sampleMark is the member or field of a sample's body that marks it. It makes the body differ from every other one, so
// that the second sample of a type is no duplicate, and as the signature covers it, no one can remove it.
const sampleMark = "sallyport_sample"

// IsSample reports whether a body has the mark of a sample: as a member of the object or of an object in the array that
// the body is, or as a field of the form.
func IsSample(body []byte) bool {
	if !bytes.Contains(body, []byte(sampleMark)) {
		return false // the common case
	}
	if !beginsJSON(body) {
		fields, err := url.ParseQuery(strings.TrimSpace(string(body)))
		return err == nil && fields.Has(sampleMark)
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) != nil {
		list = []json.RawMessage{body}
	}
	return slices.ContainsFunc(list, func(item json.RawMessage) bool {
		var members map[string]json.RawMessage
		return json.Unmarshal(item, &members) == nil && members[sampleMark] != nil
	})
}

// openBatch finds the items of the body's batch, or makes one. It is false if the items are no objects.
func (d *draft) openBatch(b *batchRule) bool {
	if d.form {
		return false
	}
	for _, places := range b.items {
		if items, ok := openItems(&d.body, places); ok {
			d.items = items
			return true
		}
	}
	return false
}

// openItems returns the objects that a pattern names, and makes the first one where there is none.
func openItems(at *any, places pattern) ([]map[string]any, bool) {
	if len(places) == 1 {
		if *at == nil {
			*at = map[string]any{}
		}
		object, ok := (*at).(map[string]any)
		return []map[string]any{object}, ok
	}
	var items []map[string]any
	ok := eachOf(at, places[0].refs, func(item *any) bool {
		found, ok := openItems(item, places[1:])
		items = append(items, found...)
		return ok
	})
	return items, ok && len(items) > 0
}

// eachOf calls visit with each item of the array at refs, and makes an array with one item where there is none.
func eachOf(at *any, refs []string, visit func(item *any) bool) bool {
	return reach(at, refs, func(place *any) bool {
		list, ok := (*place).([]any)
		if *place == nil || ok && len(list) == 0 {
			list, ok = []any{nil}, true
		}
		if !ok {
			return false
		}
		for i := range list {
			if !visit(&list[i]) {
				return false
			}
		}
		*place = list
		return true
	})
}

// putAt sets the value at refs, and makes the objects and arrays on the way.
func putAt(at *any, refs []string, value any) bool {
	return reach(at, refs, func(place *any) bool {
		*place = value
		return true
	})
}

// putAll sets every value that a pattern names.
func putAll(at *any, places pattern, value any) bool {
	if len(places) == 1 {
		return putAt(at, places[0].refs, value)
	}
	return eachOf(at, places[0].refs, func(item *any) bool { return putAll(item, places[1:], value) })
}

// reach calls visit with the place that refs name below at. It is false if a plain value stands in the way.
func reach(at *any, refs []string, visit func(place *any) bool) bool {
	if len(refs) == 0 {
		return visit(at)
	}
	ref := refs[0]
	if *at == nil && ref == "0" {
		*at = []any{}
	} else if *at == nil {
		*at = map[string]any{}
	}
	switch parent := (*at).(type) {
	case map[string]any:
		member := parent[ref]
		if !reach(&member, refs[1:], visit) {
			return false
		}
		parent[ref] = member
		return true
	case []any:
		n, err := strconv.Atoi(ref)
		if err != nil || n < 0 || n > len(parent) || strconv.Itoa(n) != ref {
			return false
		}
		parent = slices.Clone(parent)
		if n == len(parent) {
			parent = append(parent, nil)
		}
		if !reach(&parent[n], refs[1:], visit) {
			return false
		}
		*at = parent
		return true
	default:
		return false
	}
}
