package ingest

import (
	"net/http"
	"slices"
	"strings"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connections"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// headerRules say what is stored of the headers of a request. Names are in lower case.
type headerRules struct {
	// secret are redacted. Those of them that signatures names as well are also kept as they came.
	secret, signatures []string
	// first are kept as they came, too: receivers need them before others.
	first []string
	// reads reports whether the connection's definition reads a header. It is nil for a request that was rejected, of
	// which the operator sees all.
	reads func(name string) bool
	// foreign are the beginnings of the names of headers that only mislead receivers; they are not stored.
	foreign []string
	// readable is set for a body that no coding hides, regardless of Content-Encoding.
	readable bool
}

// rulesFor returns the rules for a webhook of the connection that was accepted.
func rulesFor(in *connections.Inbound, signatures []string, encoding events.Encoding) *headerRules {
	rules := &headerRules{secret: in.Verifier.RedactHeaders(), signatures: signatures, reads: in.Verifier.Reads,
		readable: encoding != events.Base64}
	if !isGeneric(in) {
		for _, prefix := range [...]string{"ce-", "svix-"} {
			if !in.Verifier.ReadsAny(prefix) {
				rules.foreign = append(rules.foreign, prefix)
			}
		}
	}
	return rules
}

// isGeneric reports whether the connection's definition is for senders of any kind.
func isGeneric(in *connections.Inbound) bool {
	return slices.Contains(in.Provider.Definition.Categories, "generic")
}

// read reports whether the definition reads the header.
func (r *headerRules) read(lower string) bool { return r.reads != nil && r.reads(lower) }

// misleads reports whether a header says what is untrue of the webhook. Few providers sign their headers, so anyone who
// replays a webhook can add such: those of a standard that the provider does not follow, which libraries read as if it
// did; one that receivers behind CGI cannot distinguish from another (X_GitHub_Event); and a coding of a body that has
// none.
func (r *headerRules) misleads(lower string, h http.Header) bool {
	if r.reads == nil || r.reads(lower) {
		return false
	}
	if plain := subscriptions.PlainName(lower); plain != lower && h[http.CanonicalHeaderKey(plain)] != nil {
		return true
	}
	return r.readable && lower == "content-encoding" ||
		slices.ContainsFunc(r.foreign, func(prefix string) bool { return strings.HasPrefix(lower, prefix) })
}

// hidden reports whether the value of a header must not be shown.
func (r *headerRules) hidden(lower string) bool {
	return events.IsCredential(lower) || slices.Contains(r.secret, lower) ||
		events.LooksLikeCredential(lower) && !r.read(lower)
}

// connectionOptions returns the canonical names of headers that the field Connection says are about this connection
// only (RFC 9110 section 7.6.1). It cannot take away those that the definition reads: no one signs Connection.
func (r *headerRules) connectionOptions(h http.Header) []string {
	var names []string
	for _, value := range h["Connection"] {
		for option := range strings.SplitSeq(value, ",") {
			switch option = strings.Trim(option, " \t"); {
			case option == "", strings.EqualFold(option, "close"), strings.EqualFold(option, "keep-alive"),
				r.read(strings.ToLower(option)):
			default:
				names = append(names, http.CanonicalHeaderKey(option))
			}
		}
	}
	return names
}

// storedHeaders returns the headers as a JSON object of lower-case names, without hop-by-hop headers and those that
// mislead. Credentials and the headers of rules.secret are redacted. Those of them that rules.signatures names as well
// are returned as they came, with those of rules.first, as another such object, which is empty if there are none.
func storedHeaders(h http.Header, rules *headerRules) (shown, signed string) {
	names := make([]string, 0, len(h))
	options := rules.connectionOptions(h)
	for name := range h {
		if !hopByHop(name) && !slices.Contains(options, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	b := append(make([]byte, 0, 512), '{')
	var kept []byte
	var buffer [64]byte
	for _, name := range names {
		lower := appendLower(buffer[:0], name)
		text := string(lower)
		if rules.misleads(text, h) {
			continue
		}
		value := strings.Join(h[name], ", ")
		if rules.hidden(text) {
			if slices.Contains(rules.secret, text) && slices.Contains(rules.signatures, text) && !events.IsCredential(text) {
				kept = appendMember(kept, lower, value)
			}
			value = secretbox.Redacted
		} else if slices.Contains(rules.first, text) {
			kept = appendMember(kept, lower, value)
		}
		b = appendMember(b, lower, value)
	}
	if kept != nil {
		signed = string(append(kept, '}'))
	}
	return string(append(b, '}')), signed
}
