package verification

import "strings"

// segmentKind is what stands at one place of a template.
type segmentKind int

const (
	segmentLiteral segmentKind = iota + 1
	segmentBody
	segmentTimestamp
	segmentID
	segmentSource
)

// segment is one piece of a template.
type segment struct {
	kind segmentKind
	text string // of a literal
	src  source // of segmentSource
}

// parseTemplate splits a template into literals and {tokens}. Braces cannot be literals.
func parseTemplate(s string) (segments []segment, wrong string) {
	for s != "" {
		open := strings.IndexAny(s, "{}")
		if open < 0 {
			return append(segments, segment{kind: segmentLiteral, text: s}), ""
		}
		if open > 0 {
			segments = append(segments, segment{kind: segmentLiteral, text: s[:open]})
			s = s[open:]
		}
		end := strings.IndexAny(s[1:], "{}") + 1
		if s[0] != '{' || end == 0 || s[end] != '}' {
			return nil, "has unbalanced braces"
		}
		seg, wrong := parseToken(s[1:end])
		if wrong != "" {
			return nil, wrong
		}
		segments = append(segments, seg)
		s = s[end+1:]
	}
	return segments, ""
}

func parseToken(token string) (seg segment, wrong string) {
	switch token {
	case "body":
		return segment{kind: segmentBody}, ""
	case "ts":
		return segment{kind: segmentTimestamp}, ""
	case "id":
		return segment{kind: segmentID}, ""
	}
	src, wrong := parseSource(token)
	if wrong != "" {
		return segment{}, "has a token that is not known: a source there " + wrong
	}
	return segment{kind: segmentSource, src: src}, ""
}

// parseSigned reads the template of the bytes under the signature.
func (c *compiler) parseSigned(text string) (before, after []signedPart) {
	segments, wrong := parseTemplate(text)
	if wrong != "" {
		c.faults.add("signed", RuleFormat, "%s", wrong)
		return nil, nil
	}
	body := -1
	for i, seg := range segments {
		switch seg.kind {
		case segmentBody:
			if body >= 0 {
				c.faults.add("signed", RuleFormat, "has {body} twice")
			}
			body = i
		case segmentSource:
			if seg.src.kind != sourceHeader {
				c.faults.add("signed", RuleFormat, "can take {header:name} only, besides {body}, {ts} and {id}")
			}
		case segmentLiteral, segmentTimestamp, segmentID:
		}
	}
	if body < 0 {
		c.faults.add("signed", RuleRequired, "must contain {body}: a body outside the signature proves nothing")
		return nil, nil
	}
	return c.signedParts(segments, body)
}

// signedPart is one piece of the signed bytes that is not the body.
type signedPart struct {
	kind    segmentKind
	literal string
	header  string // canonical, for a header and for the id
	// border is a byte that the value must not contain, because it separates the value from what follows it before the
	// body, or precedes it after the body; 0 where nothing is asked.
	border byte
}

// signedParts makes sure that signed bytes can be cut into their parts in one way only. Otherwise whoever holds one signed
// delivery could move bytes from one part to another, such as from the id to the body, and the signature would still be
// right. A timestamp has a fixed form and is its own border; a header or id needs a literal beside it, on the side of the
// body, which its value then must not contain, or a timestamp with limits, which the moved bytes would have to form.
func (c *compiler) signedParts(segments []segment, body int) (before, after []signedPart) {
	for i, seg := range segments {
		if i == body {
			continue
		}
		part := signedPart{kind: seg.kind, literal: seg.text, header: seg.src.name}
		if seg.kind == segmentID || seg.kind == segmentSource {
			next := i + 1
			if i > body {
				next = i - 1
			}
			switch beside := segments[next]; {
			case beside.kind == segmentLiteral && i < body:
				part.border = beside.text[0]
			case beside.kind == segmentLiteral:
				part.border = beside.text[len(beside.text)-1]
			case beside.kind == segmentTimestamp && c.ts != nil && c.ts.maxAge > 0 && c.ts.maxSkew > 0:
			default:
				c.faults.add("signed", RuleCoherent,
					"needs a literal between a header or id and what stands beside it towards the body, or the signed bytes can be cut in several ways")
			}
		}
		if i < body {
			before = append(before, part)
		} else {
			after = append(after, part)
		}
	}
	return before, after
}

// parseType reads a template of event types.
func (c *compiler) parseType(field, text string) []segment {
	segments, wrong := parseTemplate(text)
	switch {
	case wrong != "":
		c.faults.add(field, RuleFormat, "%s", wrong)
	case len(segments) == 0:
		c.faults.add(field, RuleRequired, "is empty")
	}
	for _, seg := range segments {
		if seg.kind != segmentLiteral && (seg.kind != segmentSource || seg.src.kind == sourceSignature) {
			c.faults.add(field, RuleFormat, "can take {header:name} and {json:pointer} only")
		}
	}
	return segments
}
