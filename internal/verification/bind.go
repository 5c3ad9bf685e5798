package verification

import (
	"slices"
	"strings"
)

const paramOpen = "{param:"

// bound is a declaration with its parameters replaced and the entries left out that hang on an empty one. The field names
// of what is left are kept beside it, so that faults name places of the declaration as its author wrote it.
type bound struct {
	Declaration
	signatureFields, typeFields, idFields, controlFields, redactFields []string
}

// binder replaces parameters by values.
type binder struct {
	values map[string]string
	// uses lists the parameters that each field mentions.
	uses map[string][]string
	// live are the parameters that some field that was kept mentions.
	live map[string]bool
	// offBy names, for a parameter in an entry that was left out, the empty parameter that turned the entry off.
	offBy  map[string]string
	faults faults
}

// bind replaces the parameters in a declaration by values.
func bind(d Declaration, values map[string]string) (bound, *binder) {
	b := &binder{
		values: values,
		uses:   map[string][]string{},
		live:   map[string]bool{},
		offBy:  map[string]string{},
	}
	out := bound{Declaration: d}
	out.Scheme = b.text("scheme", d.Scheme)
	out.Algorithm = b.text("algorithm", d.Algorithm)
	out.Secret.Decode = b.text("secret.decode", d.Secret.Decode)
	out.Signature, out.signatureFields = bindEntries(b, "signature", d.Signature,
		func(s SignatureSource) string { return s.From }, b.signature)
	out.Signed = b.text("signed", d.Signed)
	if d.Timestamp != nil {
		from := func(t TimestampRule) string { return t.From }
		rule, keep := bindEntry(b, "timestamp", *d.Timestamp, from, b.timestamp)
		if out.Timestamp = &rule; !keep {
			out.Timestamp = nil
		}
	}
	if d.Body != nil {
		out.Body = &BodyRule{FormField: b.text("body.form_field", d.Body.FormField)}
	}
	whole := func(s string) string { return s }
	out.Event.Type, out.typeFields = bindEntries(b, "event.type", d.Event.Type, whole, b.text)
	out.Event.ID, out.idFields = bindEntries(b, "event.id", d.Event.ID, whole, b.text)
	out.Control, out.controlFields = bindEntries(b, "control", d.Control,
		func(p Predicate) string { return p.From }, b.predicate)
	out.RedactHeaders, out.redactFields = bindEntries(b, "redact_headers", d.RedactHeaders, whole, b.text)
	return out, b
}

// bindEntries binds the entries of a list, leaving out those whose deciding text mentions an empty parameter.
func bindEntries[T any](b *binder, list string, entries []T, decides func(T) string, one func(string, T) T) (kept []T, fields []string) {
	for i, entry := range entries {
		field := at(list, i)
		if result, keep := bindEntry(b, field, entry, decides, one); keep {
			kept, fields = append(kept, result), append(fields, field)
		}
	}
	return kept, fields
}

func bindEntry[T any](b *binder, field string, entry T, decides func(T) string, one func(string, T) T) (result T, keep bool) {
	off := b.emptyParam(decides(entry))
	if off == "" {
		return one(field, entry), true
	}
	live := b.live
	b.live = map[string]bool{}
	result = one(field, entry)
	for name := range b.live {
		b.offBy[name] = off
	}
	b.live = live
	return result, false
}

func (b *binder) signature(field string, s SignatureSource) SignatureSource {
	s.From = b.text(field+".from", s.From)
	s.Encoding = b.text(field+".encoding", s.Encoding)
	s.Parse.Prefix = b.text(field+".parse.prefix", s.Parse.Prefix)
	if kv := s.Parse.KV; kv != nil {
		s.Parse.KV = &KVParse{
			PairSep: b.text(field+".parse.kv.pair_sep", kv.PairSep),
			KVSep:   b.text(field+".parse.kv.kv_sep", kv.KVSep),
			Keys:    b.texts(field+".parse.kv.keys", kv.Keys),
		}
	}
	if list := s.Parse.List; list != nil {
		s.Parse.List = &ListParse{
			Sep:    b.text(field+".parse.list.sep", list.Sep),
			Prefix: b.text(field+".parse.list.prefix", list.Prefix),
		}
	}
	return s
}

func (b *binder) timestamp(field string, t TimestampRule) TimestampRule {
	t.From = b.text(field+".from", t.From)
	t.Format = b.text(field+".format", t.Format)
	t.MaxAgeS = b.text(field+".max_age_s", t.MaxAgeS)
	t.MaxSkewS = b.text(field+".max_skew_s", t.MaxSkewS)
	return t
}

func (b *binder) predicate(field string, p Predicate) Predicate {
	p.From = b.text(field+".from", p.From)
	p.Equals = b.texts(field+".equals", p.Equals)
	return p
}

func (b *binder) texts(field string, texts []string) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = b.text(at(field, i), s)
	}
	return out
}

// text replaces the parameters in one field. Values are not looked at again, so they cannot bring in further parameters.
func (b *binder) text(field, s string) string {
	var out strings.Builder
	for {
		before, name, after, found := cutParam(s)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		value, known := b.values[name]
		if !known {
			b.faults.add(field, RuleUnknown, "mentions a parameter that is not declared: %q", name)
		}
		if !slices.Contains(b.uses[field], name) {
			b.uses[field] = append(b.uses[field], name)
		}
		b.live[name] = true
		out.WriteString(value)
		s = after
	}
}

// emptyParam returns the first parameter that s mentions and that is empty.
func (b *binder) emptyParam(s string) string {
	for {
		_, name, after, found := cutParam(s)
		if !found {
			return ""
		}
		if value, known := b.values[name]; known && value == "" {
			return name
		}
		s = after
	}
}

// cutParam splits s around its first {param:name}; without one, before is all of s.
func cutParam(s string) (before, name, after string, found bool) {
	before, rest, found := strings.Cut(s, paramOpen)
	if !found {
		return s, "", "", false
	}
	name, after, found = strings.Cut(rest, "}")
	if !found {
		return s, "", "", false
	}
	return before, name, after, true
}
