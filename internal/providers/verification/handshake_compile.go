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
	h.require = c.compilePredicates(field+".require", d.Require, controlSources)
	for _, p := range h.when {
		if p.src.kind != sourceMethod {
			continue
		}
		h.methods = append(h.methods, p.equals...)
		if len(p.equals) == 0 || slices.ContainsFunc(p.equals, func(m string) bool {
			return !slices.Contains(handshakeMethods(), m)
		}) {
			c.problems.add(field+".when", ruleEnum, "must compare the method with %s", strings.Join(handshakeMethods(), ", "))
		}
	}
	if len(h.methods) == 0 {
		c.problems.add(field+".when", ruleRequired, "needs a predicate on the method")
	}
	if d.Capture != nil {
		src, wrong := parseSource(d.Capture.From, controlSources)
		if wrong != "" {
			c.problems.add(field+".capture.from", ruleFormat, "%s", wrong)
		}
		h.captured = src
		c.redactSource(&src)
		if d.VerifyFirst {
			c.problems.add(field+".capture", ruleCoherent, "cannot be verified first: the secret comes with the handshake")
		}
	}
	c.compileRespond(field+".respond", &d.Respond, &h)
	return h
}

func handshakeMethods() []string {
	return []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions}
}

func (c *compiler) compileRespond(field string, d *Respond, h *handshake) {
	c.checkResponseStatus(field+".status", d.Status)
	h.contentType, h.json = c.compileResponseType(field+".content_type", d.ContentType)
	if d.ContentType == "" && d.Body == "" {
		h.contentType = ""
	}
	h.body = c.compileResponse(field+".body", d.Body, h)
	empty := d.Body == "" && d.Status == http.StatusNoContent // some providers want the type named all the same
	if h.json && !empty && !json.Valid([]byte(sampleResponse(h.body))) {
		c.problems.add(field+".body", ruleFormat, "is not JSON: tokens must be inside strings")
	}
	c.limit(field+".headers", len(d.Headers))
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		if !validHeaderName(name) || !isResponseHeader(textproto.CanonicalMIMEHeaderKey(name)) {
			c.problems.add(field+".headers", ruleFormat, "cannot have %q", name)
		}
		if d.Headers[name] == "" {
			c.problems.add(field+".headers", ruleRequired, "needs a value for %q", name)
		}
		value := c.compileResponse(field+".headers", d.Headers[name], h)
		h.headers = append(h.headers, responseHeader{name: textproto.CanonicalMIMEHeaderKey(name), value: value})
	}
}

// isResponseHeader refuses headers that mean something to a browser or to the connection.
func isResponseHeader(name string) bool {
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

// compileResponse splits text into literals and ${tokens}.
func (c *compiler) compileResponse(field, text string, h *handshake) []responsePart {
	if len(text) > maxResponse || !printableText(strings.ReplaceAll(text, "\n", " ")) {
		c.problems.add(field, ruleFormat, "must be printable ASCII of at most %d bytes, without {param:", maxResponse)
		return nil
	}
	var parts []responsePart
	for text != "" {
		before, rest, found := strings.Cut(text, "${")
		if before != "" {
			parts = append(parts, responsePart{literal: before})
		}
		if !found {
			break
		}
		token, after, closed := strings.Cut(rest, "}")
		if !closed {
			c.problems.add(field, ruleFormat, "has ${ without }")
			break
		}
		parts = append(parts, c.compileResponseToken(field, token, h))
		text = after
	}
	return parts
}

func (c *compiler) compileResponseToken(field, token string, h *handshake) responsePart {
	part := responsePart{}
	argument := token
	for name, encoding := range map[string]signatureEncoding{"hmac_hex(": encodingHex, "hmac_b64(": encodingBase64} {
		if inner, ok := strings.CutPrefix(token, name); ok && strings.HasSuffix(inner, ")") {
			argument, part.hmac = strings.TrimSuffix(inner, ")"), encoding
		}
	}
	src, wrong := parseSource(argument, controlSources)
	if wrong != "" {
		c.problems.add(field, ruleFormat, "has a token whose source %s", wrong)
	}
	part.src = &src
	if part.hmac != encodingNone {
		h.signs = true
		c.markResponseProof(field)
	}
	return part
}

// markResponseProof marks the proof whose key signs responses to handshakes. There must be only one: another proof with
// the same secret would not know that its content could have been signed as a challenge.
func (c *compiler) markResponseProof(field string) {
	var keyed []*proof
	for _, p := range c.proofs {
		if p.usesSecrets() {
			keyed = append(keyed, p)
		}
	}
	if len(keyed) != 1 || keyed[0].scheme != schemeHMAC {
		c.problems.add(field, ruleCoherent, "has an HMAC, so the declaration needs hmac as its only proof that takes secrets")
		return
	}
	keyed[0].responds = true
}

// sampleResponse is a response with plain text in place of its tokens.
func sampleResponse(parts []responsePart) string {
	var out strings.Builder
	for _, part := range parts {
		if part.src != nil {
			out.WriteString("x")
		}
		out.WriteString(part.literal)
	}
	return out.String()
}

func (c *checker) checkResponseStatus(field string, status int) {
	switch status {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent:
	default:
		c.problems.add(field, ruleEnum, "must be 200, 201, 202 or 204")
	}
}

// compileResponseType returns the value of the header Content-Type.
func (c *compiler) compileResponseType(field, contentType string) (header string, isJSON bool) {
	switch contentType {
	case "", "text/plain":
	case "application/json":
		return contentType, true
	default:
		c.problems.add(field, ruleEnum, "must be text/plain or application/json")
	}
	return "text/plain; charset=utf-8", false
}

// responseHeaders are the headers of a response. An empty content type, as in a response without a body, is left out.
func responseHeaders(contentType string) http.Header {
	h := http.Header{"X-Content-Type-Options": {"nosniff"}}
	if contentType != "" {
		h["Content-Type"] = []string{contentType}
	}
	return h
}

// compileResponses checks the responses to webhooks, and which webhooks are processed.
func (c *compiler) compileResponses(d *Declaration) {
	if d.Ack != nil {
		status, _ := strconv.Atoi(d.Ack.Status) // 0, which is refused, where it is no number
		c.checkResponseStatus("ack.status", status)
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
			c.problems.add("ack.content_type", ruleEnum, "must be text/plain, text/xml or application/json")
		}
		if len(d.Ack.Body) > maxResponse || !printableText(strings.ReplaceAll(d.Ack.Body, "\n", " ")) {
			c.problems.add("ack.body", ruleFormat, "must be printable ASCII of at most %d bytes", maxResponse)
		}
		c.ack = &Response{Status: status, Body: []byte(d.Ack.Body), Header: responseHeaders(contentType)}
	}
	if c.reject = d.RejectStatus; c.reject == 0 {
		c.reject = http.StatusUnauthorized
	}
	if c.reject < 400 || c.reject > 499 {
		c.problems.add("reject_status", ruleLimit, "must be 400 to 499")
	}
	if c.maxBody = d.MaxBody; c.maxBody < 0 || c.maxBody > MaxBodyBytes {
		c.problems.add("max_body", ruleLimit, "must be 1 to %d", MaxBodyBytes)
	}
	c.limit("source_ips", len(d.SourceIPs))
	for i, text := range d.SourceIPs {
		network, err := clientaddr.ParseNetwork(text)
		if err != nil {
			c.problems.add(at("source_ips", i), ruleFormat, "must be a network in CIDR form, such as 192.0.2.0/24")
		}
		c.networks = append(c.networks, network)
	}
}
