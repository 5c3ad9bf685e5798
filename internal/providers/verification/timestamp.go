package verification

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timestampFormat is how a timestamp is written.
type timestampFormat string

const (
	unixSeconds timestampFormat = "unix_s"
	unixMillis  timestampFormat = "unix_ms"
	rfc3339     timestampFormat = "rfc3339"
)

// timestampRule is a checked TimestampRule.
type timestampRule struct {
	src             source
	format          timestampFormat
	maxAge, maxSkew time.Duration // 0: no limit
	// late is true for a timestamp in the body that is no part of the template.
	late bool
}

// parse reads a timestamp. Unix times have exactly ten or thirteen digits, which covers 2001 to 2286.
func (t *timestampRule) parse(text string) (time.Time, bool) {
	switch t.format {
	case unixSeconds:
		n, ok := fixedDigits(text, 10)
		return time.Unix(n, 0), ok
	case unixMillis:
		n, ok := fixedDigits(text, 13)
		return time.UnixMilli(n), ok
	case rfc3339:
		at, err := time.Parse(time.RFC3339Nano, text)
		return at, err == nil && shapedRFC3339(text)
	default:
		return time.Time{}, false
	}
}

// shapedRFC3339 reports whether text has the exact shape of a date-time of RFC 3339 section 5.6, upper case. The time
// package also takes single digits and decimal commas, and with them the end of a timestamp would no longer be certain.
func shapedRFC3339(text string) bool {
	const shape = "0000-00-00T00:00:00"
	if len(text) <= len(shape) || !shaped(text[:len(shape)], shape) {
		return false
	}
	zone := text[len(shape):]
	if fraction, found := strings.CutPrefix(zone, "."); found {
		zone = strings.TrimLeft(fraction, "0123456789")
		if zone == fraction {
			return false
		}
	}
	return zone == "Z" || shaped(zone, "+00:00") || shaped(zone, "-00:00")
}

// shaped compares text with a shape in which 0 stands for any digit.
func shaped(text, shape string) bool {
	if len(text) != len(shape) {
		return false
	}
	for i := range len(shape) {
		digit := '0' <= text[i] && text[i] <= '9'
		if text[i] != shape[i] && (shape[i] != '0' || !digit) {
			return false
		}
	}
	return true
}

// fixedDigits reads a number of exactly that many digits, at most 18.
func fixedDigits(text string, width int) (n int64, ok bool) {
	if len(text) != width || text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = 10*n + int64(digit)
	}
	return n, true
}

// check compares a timestamp with the time of arrival; both limits are inclusive.
func (t *timestampRule) check(at, now time.Time) *Refusal {
	if age := now.Sub(at); t.maxAge > 0 && age > t.maxAge {
		return &Refusal{Reason: ReasonTimestampOutOfRange, Message: fmt.Sprintf(
			"The signature is valid, but the webhook was signed %s ago and at most %s is accepted. It was delayed or "+
				"replayed, or this host's clock is ahead.", age.Round(time.Second), t.maxAge)}
	}
	if skew := at.Sub(now); t.maxSkew > 0 && skew > t.maxSkew {
		return &Refusal{Reason: ReasonTimestampOutOfRange, Message: fmt.Sprintf(
			"The signature is right, but the webhook's timestamp is %s in the future and at most %s is accepted. "+
				"This host's clock is behind, or the sender's ahead.", skew.Round(time.Second), t.maxSkew)}
	}
	return nil
}

// compileTimestamp checks a TimestampRule, except for rules that need the signed template.
func (c *proofCompiler) compileTimestamp() *timestampRule {
	d := c.decl.Timestamp
	if d == nil {
		return nil
	}
	rule := &timestampRule{format: timestampFormat(d.Format)}
	src, wrong := parseSource(d.From, timestampSources)
	if wrong != "" {
		c.problems.add(c.path+"timestamp.from", ruleFormat, "%s", wrong)
	}
	rule.src = src
	switch rule.format {
	case unixSeconds, unixMillis, rfc3339:
	default:
		c.problems.add(c.path+"timestamp.format", ruleEnum, "must be unix_s, unix_ms or rfc3339")
	}
	rule.maxAge = c.seconds(c.path+"timestamp.max_age_s", d.MaxAgeS)
	rule.maxSkew = c.seconds(c.path+"timestamp.max_skew_s", d.MaxSkewS)
	return rule
}

func (c *checker) seconds(field, text string) time.Duration {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 || n > maxWindowS {
		c.problems.add(field, ruleFormat, "must be whole seconds, 1 to %d", maxWindowS)
		return 0
	}
	return time.Duration(n) * time.Second
}

// checkTimestampSigned compares what the declaration states with what its template covers.
func (c *proofCompiler) checkTimestampSigned() {
	d, p := c.decl, c.proof
	inTemplate := false
	for i := range p.content.parts {
		inTemplate = inTemplate || p.content.parts[i].kind == segmentTimestamp
	}
	if p.ts == nil {
		if inTemplate {
			c.problems.add(c.path+"signed", ruleCoherent, "contains {ts}, but no timestamp is set; set timestamp_header")
		}
		return
	}
	p.ts.late = p.ts.src.inBody() && !inTemplate
	inBody := p.covers.has(&p.ts.src) && !inTemplate || p.ts.src.inBody() && p.content.body >= 0
	switch {
	case inBody && inTemplate:
		c.problems.add(c.path+"signed", ruleCoherent, "contains {ts}, but the timestamp is in the body and is signed with it")
	case d.Timestamp.Signed && !inBody && !inTemplate:
		c.problems.add(c.path+"timestamp.signed", ruleCoherent,
			"the signature does not cover the timestamp: signed has no {ts}")
	case !d.Timestamp.Signed && (inBody || inTemplate):
		c.problems.add(c.path+"timestamp.signed", ruleCoherent, "must be true: the signature covers the timestamp")
	case !d.Timestamp.Signed && p.ts.maxAge == 0 && p.ts.maxSkew == 0:
		c.problems.add(c.path+"timestamp", ruleCoherent, "is neither signed nor limited, so it would have no effect")
	}
}

// stamp is a webhook's timestamp as text and as time.
type stamp struct {
	text string
	at   time.Time
}

// readTimestamp reads the timestamp before the signature is looked at. One that the signature covers as part of the
// body is read after it, by checkAge.
func (p *proof) readTimestamp(s *workspace) *Refusal {
	if p.ts == nil || p.ts.late {
		return nil
	}
	if p.ts.src.kind == sourceSignature {
		if s.offered.timestamps > 1 {
			return reject(ReasonTimestampMalformed, "The "+p.ts.src.place()+" must occur once.")
		}
		return p.ts.read(s, s.offered.timestamp)
	}
	text, state := s.view.text(&p.ts.src)
	if state == unfit {
		return refuseUnfit(ReasonTimestampMalformed, p.ts.src.place())
	}
	return p.ts.read(s, text)
}

func (t *timestampRule) read(s *workspace, text string) *Refusal {
	if text == "" {
		return reject(ReasonTimestampMissing, "The "+t.src.place()+", which contains the timestamp, is missing.")
	}
	at, ok := t.parse(text)
	if !ok {
		return reject(ReasonTimestampMalformed, "The "+t.src.place()+" is not a timestamp in the form "+string(t.format)+".")
	}
	s.timestamp = stamp{text: text, at: at}
	return nil
}

// checkAge compares the timestamp with the time of arrival. It comes after the signature, so that a refusal for its age
// says that the secret is right.
func (p *proof) checkAge(s *workspace) *Refusal {
	if p.ts == nil {
		return nil
	}
	if p.ts.late {
		text, _ := s.view.text(&p.ts.src)
		if refusal := p.ts.read(s, text); refusal != nil {
			return refusal
		}
	}
	return p.ts.check(s.timestamp.at, s.view.request.Now)
}
