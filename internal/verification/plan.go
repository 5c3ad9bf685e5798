package verification

import (
	"crypto/sha1" //nolint:gosec // Old provider schemes are HMAC-SHA1; collisions of SHA-1 do not break HMAC (RFC 6194 section 3.3).
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"
)

const schemeHMAC = "hmac"

// plan is a declaration with its parameters replaced, checked and ready to run.
type plan struct {
	scheme     string
	newHash    func() hash.Hash
	macSize    int
	secret     secretDecoding
	signatures []signatureRule
	// before and after are the signed parts on either side of the body.
	before, after []signedPart
	ts            *timestampRule
	formField     string
	types         [][]segment
	ids           []idRule
	rename        map[string]string
	control       []predicate
	redact        []string
}

// idRule is one way to an id: one source, or two headers that are an id together.
type idRule struct {
	sources []source
	text    string
	signed  bool
}

// predicate is a checked Predicate.
type predicate struct {
	src    source
	equals []string
}

// compiler builds a plan and collects what is wrong.
type compiler struct {
	plan
	faults faults
}

// compilePlan checks a bound declaration.
func compilePlan(d bound) (*plan, faults) {
	c := &compiler{}
	c.compileScheme(d)
	for i, s := range d.Signature {
		c.signatures = append(c.signatures, c.compileSignature(d.signatureFields[i], s))
	}
	c.limit("signature", len(d.Signature))
	if len(d.Signature) == 0 {
		c.faults.add("signature", RuleRequired, "needs at least one entry")
	}
	c.ts = c.compileTimestamp(d.Timestamp)
	c.checkSignatureTimestamp(d)
	c.compileIDs(d)
	c.compileSigned(d)
	if d.Body != nil {
		c.formField = d.Body.FormField
		if !printable(c.formField, 128) {
			c.faults.add("body.form_field", RuleFormat, "must be the name of a form field")
		}
	}
	c.compileEvent(d)
	c.compileRedact(d)
	return &c.plan, c.faults
}

func (c *compiler) compileScheme(d bound) {
	c.scheme = d.Scheme
	if d.Scheme != schemeHMAC {
		c.faults.add("scheme", RuleEnum, "must be hmac")
	}
	switch d.Algorithm {
	case "sha1":
		c.newHash, c.macSize = sha1.New, sha1.Size
	case "sha256":
		c.newHash, c.macSize = sha256.New, sha256.Size
	case "sha512":
		c.newHash, c.macSize = sha512.New, sha512.Size
	default:
		c.faults.add("algorithm", RuleEnum, "must be sha1, sha256 or sha512")
	}
	c.secret = secretDecoding(d.Secret.Decode)
	switch c.secret {
	case secretUTF8, secretHex, secretBase64, secretWhsec:
	default:
		c.faults.add("secret.decode", RuleEnum, "must be utf8, hex, base64 or whsec")
	}
}

// checkSignatureTimestamp makes sure that sig:<key> names a pair of the only signature header.
func (c *compiler) checkSignatureTimestamp(d bound) {
	if c.ts == nil || c.ts.src.kind != sourceSignature {
		return
	}
	if len(c.signatures) != 1 || c.signatures[0].kv == nil {
		c.faults.add("timestamp.from", RuleCoherent, "sig:<key> needs exactly one signature, read with parse.kv")
		return
	}
	if slices.Contains(d.Signature[0].Parse.KV.Keys, c.ts.src.name) {
		c.faults.add("timestamp.from", RuleCoherent, "names a key that holds signatures")
	}
}

func (c *compiler) compileSigned(d bound) {
	if len(d.Signed) > maxText {
		c.faults.add("signed", RuleLimit, "is longer than %d bytes", maxText)
		return
	}
	c.before, c.after = c.parseSigned(d.Signed)
	withTimestamp, covered := false, map[string]bool{}
	for _, parts := range [][]signedPart{c.before, c.after} {
		for i := range parts {
			switch part := &parts[i]; part.kind {
			case segmentTimestamp:
				withTimestamp = true
			case segmentID:
				part.header = c.idHeader()
				covered[part.header] = true
			case segmentSource:
				covered[part.header] = true
			case segmentLiteral, segmentBody:
			}
		}
	}
	c.checkTimestampSigned(d.Timestamp, withTimestamp)
	for i := range c.ids {
		c.ids[i].signed = c.ids[i].coveredBy(covered)
	}
	for _, fallback := range fallbackIDs() {
		same := func(r idRule) bool { return r.text == fallback.text }
		if fallback.coveredBy(covered) && !slices.ContainsFunc(c.ids, same) {
			fallback.signed = true
			c.ids = append(c.ids, fallback)
		}
	}
}

// idHeader returns the header that {id} stands for.
func (c *compiler) idHeader() string {
	if len(c.ids) != 1 || c.ids[0].sources[0].kind != sourceHeader {
		c.faults.add("signed", RuleCoherent, "contains {id}, so event.id needs exactly one entry, and that a header")
		return ""
	}
	return c.ids[0].sources[0].name
}

// coveredBy reports whether the signature covers the whole id: the body always is covered, a header when it is named.
func (r *idRule) coveredBy(headers map[string]bool) bool {
	for _, src := range r.sources {
		if src.kind == sourceHeader && !headers[src.name] {
			return false
		}
	}
	return true
}

// fallbackIDs are ids by convention: Standard Webhooks, Svix, CloudEvents (source and id together) and Idempotency-Key
// (IETF draft-ietf-httpapi-idempotency-key-header). They count only where the signature covers them: whoever replays a
// delivery can put a new value into any other header.
func fallbackIDs() []idRule {
	one := func(name string) idRule {
		src := headerSource(name)
		return idRule{sources: []source{src}, text: src.text}
	}
	ce := idRule{sources: []source{headerSource("ce-source"), headerSource("ce-id")}, text: "header:ce-source+ce-id"}
	return []idRule{one("webhook-id"), one("svix-id"), ce, one("idempotency-key")}
}

func (c *compiler) compileIDs(d bound) {
	c.limit("event.id", len(d.Event.ID))
	for i, text := range d.Event.ID {
		src, ok := c.eventSource(d.idFields[i], text)
		if ok && slices.ContainsFunc(c.ids, func(r idRule) bool { return r.text == src.text }) {
			c.faults.add(d.idFields[i], RuleUnique, "is listed twice")
		}
		c.ids = append(c.ids, idRule{sources: []source{src}, text: src.text})
	}
}

func (c *compiler) compileEvent(d bound) {
	c.limit("event.type", len(d.Event.Type))
	for i, text := range d.Event.Type {
		if len(text) > maxText {
			c.faults.add(d.typeFields[i], RuleLimit, "is longer than %d bytes", maxText)
			continue
		}
		c.types = append(c.types, c.parseType(d.typeFields[i], text))
	}
	if len(d.Event.Map) > maxMapEntries {
		c.faults.add("event.map", RuleLimit, "has more than %d entries", maxMapEntries)
	}
	for _, from := range slices.Sorted(maps.Keys(d.Event.Map)) {
		to := d.Event.Map[from]
		if from == "" || !printable(to, maxTypeBytes) || strings.Contains(from+to, paramOpen) {
			c.faults.add("event.map", RuleFormat, "must map types to 1 to %d bytes of printable ASCII without spaces: %q", maxTypeBytes, from)
		}
	}
	c.rename = maps.Clone(d.Event.Map)
	c.limit("control", len(d.Control))
	for i, p := range d.Control {
		field := d.controlFields[i]
		src, _ := c.eventSource(field+".from", p.From)
		if len(p.Equals) == 0 || len(p.Equals) > maxEntries {
			c.faults.add(field+".equals", RuleRequired, "needs 1 to %d values", maxEntries)
		}
		if slices.Contains(p.Equals, "") {
			c.faults.add(field+".equals", RuleFormat, "must not contain an empty value: absence is no mark")
		}
		c.control = append(c.control, predicate{src: src, equals: slices.Clone(p.Equals)})
	}
}

// eventSource reads a source of what describes an event: a header or a JSON pointer.
func (c *compiler) eventSource(field, text string) (source, bool) {
	src, wrong := parseSource(text)
	if wrong == "" && src.kind == sourceSignature {
		wrong = "must be header:<name> or json:<pointer>"
	}
	if wrong != "" {
		c.faults.add(field, RuleFormat, "%s", wrong)
	}
	return src, wrong == ""
}

func (c *compiler) compileRedact(d bound) {
	c.limit("redact_headers", len(d.RedactHeaders))
	names := map[string]bool{}
	for _, rule := range c.signatures {
		names[strings.ToLower(rule.header)] = true
	}
	for i, name := range d.RedactHeaders {
		if !validHeaderName(name) {
			c.faults.add(d.redactFields[i], RuleFormat, "is not a header name")
		}
		names[strings.ToLower(name)] = true
	}
	c.redact = slices.Sorted(maps.Keys(names))
}

func (c *compiler) limit(field string, n int) {
	if n > maxEntries {
		c.faults.add(field, RuleLimit, "has more than %d entries", maxEntries)
	}
}

// at names an entry of a list.
func at(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
