package ingest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/events"
)

// keepLost adds to the headers of a webhook what receivers would not get otherwise: the query of the URL, because they
// are called at another URL, and the sender's own webhook-id, in whose place they get the gateway's. Nothing that a
// sender says in these headers counts.
func keepLost(in *connections.Inbound, r *verification.Request) {
	r.Header.Del(events.QueryHeader)
	r.Header.Del(events.SenderIDHeader)
	if query := shownQuery(in.Verifier, r.RawQuery); query != "" {
		r.Header.Set(events.QueryHeader, query)
	}
	if values := r.Header[http.CanonicalHeaderKey("webhook-id")]; len(values) == 1 && values[0] != "" &&
		(in.Verifier.Reads("webhook-id") || isGeneric(in)) {
		r.Header.Set(events.SenderIDHeader, values[0])
	}
}

// shownQuery returns the query of a webhook's URL as a header can carry it, without the values of credentials.
func shownQuery(v *verification.Verifier, raw string) string {
	if raw == "" {
		return ""
	}
	secret := v.SecretParameters()
	parts := strings.Split(raw, "&")
	for i, part := range parts {
		name, _, found := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		if found && (err != nil || slices.Contains(secret, plain) || isCredentialParameter(plain)) {
			part = name + "=" + secretbox.Redacted
		}
		parts[i] = visible(part)
	}
	return strings.Join(parts, "&")
}

// isCredentialParameter reports whether a parameter is a credential by its name, as headers are.
func isCredentialParameter(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	switch name {
	case "auth", "code", "key", "pass", "passwd", "pwd", "sig", "signature":
		return true
	default:
		return events.IsCredential(name) || events.LooksLikeCredential(name)
	}
}

// visible escapes what a header cannot carry.
func visible(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c > ' ' && c < 0x7f {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + hex[c>>4:c>>4+1] + hex[c&15:c&15+1])
		}
	}
	return b.String()
}
