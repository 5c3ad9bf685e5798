package verification

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"sallyport/internal/providers/eventtypes"
)

// SampleHeader is the header of a sample. Its value is the sample's id.
const SampleHeader = "Sallyport-Sample"

// SampleBody is what the provider sends with events of one type, or of a family of types. Samples are made from it.
type SampleBody struct {
	// Type is the event type, as the rules derive it; a.* for a and the types below it, and * for every type.
	Type string `yaml:"type"`
	// Body is JSON, or a form if it begins neither with { nor with [. The members and fields that type, id, times and
	// signature are read from are replaced. A body of a family is for types without one of their own. Empty with Headers
	// for none.
	Body string `yaml:"body"`
	// InFormField is true for JSON that the provider sends in the field of a form which body.form_field names. Such
	// webhooks get no id and no time that the body does not have.
	InFormField bool `yaml:"in_form_field"`
	// Headers are headers that the provider sends and that are no part of the signature, the type or the id. All that
	// fit a type are set, later ones in place of earlier ones.
	Headers map[string]string `yaml:"headers"`
}

// fits reports whether an event type is the one, or of the family.
func (s *SampleBody) fits(eventType string) bool {
	family, ok := strings.CutSuffix(s.Type, eventtypes.Wildcard)
	return s.Type == eventType || ok && (strings.HasPrefix(eventType, family) || eventType+"." == family)
}

const (
	// maxSampleBody bounds the body of a SampleBody, in bytes.
	maxSampleBody = 16 << 10
	// maxSampleTrials bounds the ways to make a sample that are looked at.
	maxSampleTrials = 200
)

// SampleOrder describes a sample: a webhook like one of the provider's, signed with the connection's newest secret.
type SampleOrder struct {
	// Type is the event type that the webhook must have.
	Type string
	// Known are the types that the provider is known to send: a type is spelled as one of them.
	Known []eventtypes.Known
	// Data is the JSON of the body; nil for the declaration's body of that type, or else a minimal one. The members that
	// type, id, times and signature are read from are replaced.
	Data []byte
	// ID distinguishes the webhook from every other one: letters, digits and underscores.
	ID string
	// PublicURL and Path are as those of a Request.
	PublicURL, Path string
	// RemoteIP is the address to send from. It matters if the declaration names the provider's networks.
	RemoteIP netip.Addr
	Now      time.Time
}

// Sample is a webhook that the Verifier accepts.
type Sample struct {
	Header   http.Header
	RawQuery string
	Body     []byte
	// Event is the description that Describe derives from it.
	Event Event
	// Minimal reports that the body has only what the gateway reads from it: nothing was ordered, and the declaration
	// has no body of the type or its family.
	Minimal bool
}

// Errors of Verifier.Sample.
var (
	// ErrSampleKeys says that the provider signs with a private key. The gateway has only the public one, which verifies
	// and cannot sign.
	ErrSampleKeys = errors.New("the provider signs with a private key, which only the provider has")
	// ErrSampleSecret says that the connection has no secret to sign with.
	ErrSampleSecret = errors.New("the connection has no webhook secret to sign with")
	// ErrSampleType says that no webhook that can be made has the type.
	ErrSampleType = errors.New("the provider's definition derives no such event type")
	// ErrSampleData says that the data is no JSON object and no array with one, and so has no place for the mark.
	ErrSampleData = errors.New("the data is no JSON object or array with one")
)

// Sample makes a webhook of the type, which can be written as the provider writes it, and signs it as the declaration
// describes. The result passes Verify, is no handshake, and Describe derives the type from it. Errors: ErrSampleKeys,
// ErrSampleSecret, ErrSampleType and ErrSampleData.
func (v *Verifier) Sample(ctx context.Context, o SampleOrder) (*Sample, error) {
	if normal := v.plan.rules.Normal(o.Type); normal != "" {
		o.Type = normal
	}
	ways, err := v.plan.root.signable()
	if err != nil {
		return nil, err
	}
	base, err := v.plan.sampleBase(&o)
	if err != nil {
		return nil, err
	}
	trials := 0
	for _, plan := range v.plan.typePlans(&o, base.body) {
		for _, way := range ways {
			if trials++; trials > maxSampleTrials {
				return nil, ErrSampleType
			}
			d := base.clone()
			if !v.plan.fill(d, &plan, &o) || !d.sign(v, way, &o) {
				continue
			}
			if s := v.accepted(ctx, d, &o); s != nil {
				s.Minimal = o.Data == nil && !slices.ContainsFunc(v.plan.samples, func(own SampleBody) bool {
					return own.Type != eventtypes.Wildcard && own.fits(o.Type) && own.Body != ""
				})
				return s, nil
			}
		}
	}
	return nil, ErrSampleType
}

// accepted returns the sample if the verifier accepts it as a webhook of the type, and otherwise nil.
func (v *Verifier) accepted(ctx context.Context, d *draft, o *SampleOrder) *Sample {
	r := d.request(o)
	if v.Precheck(r.Header) != nil || v.MaxBody() > 0 && int64(len(r.Body)) > v.MaxBody() {
		return nil
	}
	if response, refusal := v.Handshake(ctx, r); response != nil || refusal != nil {
		return nil
	}
	if _, refusal := v.Verify(ctx, r); refusal != nil {
		return nil
	}
	event, refusal := v.Describe(r)
	if refusal != nil || event.Type != o.Type {
		return nil
	}
	return &Sample{Header: r.Header, RawQuery: r.RawQuery, Body: r.Body, Event: event}
}

// signable returns the lists of proofs that together prove a webhook and that the connection's secrets can sign for.
func (n *node) signable() ([][]*proof, error) {
	switch {
	case n.proof != nil:
		if err := n.proof.signable(); err != nil {
			return nil, err
		}
		return [][]*proof{{n.proof}}, nil
	case n.any != nil:
		var ways [][]*proof
		var first error
		for _, inner := range n.any {
			more, err := inner.signable()
			if first == nil {
				first = err
			}
			ways = append(ways, more...)
		}
		if len(ways) == 0 {
			return nil, first
		}
		return ways, nil
	default:
		ways := [][]*proof{nil}
		for _, inner := range n.all {
			more, err := inner.signable()
			if err != nil {
				return nil, err
			}
			var longer [][]*proof
			for _, way := range ways {
				for _, next := range more {
					longer = append(longer, slices.Concat(way, next))
				}
			}
			ways = longer
		}
		return ways, nil
	}
}

func (p *proof) signable() error {
	switch p.scheme {
	case schemeNone:
		return nil
	case schemePublic:
		return ErrSampleKeys
	case schemeJWT:
		if len(p.jwt.families) > 0 {
			return ErrSampleKeys
		}
	}
	if len(p.keys) == 0 {
		return ErrSampleSecret
	}
	return nil
}

// sampleBase returns the draft from which every trial begins: with the body that was ordered or declared, if there is
// one.
func (p *plan) sampleBase(o *SampleOrder) (*draft, error) {
	d := newDraft()
	body, inField := o.Data, ""
	for i := range p.samples {
		own := &p.samples[i]
		if !own.fits(o.Type) {
			continue
		}
		for name, value := range own.Headers {
			d.header.Set(name, value)
		}
		if own.InFormField && own.Type == o.Type {
			inField = p.formField
		}
		if o.Data == nil && own.Body != "" && (body == nil || own.Type == o.Type) {
			body = []byte(own.Body)
		}
	}
	d.header.Set(SampleHeader, o.ID)
	d.header.Set("User-Agent", "Sallyport-Sample")
	switch {
	case body == nil:
		return d, nil
	case o.Data == nil && !beginsJSON(body):
		d.readForm(body)
		return d, nil
	}
	if !d.readJSON(body) || !d.clone().mark(o.ID) {
		return nil, ErrSampleData
	}
	d.inField, d.form = inField, inField != ""
	return d, nil
}

// typePlan is one way to give a webhook a type: values of the sources that a template of the rules reads.
type typePlan struct {
	batch  bool
	values []sourceValue
	// known is set for a spelling that the provider is known to use.
	known bool
	// words is how many letters and digits of the type the template itself contains. The more they are, the more likely is
	// the template the one that the provider means for such a type. Separators show nothing.
	words int
}

type sourceValue struct {
	src   *source
	value string
}

// typePlans returns the ways to a type, the likeliest first: in spellings that are known, by templates that have
// words of the type, and then in the order in which the templates are read.
func (p *plan) typePlans(o *SampleOrder, body any) []typePlan {
	var plans []typePlan
	add := func(templates [][]segment, batch bool) {
		for _, text := range p.spellings(o.Type) {
			known := slices.ContainsFunc(o.Known, func(k eventtypes.Known) bool { return k.Written == text })
			for _, segments := range templates {
				for _, plan := range splitType(segments, text, batch) {
					plan.known = known
					plans = append(plans, plan)
				}
			}
		}
	}
	_, isArray := body.([]any)
	if p.batch != nil && isArray {
		add(p.batch.types, true)
	}
	add(p.types, false)
	if p.batch != nil && !isArray {
		add(p.batch.types, true)
	}
	slices.SortStableFunc(plans, func(a, b typePlan) int {
		if a.known != b.known {
			return map[bool]int{true: -1, false: 1}[a.known]
		}
		return b.words - a.words
	})
	unchanged := []typePlan{{}}
	if p.batch != nil { // first, because the items have ids of their own
		unchanged = []typePlan{{batch: true}, {}}
	}
	if body != nil {
		return append(unchanged, plans...) // the body may have the type already
	}
	return append(plans, unchanged...)
}

// spellings returns what the rules turn into a type, the likeliest first: the type with the provider's separators, the
// type itself, and the names that are mapped to it.
func (p *plan) spellings(eventType string) []string {
	var out []string
	if separators := p.rules.Separators(); separators != "" && strings.Contains(eventType, ".") {
		for _, sep := range strings.Split(separators, "") {
			out = append(out, strings.ReplaceAll(eventType, ".", sep), strings.Replace(eventType, ".", sep, 1))
		}
	}
	out = append(out, eventType)
	renamed := p.rules.Renamed()
	for _, from := range slices.Sorted(maps.Keys(renamed)) {
		if renamed[from] == eventType {
			out = append(out, from)
		}
	}
	return out
}

// maxTypeSplits bounds the ways to split a type over the sources of one template.
const maxTypeSplits = 16

// splitType returns the values of a template's sources under which it renders text.
func splitType(segments []segment, text string, batch bool) []typePlan {
	var plans []typePlan
	var split func(i int, rest string, plan typePlan)
	split = func(i int, rest string, plan typePlan) {
		switch {
		case len(plans) == maxTypeSplits:
			return
		case i == len(segments):
			if rest == "" {
				plan.values = slices.Clone(plan.values)
				plans = append(plans, plan)
			}
			return
		}
		seg := &segments[i]
		if seg.kind == segmentLiteral {
			if after, ok := strings.CutPrefix(rest, seg.text); ok {
				plan.words += countWords(seg.text)
				split(i+1, after, plan)
			}
			return
		}
		names := seg.src.kind == sourceMember || seg.src.kind == sourceItemMember
		for n := len(rest); n > 0; n-- { // providers put an action of one word last
			if names && !slices.Contains(seg.src.names, rest[:n]) {
				continue
			}
			next := plan
			next.values = append(slices.Clone(plan.values), sourceValue{&seg.src, rest[:n]})
			if names {
				next.words += countWords(rest[:n])
			}
			split(i+1, rest[n:], next)
		}
	}
	split(0, text, typePlan{batch: batch})
	return plans
}

// countWords returns the number of letters and digits.
func countWords(text string) (n int) {
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

// fill gives a draft the type, the id, the time of the event, and what else the rules ask for. It is false if the body
// has another form.
func (p *plan) fill(d *draft, t *typePlan, o *SampleOrder) bool {
	d.form = d.form || p.needsForm(t)
	if t.batch && !d.openBatch(p.batch) {
		return false
	}
	for _, v := range t.values {
		if !d.set(v.src, v.value) {
			return false
		}
	}
	if t.batch {
		for i := range p.batch.when {
			d.satisfy(&p.batch.when[i], o.ID)
		}
		if len(p.batch.ids) > 0 {
			d.setID(&p.batch.ids[0], o.ID)
		}
	}
	for i := range p.ids {
		if d.inField != "" && !d.has(&p.ids[i].sources[0]) {
			continue
		}
		if d.setID(&p.ids[i], o.ID) {
			break
		}
	}
	if at := p.occurred; at != nil && d.inField == "" && !d.has(&at.src) {
		d.setTime(&at.src, at.format, o.Now)
	}
	for i := range p.account {
		d.satisfy(&p.account[i], o.ID)
	}
	return d.mark(o.ID)
}

// needsForm reports whether a type is read from the fields of a form.
func (p *plan) needsForm(t *typePlan) bool {
	return slices.ContainsFunc(t.values, func(v sourceValue) bool { return v.src.kind == sourceForm })
}

// maxSampleHeader bounds the value of a header of a SampleBody, in bytes.
const maxSampleHeader = 256

// compileSamples checks what samples are made from.
func (c *compiler) compileSamples(list []SampleBody) {
	c.limit("samples", len(list))
	for i, s := range list {
		field := at("samples", i)
		literal := s.Type
		if s.Type == eventtypes.Wildcard {
			literal = "a"
		} else if family, ok := strings.CutSuffix(s.Type, "."+eventtypes.Wildcard); ok {
			literal = family
		}
		if !printable(literal, maxTypeBytes) || strings.Contains(literal, eventtypes.Wildcard) {
			c.problems.add(field+".type", ruleFormat, "must be an event type, a family of types that ends in .*, or *")
		}
		if slices.ContainsFunc(list[:i], func(other SampleBody) bool { return other.Type == s.Type }) {
			c.problems.add(field+".type", ruleUnique, "is listed twice")
		}
		c.compileSampleBody(field+".body", []byte(s.Body), len(s.Headers) > 0)
		if s.InFormField && (c.formField == "" || !beginsJSON([]byte(s.Body)) ||
			strings.Contains(s.Type, eventtypes.Wildcard)) {
			c.problems.add(field+".in_form_field", ruleFormat,
				"must belong to the JSON of one type, and needs body.form_field")
		}
		c.limit(field+".headers", len(s.Headers))
		for name, value := range s.Headers {
			switch {
			case !validHeaderName(name):
				c.problems.add(field+".headers", ruleFormat, "must have names of headers that a webhook can carry")
			case !printable(strings.ReplaceAll(value, " ", "-"), maxSampleHeader):
				c.problems.add(field+".headers."+name, ruleFormat, "must be printable and at most %d bytes", maxSampleHeader)
			}
		}
	}
	c.samples = slices.Clone(list)
}

func (c *compiler) compileSampleBody(field string, body []byte, optional bool) {
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		if !optional || len(body) > 0 {
			c.problems.add(field, ruleRequired, "is empty")
		}
	case len(body) > maxSampleBody:
		c.problems.add(field, ruleLimit, "is longer than %d bytes", maxSampleBody)
	case beginsJSON(body) && !json.Valid(body):
		c.problems.add(field, ruleFormat, "is not valid JSON")
	}
}
