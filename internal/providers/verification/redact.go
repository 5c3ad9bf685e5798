package verification

import (
	"bytes"
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/secretbox"
)

// occurredRule is a checked OccurredAt.
type occurredRule struct {
	src    source
	format timestampFormat
}

func (c *compiler) compileOccurred(d *OccurredAt) {
	if d == nil {
		return
	}
	src, wrong := parseSource(d.From, eventSources)
	if wrong != "" {
		c.problems.add("event.occurred_at.from", ruleFormat, "%s", wrong)
	}
	rule := &occurredRule{src: src, format: timestampFormat(d.Format)}
	switch rule.format {
	case unixSeconds, unixMillis, rfc3339:
	default:
		c.problems.add("event.occurred_at.format", ruleEnum, "must be unix_s, unix_ms or rfc3339")
	}
	c.occurred = rule
}

// read returns the time, or zero. Nothing is decided by it, so what the sender writes is taken with fractions and in
// any length, as long as it is a year that can be stored.
func (o *occurredRule) read(w *view) time.Time {
	if o == nil {
		return time.Time{}
	}
	text, state := w.text(&o.src)
	if state != present {
		return time.Time{}
	}
	if o.format == rfc3339 {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil || at.Year() < 1970 || at.Year() > 9999 {
			return time.Time{}
		}
		return at.UTC()
	}
	whole, _, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	const lastSecond = 253402300799 // of the year 9999
	switch {
	case err != nil || n < 0:
		return time.Time{}
	case o.format == unixSeconds && n <= lastSecond:
		return time.Unix(n, 0).UTC()
	case o.format == unixMillis && n/1000 <= lastSecond:
		return time.UnixMilli(n).UTC()
	default:
		return time.Time{}
	}
}

// compileRedacted collects the values of the body that must not be stored: those that the declaration names, tokens,
// and signatures that do not cover the body, because anyone who reads those could send any other body.
func (c *compiler) compileRedacted(d *Declaration) {
	c.limit("event.redact", len(d.Event.Redact))
	for i, text := range d.Event.Redact {
		src, wrong := parseSource(text, redactSources)
		if wrong != "" {
			c.problems.add(at("event.redact", i), ruleFormat, "%s", wrong)
		}
		c.redactSource(&src)
	}
	for _, p := range c.proofs {
		if p.covers.body {
			continue
		}
		for i := range p.signatures {
			src := &p.signatures[i].src
			if each := p.content.each; each != nil && src.kind == sourceJSON {
				c.redacted = append(c.redacted, pattern{each.pointer, src.pointer})
				c.redactedFrom = append(c.redactedFrom, each.text+"/*"+strings.TrimPrefix(src.text, "json:"))
				continue
			}
			c.redactSource(src)
		}
	}
}

func (c *compiler) redactSource(src *source) {
	if src.kind&redactSources != 0 {
		c.redactedFrom = append(c.redactedFrom, src.text)
	}
	switch src.kind {
	case sourceJSON:
		c.redacted = append(c.redacted, pattern{src.pointer})
	case sourceItems:
		c.redacted = append(c.redacted, src.items)
	case sourceForm:
		c.redactedFields = append(c.redactedFields, src.name)
	default:
	}
}

// RedactBody returns the body as it may be stored and forwarded: with "[redacted]" in place of tokens and of the values
// that the declaration names. If there is nothing to redact, it is the request's own body, not a copy.
func (v *Verifier) RedactBody(r *Request) []byte {
	if !beginsJSON(r.Body) && (v.plan.formField != "" || len(v.plan.redactedFields) > 0) {
		return v.plan.redactForm(r.Body)
	}
	return v.plan.redactJSON(r.Body)
}

// redactForm takes the values out of a form: fields, and values of the JSON that a field holds. It copies nothing where
// there is nothing to take out: refused bodies come here too, and those may be all separators.
func (p *plan) redactForm(body []byte) []byte {
	var out []byte
	kept, start := 0, 0 // body[:kept] is in out, and start is where the pair begins
	for rest, more := body, true; more; {
		var pair []byte
		pair, rest, more = bytes.Cut(rest, []byte("&"))
		if value, changed := p.redactField(pair); changed {
			from := start + len(pair) - len(value.old)
			out = append(append(out, body[kept:from]...), value.new...)
			kept = start + len(pair)
		}
		start += len(pair) + 1
	}
	if kept == 0 {
		return body
	}
	return append(out, body[kept:]...)
}

// replaced is an encoded value of a form, and what is to stand in its stead.
type replaced struct {
	old []byte
	new string
}

// redactField reports whether there is something to take out of a name and value of a form.
func (p *plan) redactField(pair []byte) (value replaced, changed bool) {
	key, old, _ := bytes.Cut(pair, []byte("="))
	switch {
	case len(old) == 0:
	case slices.ContainsFunc(p.redactedFields, func(name string) bool { return isField(key, name) }):
		return replaced{old, url.QueryEscape(secretbox.Redacted)}, true
	case p.formField != "" && isField(key, p.formField):
		text, err := url.QueryUnescape(string(old))
		if redacted := string(p.redactJSON([]byte(text))); err == nil && redacted != text {
			return replaced{old, url.QueryEscape(redacted)}, true
		}
	}
	return replaced{}, false
}

func (p *plan) redactJSON(doc []byte) []byte {
	type span struct{ from, to int }
	var spans []span
	for _, place := range p.redacted {
		// Also a member that a later one of the same name overrides, because some parser may read it.
		place.everywhere(doc, func(raw []byte) {
			// raw lies in the document, and slicing keeps the end of the capacity.
			from := cap(doc) - cap(raw)
			spans = append(spans, span{from, from + len(raw)})
		})
	}
	if len(spans) == 0 {
		return doc
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	out := make([]byte, 0, len(doc))
	end := 0
	for _, s := range spans {
		if s.from < end { // inside what was taken out already
			continue
		}
		out = append(out, doc[end:s.from]...)
		out = append(append(append(out, '"'), secretbox.Redacted...), '"')
		end = s.to
	}
	return append(out, doc[end:]...)
}
