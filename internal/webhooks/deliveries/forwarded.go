package deliveries

import (
	"strings"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

const (
	// maxForwardedBytes limits the provider's headers of one request, each with four bytes more than its name and value.
	// With the gateway's own they stay within the 8 KiB that Tomcat accepts; other servers accept more.
	maxForwardedBytes = 6 << 10
	// maxForwarded limits their number. With all others they stay within the 100 that Apache's HTTP server accepts.
	maxForwarded = 60
	// FewHeaderBytes is a size of all headers of a request under which none is left out.
	FewHeaderBytes = maxForwardedBytes / 2
	// FewHeaders is their number for that.
	FewHeaders = maxForwarded / 2
)

// passesOn reports whether a header of a provider's request goes to receivers, by its name in lower case. ADR 48 has
// the reasons. Names are compared in the form in which CGI shows them, so that no receiver mistakes one for another.
func passesOn(name string) bool {
	if name == "sallyport-query" || name == "sallyport-sender-webhook-id" {
		return true // of the gateway, about the provider's request
	}
	plain := subscriptions.PlainName(name)
	if plain != name && (plain == "user-agent" || strings.HasPrefix(plain, "content-")) {
		return false
	}
	name = plain
	switch name {
	// About one connection or one exchange of messages (RFC 9110, RFC 9113, RFC 8470), or how its response is read.
	case "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "host",
		"content-length", "expect", "early-data", "accept-encoding", "range", "max-forwards":
		return false
	// Set by the gateway itself.
	case "webhook-id", "webhook-timestamp", "webhook-signature":
		return false
	// Set by proxies, about where the request came from.
	case "forwarded", "x-forwarded", "via", "x-real-ip", "client-ip", "x-proxyuser-ip", "x-appengine-user-ip", "x-scheme",
		"front-end-https", "cdn-loop", "cdn-requestid",
		"x-amz-cf-id", "x-amzn-trace-id", "x-cloud-trace-context", "x-varnish", "client-cert", "client-cert-chain":
		return false
	// Read by some servers in place of the method, the path or the user.
	case "x-rewrite-url", "x-host", "proxy", "remote-user", "x-user", "x-webauth-user":
		return false
	}
	return !events.IsCredential(name) && !isWithheld(name) && !hasWithheldSuffix(name)
}

// MayForward reports whether a header of a stored event goes to receivers, by its name in lower case and the value that
// the event shows: not if it is redacted.
func MayForward(name, value string) bool { return value != secretbox.Redacted && passesOn(name) }

// forwardedHeader is a header of the provider's request that a receiver gets.
type forwardedHeader struct {
	// name is in Go's canonical form, lower in lower case.
	name, lower string
	value       string
	// signature is set for a signature of the provider, which no record of the request shows.
	signature bool
}

// forwardedHeaders returns the headers for a receiver of the raw webhook, in the order of their names, and how many the
// limits leave out: others before signatures and, if there are many, before those that name the event.
func forwardedHeaders(p *events.Payload) (list []forwardedHeader, omitted int) {
	list = make([]forwardedHeader, 0, strings.Count(p.Headers, `":"`))
	left := limit{bytes: maxForwardedBytes, headers: maxForwarded}
	signed := map[string]string{} // does not escape, so it costs nothing while it is empty
	var names strings.Builder
	names.Grow(len(p.Headers) / 3) // as a rule one allocation for all
	for lower, value := range events.EachHeader(p.Signatures) {
		if text := events.HeaderText(value); passesOn(lower) && left.takes(lower, text) {
			signed[lower] = text
		} else if passesOn(lower) && !strings.Contains(p.Headers, `"`+lower+`":`+value) {
			omitted++ // the others are counted below
		}
	}
	for lower, value := range events.EachHeader(p.Headers) {
		if lower == "content-type" {
			continue // known from the event
		}
		text, first := signed[lower]
		if !first {
			text = events.HeaderText(value)
		}
		switch {
		case first || MayForward(lower, text) && left.takes(lower, text):
			list = append(list, forwardedHeader{appendCanonical(&names, lower), lower, text,
				first && value == `"`+secretbox.Redacted+`"`})
		case MayForward(lower, text):
			omitted++
		}
	}
	return list, omitted
}

// appendCanonical appends a name in lower case in Go's canonical form, as http.CanonicalHeaderKey returns it, and
// returns that.
func appendCanonical(b *strings.Builder, lower string) string {
	start, upper := b.Len(), true
	for i := range len(lower) {
		c := lower[i]
		if upper && 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		b.WriteByte(c)
		upper = c == '-'
	}
	return b.String()[start:]
}

// limit is what headers may still take.
type limit struct{ bytes, headers int }

// takes reports whether one more header fits, and counts it.
func (l *limit) takes(name, value string) bool {
	size := len(name) + len(value) + 4
	if size > l.bytes || l.headers == 0 {
		return false
	}
	l.bytes -= size
	l.headers--
	return true
}

// appendForwarded appends the headers of an envelope: a JSON object of lower-case names.
func appendForwarded(b []byte, p *events.Payload) []byte {
	const redacted = `"` + secretbox.Redacted + `"`
	b = append(b, '{')
	first := true
	for lower, value := range events.EachHeader(p.Headers) {
		if value == redacted || !passesOn(lower) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendJSONString(b, lower), ':')
		b = append(b, value...)
	}
	return append(b, '}')
}
