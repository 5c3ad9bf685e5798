package verification

import (
	"slices"
	"strings"
)

// content is the content that a signature covers.
type content struct {
	parts []signedPart
	// body is the place of {body} in parts, or -1.
	body int
	// each is the array whose items each carry a signature of their own; nil for one signature of the webhook.
	each *source
	// secret is true when the content contains the secret.
	secret bool
	// url is true when the content contains the URL or a part of it.
	url bool
}

// signedPart is one piece of the signed bytes.
type signedPart struct {
	segment
	// border is a byte that the value must not contain, because it separates the value from its neighbour towards the
	// body; 0 if there is no such rule.
	border byte
}

// compileContent reads the template of the bytes under a signature. A literal with braces cannot be written; no
// provider signs one.
//
// It is false for a template that cannot be read, of which nothing more can be said.
func (c *proofCompiler) compileContent() bool {
	d, p := c.decl, c.proof
	field := c.path + "signed"
	p.content.body = -1
	if len(d.Signed) > maxText {
		c.problems.add(field, ruleLimit, "is longer than %d bytes", maxText)
		return false
	}
	segments, wrong := parseTemplate(d.Signed, signedToken)
	if wrong != "" {
		c.problems.add(field, ruleFormat, "%s", wrong)
		return false
	}
	segments = c.extractEach(field, segments)
	for i, seg := range segments {
		part := signedPart{segment: seg}
		switch seg.kind {
		case segmentBody:
			if p.content.body >= 0 {
				c.problems.add(field, ruleFormat, "has {body} twice")
			}
			p.content.body = i
		case segmentID:
			part.src = c.idSource(field)
		case segmentSecret:
			if p.content.secret {
				c.problems.add(field, ruleFormat, "has {secret} twice")
			}
			p.content.secret = true
		case segmentConn:
			part.kind, part.text = segmentLiteral, c.values[seg.text]
			if _, known := c.values[seg.text]; known && part.text == "" {
				c.problems.add(field, ruleRequired, "contains {conn:%s}, which is not set", seg.text)
			}
		case segmentURL, segmentURLDecoded, segmentPath, segmentQuery:
			p.content.url = true
		default:
		}
		p.content.parts = append(p.content.parts, part)
	}
	switch secret := p.content.secret; {
	case secret && d.Scheme != schemeKeyedHash:
		c.problems.add(field, ruleCoherent, "contains {secret}, which only keyed_hash does")
	case !secret && d.Scheme == schemeKeyedHash:
		c.problems.add(field, ruleRequired, "must contain {secret}: without it anyone can make the hash")
	}
	c.checkBorders(field)
	c.cover()
	return true
}

// extractEach cuts {each:pointer} off, which may stand at the start only.
func (c *proofCompiler) extractEach(field string, segments []segment) []segment {
	p := c.proof
	if len(segments) > 0 && segments[0].kind == segmentEach {
		p.content.each = &segments[0].src
		segments = segments[1:]
	}
	for _, seg := range segments {
		switch {
		case seg.kind == segmentEach:
			c.problems.add(field, ruleFormat, "can have {each:pointer} once, at its start")
		case p.content.each != nil && (seg.kind == segmentBody || seg.kind == segmentID || seg.kind == segmentTimestamp ||
			seg.kind == segmentForm):
			c.problems.add(field, ruleCoherent, "has {each:pointer}, so it can cover values of the items only")
		}
	}
	return segments
}

// idSource returns the source that {id} stands for.
func (c *proofCompiler) idSource(field string) source {
	if len(c.ids) != 1 || len(c.ids[0].sources) != 1 || c.ids[0].sources[0].kind != sourceHeader {
		c.problems.add(field, ruleCoherent, "contains {id}, so event.id needs exactly one entry, and that a header")
		return source{}
	}
	return c.ids[0].sources[0]
}

// checkBorders makes sure that signed bytes can be split into their parts in only one way. Otherwise anyone with one
// signed webhook could move bytes from one part to another, such as from the id to the body, and the signature would
// still be valid. Timestamps and hashes have a fixed form and are their own border. The sender cannot choose the
// secret, the method and the part of a URL before the query. Any other value needs a literal next to it, on the side of
// the body, which the value then must not contain.
//
// If a scheme puts the URL directly before the body, render requires of the body that the split is certain. If it
// appends the fields of a form to the URL (Twilio), the split is as uncertain as the provider made it.
func (c *proofCompiler) checkBorders(field string) {
	p := c.proof
	parts, body := p.content.parts, p.content.body
	for i := range parts {
		part := &parts[i]
		next := i + 1
		if body >= 0 && i > body {
			next = i - 1
		}
		var beside *signedPart
		if next < len(parts) {
			beside = &parts[next]
		}
		switch part.kind {
		case segmentID, segmentSource, segmentPath, segmentQuery:
			if beside == nil || c.isFixed(beside) {
				continue
			}
			if beside.kind == segmentLiteral {
				part.border = facing(beside.text, i < next)
				continue
			}
			c.problems.add(field, ruleCoherent,
				"needs a literal between a value and its neighbour towards the body, or the signed bytes can be split in "+
					"several ways")
		case segmentURL, segmentURLDecoded:
			c.checkURLBorder(field, parts, i, body)
		case segmentForm:
			if i != len(parts)-1 {
				c.problems.add(field, ruleCoherent, "must end with {form_sorted}: nothing marks where it ends")
			}
		case segmentBodyCRC:
			if beside != nil && (beside.kind != segmentLiteral ||
				strings.IndexByte("0123456789", facing(beside.text, i < next)) >= 0) {
				c.problems.add(field, ruleCoherent, "needs a literal that is not a digit next to {body_crc32}")
			}
		case segmentLines:
			if len(parts) > 1 {
				c.problems.add(field, ruleCoherent, "can contain {kv_lines:…} alone only")
			}
		default:
		}
	}
}

// checkURLBorder accepts a URL next to the body or a form, apart from literals without brackets, next to a part of
// fixed form, and at an end.
func (c *proofCompiler) checkURLBorder(field string, parts []signedPart, i, body int) {
	step := 1
	if body >= 0 && i > body {
		step = -1
	}
	for n := i + step; n >= 0 && n < len(parts); n += step {
		beside := &parts[n]
		switch {
		case beside.kind == segmentBody, beside.kind == segmentForm, c.isFixed(beside):
			return
		case beside.kind == segmentLiteral && !strings.ContainsAny(beside.text, "{["):
		default:
			c.problems.add(field, ruleCoherent, "needs the body, a form, a timestamp with limits or a hash next to the URL")
			return
		}
	}
}

// isFixed reports whether a part begins and ends where its form says, independent of its neighbours.
func (c *proofCompiler) isFixed(part *signedPart) bool {
	switch part.kind {
	case segmentTimestamp:
		ts := c.proof.ts
		return ts != nil && ts.maxAge > 0 && ts.maxSkew > 0
	case segmentBodyHex, segmentBodyBase64:
		return true
	default:
		return false
	}
}

// facing returns the byte of a literal that touches the value before or behind it.
func facing(literal string, after bool) byte {
	switch {
	case literal == "":
		return 0
	case after:
		return literal[0]
	default:
		return literal[len(literal)-1]
	}
}

// cover takes down what the content covers.
func (c *proofCompiler) cover() {
	p := c.proof
	for i := range p.content.parts {
		part := &p.content.parts[i]
		switch part.kind {
		case segmentBody, segmentBodyHex, segmentBodyBase64, segmentForm:
			p.covers.body = true
		case segmentTimestamp:
			if p.ts != nil {
				p.covers.add(p.ts.src.text)
			}
		case segmentID, segmentSource:
			if p.content.each == nil {
				p.covers.add(part.src.text)
			}
		case segmentLines:
			for _, l := range part.lines {
				p.covers.add(l.src.text)
			}
		case segmentURL, segmentURLDecoded, segmentQuery:
			p.covers.query = true
		default:
		}
	}
}

// coverage is which parts of a webhook a proof covers.
type coverage struct {
	// nothing is true for a proof that covers no part of the webhook, such as a token.
	nothing bool
	body    bool
	query   bool
	// sources are the normal forms of covered headers and JSON values.
	sources []string
}

func (v *coverage) add(source string) {
	if !slices.Contains(v.sources, source) {
		v.sources = append(v.sources, source)
	}
}

// has reports whether a source is covered.
func (v *coverage) has(src *source) bool {
	switch src.kind {
	case sourceQuery:
		return v.query
	default:
		return v.body && src.inBody() || slices.Contains(v.sources, src.text)
	}
}

// either returns the coverage that both of two proofs have.
func (v coverage) either(other coverage) coverage {
	both := coverage{nothing: v.nothing && other.nothing, body: v.body && other.body, query: v.query && other.query}
	for _, s := range slices.Concat(v.sources, other.sources) {
		inBody := strings.HasPrefix(s, "json:") || strings.HasPrefix(s, "form:")
		if (slices.Contains(v.sources, s) || inBody && v.body) && (slices.Contains(other.sources, s) || inBody &&
			other.body) {
			both.add(s)
		}
	}
	return both
}

// together is the covered content when two proofs passed.
func (v coverage) together(other coverage) coverage {
	both := coverage{nothing: v.nothing && other.nothing, body: v.body || other.body, query: v.query || other.query}
	for _, s := range slices.Concat(v.sources, other.sources) {
		both.add(s)
	}
	return both
}
