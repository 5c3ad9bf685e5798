package verification

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"sallyport/internal/providers/eventtypes"
)

// plan is a declaration with its parameters replaced, checked and ready to run.
type plan struct {
	root   *node
	proofs []*proof
	// covers is the coverage that all proofs of a webhook have.
	covers    coverage
	formField string
	types     [][]segment
	// typeSigned is true when everything that may decide the type is covered.
	typeSigned bool
	ids        []idRule
	// looseID is true if an id of the declaration is not covered.
	looseID bool
	// rules turn types as the provider writes them into those of events.
	rules eventtypes.Rules
	batch *batchRule
	// batchSigned is true when the proof covers what decides whether a body is a batch.
	batchSigned  bool
	occurred     *occurredRule
	bodiesUnique bool
	// redacted are the values of the body that must not be stored.
	redacted []pattern
	// redactedFields are fields of a form that must not be stored.
	redactedFields []string
	// redactedFrom names both for people.
	redactedFrom []string
	account      []predicate
	handshakes   []handshake
	ack          *Response
	reject       int
	maxBody      int64
	networks     []netip.Prefix
	control      []predicate
	// redact holds the lower-case names of headers that must not be shown, and signatures those of them that contain
	// nothing but a signature over the body. Both are sorted.
	redact, signatures []string
	// reads holds the lower-case names of the headers that prove or describe a webhook, sorted.
	reads   []string
	samples []SampleBody
}

// batchIDsSigned reports whether the proof covers the ids of a batch's items.
func (p *plan) batchIDsSigned() bool { return p.covers.body && p.batchSigned }

// idRule is one way to an id: one source, or several that are an id together.
type idRule struct {
	sources []source
	text    string
	signed  bool
}

// predicate is a checked Predicate.
type predicate struct {
	src    source
	equals []string // nil: any value
	empty  bool     // an array without items
}

// finishIDs marks the ids that are signed, and adds the ids by convention: Standard Webhooks, Svix, CloudEvents (source
// and id together) and Idempotency-Key (IETF draft-ietf-httpapi-idempotency-key-header). Those count only if the
// signature covers them, because anyone who replays a webhook can put a new value into any other header, or if the
// provider signs nothing at all.
func (c *compiler) finishIDs() {
	for i := range c.ids {
		c.ids[i].signed = c.covered(&c.ids[i])
		c.looseID = c.looseID || !c.ids[i].signed
		for n := range c.ids[i].sources {
			c.refuseCredential(at("event.id", i), &c.ids[i].sources[n])
		}
	}
	one := func(name string) idRule {
		src := headerSource(name)
		return idRule{sources: []source{src}, text: src.text}
	}
	ce := idRule{sources: []source{headerSource("ce-source"), headerSource("ce-id")},
		text: "header:ce-source+header:ce-id"}
	for _, rule := range []idRule{one("webhook-id"), one("svix-id"), ce, one("idempotency-key")} {
		rule.signed = c.covered(&rule)
		same := func(r idRule) bool { return r.text == rule.text }
		if (rule.signed || c.covers.nothing) && !slices.ContainsFunc(c.ids, same) {
			c.ids = append(c.ids, rule)
		}
	}
}

// refuseCredential refuses a header that carries a credential or a signature as a source of what is stored in clear.
func (c *compiler) refuseCredential(field string, src *source) {
	holds := slices.ContainsFunc(src.headers(), func(name string) bool {
		switch name {
		case "Authorization", "Proxy-Authorization", "Cookie", "Api-Key", "X-Api-Key":
			return true
		}
		return slices.ContainsFunc(c.proofs, func(p *proof) bool {
			return slices.ContainsFunc(p.signatures, func(rule signatureRule) bool {
				return slices.Contains(rule.src.headers(), name)
			})
		})
	})
	if holds {
		c.problems.add(field, ruleFormat,
			"names a header that carries a credential or the signature, which would be stored in clear")
	}
}

// covered reports whether the proof covers the whole id, and what decides whether the body is a batch, which has
// another.
func (p *plan) covered(r *idRule) bool {
	if !p.batchSigned {
		return false
	}
	for i := range r.sources {
		if !p.covers.has(&r.sources[i]) {
			return false
		}
	}
	return true
}

func (c *compiler) compileIDs(d *Declaration) {
	c.limit("event.id", len(d.Event.ID))
	for i, text := range d.Event.ID {
		rule, ok := c.idRule(at("event.id", i), text, eventSources)
		if ok && slices.ContainsFunc(c.ids, func(r idRule) bool { return r.text == rule.text }) {
			c.problems.add(at("event.id", i), ruleUnique, "is listed twice")
		}
		c.ids = append(c.ids, rule)
	}
}

const (
	// idJoint stands between sources that are one id together.
	idJoint = " + "
	// maxIDSources bounds how many those are.
	maxIDSources = 8
)

// idRule reads one source, or several with " + " between them.
func (c *compiler) idRule(field, text string, kinds sourceKind) (rule idRule, ok bool) {
	if len(strings.Split(text, idJoint)) > maxIDSources {
		c.problems.add(field, ruleLimit, "joins more than %d sources", maxIDSources)
		return idRule{sources: []source{{}}}, false
	}
	rule, wrong := parseID(text, kinds)
	for _, message := range wrong {
		c.problems.add(field, ruleFormat, "%s", message)
	}
	return rule, len(wrong) == 0
}

// parseID reads an id's sources; wrong says what is wrong with each that cannot be read.
func parseID(text string, kinds sourceKind) (rule idRule, wrong []string) {
	for one := range strings.SplitSeq(text, idJoint) {
		src, message := parseSource(one, kinds)
		if message != "" {
			wrong = append(wrong, message)
		}
		if rule.text != "" {
			rule.text += "+"
		}
		rule.sources, rule.text = append(rule.sources, src), rule.text+src.text
	}
	return rule, wrong
}

func (c *compiler) compileEvent(d *Declaration) {
	c.types, c.typeSigned = c.compileTypes("event.type", d.Event.Type, typeSources)
	c.typeSigned = c.typeSigned && c.batchSigned
	c.compileBatch(d.Event.Batch)
	c.compileOccurred(d.Event.OccurredAt)
	c.compileRedacted(d)
	if len(d.Event.Map) > maxMapEntries {
		c.problems.add("event.map", ruleLimit, "has more than %d entries", maxMapEntries)
	}
	for _, from := range slices.Sorted(maps.Keys(d.Event.Map)) {
		to := d.Event.Map[from]
		if from == "" || !printable(to, maxTypeBytes) || strings.Contains(from+to, paramOpen) {
			c.problems.add("event.map", ruleFormat, "must map types to 1 to %d bytes of printable ASCII without spaces: %q",
				maxTypeBytes, from)
		}
	}
	c.bodiesUnique = d.Event.BodiesUnique
	if separators := d.Event.TypeSeparators; separators != "" && (!printable(separators, 8) ||
		strings.ContainsAny(separators, ".*")) {
		c.problems.add("event.type_separators", ruleFormat,
			"must be 1 to 8 characters of printable ASCII other than spaces, the dot and the star")
	}
	c.rules = eventtypes.NewRules(d.Event.TypeSeparators, d.Event.Map)
}

func (c *compiler) compileRedact(d *Declaration) {
	c.limit("redact_headers", len(d.RedactHeaders))
	names := map[string]bool{}
	signatures, others := map[string]bool{}, map[string]bool{}
	for _, p := range c.proofs {
		for i := range p.signatures {
			for _, name := range p.signatures[i].src.headers() {
				name = strings.ToLower(name)
				names[name] = true
				if p.bindsBody() {
					signatures[name] = true
				} else {
					others[name] = true
				}
			}
		}
	}
	for i := range c.handshakes {
		for _, name := range c.handshakes[i].captured.headers() {
			names[strings.ToLower(name)], others[strings.ToLower(name)] = true, true
		}
	}
	for i, name := range d.RedactHeaders {
		if !validHeaderName(name) {
			c.problems.add(at("redact_headers", i), ruleFormat, "is not a header name")
		}
		names[strings.ToLower(name)], others[strings.ToLower(name)] = true, true
	}
	maps.DeleteFunc(signatures, func(name string, _ bool) bool { return others[name] })
	c.redact, c.signatures = slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(signatures))
}

// bindsBody reports whether the proof's signature is of use with its own body alone. A plain hash over secret and body
// is not: anyone who sees it can extend the body.
func (p *proof) bindsBody() bool {
	switch p.scheme {
	case schemeHMAC, schemePublic, schemeJWT:
		return p.covers.body
	default:
		return false
	}
}
