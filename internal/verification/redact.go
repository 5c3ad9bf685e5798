package verification

import (
	"cmp"
	"math"
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
		c.faults.add("event.occurred_at.from", RuleFormat, "%s", wrong)
	}
	rule := &occurredRule{src: src, format: timestampFormat(d.Format)}
	switch rule.format {
	case unixSeconds, unixMillis, rfc3339:
	default:
		c.faults.add("event.occurred_at.format", RuleEnum, "must be unix_s, unix_ms or rfc3339")
	}
	c.occurred = rule
}

// read returns the time, or zero. Nothing is decided by it, so what the sender writes is taken with fractions and in any
// length, as long as it is a year that can be stored.
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

// compileRedacted collects the values of the body that must not be stored: those that the declaration names, and tokens.
func (c *compiler) compileRedacted(d *Declaration) {
	c.limit("event.redact", len(d.Event.Redact))
	for i, text := range d.Event.Redact {
		src, wrong := parseSource(text, sourceJSON|sourceItems)
		if wrong != "" {
			c.faults.add(at("event.redact", i), RuleFormat, "%s", wrong)
		}
		c.redactSource(&src)
	}
	for _, p := range c.proofs {
		if p.scheme == schemeToken {
			for i := range p.signatures {
				c.redactSource(&p.signatures[i].src)
			}
		}
	}
	if len(c.redacted) > 0 && d.Body != nil {
		c.faults.add("event.redact", RuleCoherent, "cannot be combined with body.form_field: values inside a form's field are not taken out")
	}
}

func (c *compiler) redactSource(src *source) {
	switch src.kind {
	case sourceJSON:
		c.redacted = append(c.redacted, pattern{src.pointer})
	case sourceItems:
		c.redacted = append(c.redacted, src.items)
	default:
	}
}

// RedactBody returns the body as it may be stored and forwarded: with "[redacted]" in place of tokens and of what the
// declaration names. It is the request's own body, not a copy, where there is nothing to take out.
func (v *Verifier) RedactBody(r *Request) []byte {
	type span struct{ from, to int }
	var spans []span
	for _, p := range v.plan.redacted {
		p.each(r.Body, math.MaxInt, func(raw []byte, found bool) {
			if found {
				// raw lies in the body, and slicing keeps the end of the capacity.
				from := cap(r.Body) - cap(raw)
				spans = append(spans, span{from, from + len(raw)})
			}
		})
	}
	if len(spans) == 0 {
		return r.Body
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	out := make([]byte, 0, len(r.Body))
	end := 0
	for _, s := range spans {
		if s.from < end { // inside what was taken out already
			continue
		}
		out = append(out, r.Body[end:s.from]...)
		out = append(append(append(out, '"'), secretbox.Redacted...), '"')
		end = s.to
	}
	return append(out, r.Body[end:]...)
}
