package verification

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/platform/clientaddr"
)

func (c *compiler) compileHandshakes(list []Handshake) {
	c.limit("handshake", len(list))
	for i := range list {
		c.handshakes = append(c.handshakes, c.compileHandshake(at("handshake", i), &list[i]))
	}
}

func (c *compiler) compileHandshake(field string, d *Handshake) handshake {
	h := handshake{verifyFirst: d.VerifyFirst, capture: d.Capture, status: d.Respond.Status}
	h.when = c.compilePredicates(field+".when", d.When, handshakeSources)
	for _, p := range h.when {
		if p.src.kind != sourceMethod {
			continue
		}
		h.methods = append(h.methods, p.equals...)
		if len(p.equals) == 0 || slices.ContainsFunc(p.equals, func(m string) bool {
			return !slices.Contains(handshakeMethods(), m)
		}) {
			c.faults.add(field+".when", ruleEnum, "must compare the method with %s", strings.Join(handshakeMethods(), ", "))
		}
	}
	if len(h.methods) == 0 {
		c.faults.add(field+".when", ruleRequired, "needs a predicate on the method")
	}
	if d.Capture != nil {
		src, wrong := parseSource(d.Capture.From, controlSources)
		if wrong != "" {
			c.faults.add(field+".capture.from", ruleFormat, "%s", wrong)
		}
		h.captured = src
		c.redactSource(&src)
		if d.VerifyFirst {
			c.faults.add(field+".capture", ruleCoherent, "cannot be verified first: the secret comes with the handshake")
		}
	}
	c.compileRespond(field+".respond", &d.Respond, &h)
	return h
}

func handshakeMethods() []string {
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions}
}

func (c *compiler) compileRespond(field string, d *Respond, h *handshake) {
	c.answerStatus(field+".status", d.Status)
	h.contentType, h.json = c.answerType(field+".content_type", d.ContentType)
	if d.ContentType == "" && d.Body == "" {
		h.contentType = ""
	}
	h.body = c.compileAnswer(field+".body", d.Body, h)
	empty := d.Body == "" && d.Status == http.StatusNoContent // some providers want the type named all the same
	if h.json && !empty && !json.Valid([]byte(sampleAnswer(h.body))) {
		c.faults.add(field+".body", ruleFormat, "is not JSON: tokens stand inside strings")
	}
	c.limit(field+".headers", len(d.Headers))
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		if !validHeaderName(name) || !answerableHeader(textproto.CanonicalMIMEHeaderKey(name)) {
			c.faults.add(field+".headers", ruleFormat, "cannot have %q", name)
		}
		if d.Headers[name] == "" {
			c.faults.add(field+".headers", ruleRequired, "needs a value for %q", name)
		}
		value := c.compileAnswer(field+".headers", d.Headers[name], h)
		h.headers = append(h.headers, answerHeader{name: textproto.CanonicalMIMEHeaderKey(name), value: value})
	}
}

// answerableHeader refuses headers that mean something to a browser or to the connection.
func answerableHeader(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Content-Type", "Content-Encoding", "Content-Security-Policy", "Keep-Alive",
		"Location", "Refresh", "Set-Cookie",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "X-Content-Type-Options", "Strict-Transport-Security",
		"Clear-Site-Data":
		return false
	default:
		return !strings.HasPrefix(name, "Access-Control-")
	}
}

// compileAnswer splits text into literals and ${tokens}.
func (c *compiler) compileAnswer(field, text string, h *handshake) []answerPart {
	if len(text) > maxAnswer || !printableText(strings.ReplaceAll(text, "\n", " ")) {
		c.faults.add(field, ruleFormat, "must be printable ASCII of at most %d bytes, without {param:", maxAnswer)
		return nil
	}
	var parts []answerPart
	for text != "" {
		before, rest, found := strings.Cut(text, "${")
		if before != "" {
			parts = append(parts, answerPart{literal: before})
		}
		if !found {
			break
		}
		token, after, closed := strings.Cut(rest, "}")
		if !closed {
			c.faults.add(field, ruleFormat, "has ${ without }")
			break
		}
		parts = append(parts, c.answerToken(field, token, h))
		text = after
	}
	return parts
}

func (c *compiler) answerToken(field, token string, h *handshake) answerPart {
	part := answerPart{}
	argument := token
	for name, encoding := range map[string]signatureEncoding{"hmac_hex(": encodingHex, "hmac_b64(": encodingBase64} {
		if inner, ok := strings.CutPrefix(token, name); ok && strings.HasSuffix(inner, ")") {
			argument, part.hmac = strings.TrimSuffix(inner, ")"), encoding
		}
	}
	src, wrong := parseSource(argument, controlSources)
	if wrong != "" {
		c.faults.add(field, ruleFormat, "has a token whose source %s", wrong)
	}
	part.src = &src
	if part.hmac != encodingNone {
		h.signs = true
		c.answerProof(field)
	}
	return part
}

// answerProof marks the proof whose key answers handshakes. There has to be one only: another proof that took the same
// secret would not know that its content could have been signed as a challenge.
func (c *compiler) answerProof(field string) {
	var keyed []*proof
	for _, p := range c.proofs {
		if p.takesSecrets() {
			keyed = append(keyed, p)
		}
	}
	if len(keyed) != 1 || keyed[0].scheme != schemeHMAC {
		c.faults.add(field, ruleCoherent, "has an HMAC, so the declaration needs hmac as its only proof that takes secrets")
		return
	}
	keyed[0].answers = true
}

// sampleAnswer is an answer with plain text in place of its tokens.
func sampleAnswer(parts []answerPart) string {
	var out strings.Builder
	for _, part := range parts {
		if part.src != nil {
			out.WriteString("x")
		}
		out.WriteString(part.literal)
	}
	return out.String()
}

func (c *compiler) answerStatus(field string, status int) {
	switch status {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent:
	default:
		c.faults.add(field, ruleEnum, "must be 200, 201, 202 or 204")
	}
}

// answerType returns the value of the header Content-Type.
func (c *compiler) answerType(field, contentType string) (header string, isJSON bool) {
	switch contentType {
	case "", "text/plain":
	case "application/json":
		return contentType, true
	default:
		c.faults.add(field, ruleEnum, "must be text/plain or application/json")
	}
	return "text/plain; charset=utf-8", false
}

// answerHeaders are the headers of an answer; an empty content type, which an answer without a body has, is left out.
func answerHeaders(contentType string) http.Header {
	h := http.Header{"X-Content-Type-Options": {"nosniff"}}
	if contentType != "" {
		h["Content-Type"] = []string{contentType}
	}
	return h
}

// compileAnswers checks how deliveries are answered and which are looked at.
func (c *compiler) compileAnswers(d *Declaration) {
	if d.Ack != nil {
		status, _ := strconv.Atoi(d.Ack.Status) // 0, which is refused, where it is no number
		c.answerStatus("ack.status", status)
		contentType := d.Ack.ContentType
		switch contentType {
		case "":
			if d.Ack.Body != "" {
				contentType = "text/plain; charset=utf-8"
			}
		case "text/plain":
			contentType = "text/plain; charset=utf-8"
		case "application/json", "text/xml":
		default:
			c.faults.add("ack.content_type", ruleEnum, "must be text/plain, text/xml or application/json")
		}
		if len(d.Ack.Body) > maxAnswer || !printableText(strings.ReplaceAll(d.Ack.Body, "\n", " ")) {
			c.faults.add("ack.body", ruleFormat, "must be printable ASCII of at most %d bytes", maxAnswer)
		}
		c.ack = &Answer{Status: status, Body: []byte(d.Ack.Body), Header: answerHeaders(contentType)}
	}
	if c.reject = d.RejectStatus; c.reject == 0 {
		c.reject = http.StatusUnauthorized
	}
	if c.reject < 400 || c.reject > 499 {
		c.faults.add("reject_status", ruleLimit, "must be 400 to 499")
	}
	if c.maxBody = d.MaxBody; c.maxBody < 0 || c.maxBody > maxBodyLimit {
		c.faults.add("max_body", ruleLimit, "must be 1 to %d", maxBodyLimit)
	}
	c.limit("source_ips", len(d.SourceIPs))
	for i, text := range d.SourceIPs {
		network, err := clientaddr.ParseNetwork(text)
		if err != nil {
			c.faults.add(at("source_ips", i), ruleFormat, "must be a network in CIDR form, such as 192.0.2.0/24")
		}
		c.networks = append(c.networks, network)
	}
}
