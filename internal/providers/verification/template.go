package verification

import "strings"

// segmentKind is the kind of one part of a template.
type segmentKind int

const (
	segmentLiteral segmentKind = iota + 1
	segmentSource              // a header or a JSON value
	segmentBody
	segmentTimestamp
	segmentID
	segmentSecret
	segmentConn // a parameter of the connection; a literal once bound
	segmentMethod
	segmentURL
	segmentURLDecoded
	segmentPath
	segmentQuery
	segmentForm
	segmentBodyHex
	segmentBodyBase64
	segmentBodyCRC
	segmentLines
	segmentEach
)

// segment is one piece of a template.
type segment struct {
	kind segmentKind
	text string // of a literal; the name of a parameter
	src  source
	// optional lets a source be absent, which leaves nothing in its place.
	optional bool
	lines    []line // of segmentLines
}

// line is a member of the body's object that is signed as "name\nvalue\n".
type line struct {
	name string
	src  source
}

// parseTemplate splits a template into literals and {tokens}, which token reads. Braces cannot be literals.
func parseTemplate(s string, token func(string) (segment, string)) (segments []segment, wrong string) {
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
		seg, wrong := token(s[1:end])
		if wrong != "" {
			return nil, wrong
		}
		segments = append(segments, seg)
		s = s[end+1:]
	}
	return segments, ""
}

// signedToken reads a token of the bytes under a signature.
func signedToken(token string) (seg segment, wrong string) {
	switch token {
	case "body":
		return segment{kind: segmentBody}, ""
	case "ts":
		return segment{kind: segmentTimestamp}, ""
	case "id":
		return segment{kind: segmentID}, ""
	case "secret":
		return segment{kind: segmentSecret}, ""
	case "method":
		return segment{kind: segmentMethod}, ""
	case "url":
		return segment{kind: segmentURL}, ""
	case "url_decoded":
		return segment{kind: segmentURLDecoded}, ""
	case "path":
		return segment{kind: segmentPath}, ""
	case "query":
		return segment{kind: segmentQuery}, ""
	case "form_sorted":
		return segment{kind: segmentForm}, ""
	case "body_sha256_hex":
		return segment{kind: segmentBodyHex}, ""
	case "body_sha256_b64":
		return segment{kind: segmentBodyBase64}, ""
	case "body_crc32":
		return segment{kind: segmentBodyCRC}, ""
	}
	kind, arg, _ := strings.Cut(token, ":")
	switch kind {
	case "conn":
		return segment{kind: segmentConn, text: arg}, ""
	case "kv_lines":
		return linesSegment(arg)
	case "each":
		src, wrong := parseSource("json:"+arg, sourceJSON)
		return segment{kind: segmentEach, src: src}, wrong
	}
	bare, optional := strings.CutSuffix(kind, "?")
	src, wrong := parseSource(bare+":"+arg, eventSources)
	if wrong != "" {
		return segment{}, "has an unknown token: {" + truncate(token, 64) + "}"
	}
	return segment{kind: segmentSource, src: src, optional: optional}, ""
}

func linesSegment(arg string) (segment, string) {
	seg := segment{kind: segmentLines}
	for name := range strings.SplitSeq(arg, ",") {
		if !printable(name, 64) || strings.ContainsAny(name, "~/") {
			return segment{}, "needs names of members of the body's object after kv_lines:, with commas between them"
		}
		src, wrong := parseSource("json:/"+name, sourceJSON)
		if wrong != "" {
			return segment{}, wrong
		}
		seg.lines = append(seg.lines, line{name: name, src: src})
	}
	return seg, ""
}

// eventToken reads a token of an event's type.
func eventToken(kinds sourceKind) func(token string) (segment, string) {
	return func(token string) (segment, string) {
		src, wrong := parseSource(token, kinds)
		if wrong != "" {
			return segment{}, "has an unknown token; allowed are " + kinds.String()
		}
		return segment{kind: segmentSource, src: src}, ""
	}
}

// compileTypes reads templates of event types; signed is true when everything in them is covered.
func (c *compiler) compileTypes(field string, list []string, kinds sourceKind) (types [][]segment, signed bool) {
	c.limit(field, len(list))
	signed = true
	for i, text := range list {
		segments, wrong := parseTemplate(text, eventToken(kinds))
		switch {
		case len(text) > maxText:
			c.problems.add(at(field, i), ruleLimit, "is longer than %d bytes", maxText)
		case wrong != "":
			c.problems.add(at(field, i), ruleFormat, "%s", wrong)
		case len(segments) == 0:
			c.problems.add(at(field, i), ruleRequired, "is empty")
		}
		for n := range segments {
			signed = signed && (segments[n].kind == segmentLiteral || c.covers.has(&segments[n].src))
			c.refuseCredential(at(field, i), &segments[n].src)
		}
		types = append(types, segments)
	}
	return types, signed
}
