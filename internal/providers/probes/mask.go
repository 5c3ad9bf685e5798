package probes

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/outbound"
)

// minMasked is the length below which a text is too common to be masked.
const minMasked = 4

// masker removes credentials from texts of the provider, which may quote what it was sent.
type masker struct{ forms []string }

// newMasker returns a masker of all secrets that a request was made from, and of the values that the request carries
// them in.
func newMasker(e *outbound.Engine, v *outbound.Values, req *http.Request) *masker {
	m := &masker{}
	m.add(v.Client.Secret.Reveal())
	m.add(v.Client.PrivateKey.Reveal())
	for _, value := range v.Credentials {
		m.add(value.Reveal())
	}
	for _, f := range e.ConfigFields() {
		if f.Secret {
			m.add(v.Config[f.Name].Reveal())
		}
	}
	for name, values := range req.Header {
		if !ordinary(name) {
			for _, value := range values {
				m.add(value)
				_, token, _ := strings.Cut(value, " ") // of a scheme and its credentials
				m.add(token)
			}
		}
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(m.forms, func(a, b string) int { return len(b) - len(a) })
	m.forms = slices.Compact(m.forms)
	return m
}

// ordinary reports whether a header carries no credential in any definition.
func ordinary(name string) bool {
	switch name {
	case "User-Agent", "Accept", "Accept-Language", "Content-Type", "Content-Length":
		return true
	default:
		return false
	}
}

// add adds the forms in which a provider may show a secret.
func (m *masker) add(secret string) {
	if len(secret) < minMasked {
		return
	}
	raw := []byte(secret)
	m.forms = append(m.forms, secret, url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString(raw),
		strings.ToUpper(hex.EncodeToString(raw)), base64.RawStdEncoding.EncodeToString(raw),
		base64.RawURLEncoding.EncodeToString(raw))
}

// mask replaces the secrets in a text.
func (m *masker) mask(text string) string {
	for _, form := range m.forms {
		text = strings.ReplaceAll(text, form, secretbox.Redacted)
	}
	return text
}

// maskResponse replaces the secrets in a response.
func (m *masker) maskResponse(r *outbound.Response) {
	for _, form := range m.forms {
		r.Body = bytes.ReplaceAll(r.Body, []byte(form), []byte(secretbox.Redacted))
	}
	masked := make(http.Header, len(r.Header))
	for name, values := range r.Header {
		for _, value := range values {
			masked[name] = append(masked[name], m.mask(value))
		}
	}
	r.Header = masked
}

// shows reports whether a text has, or had, a secret in it.
func (m *masker) shows(text string) bool {
	return strings.Contains(text, secretbox.Redacted) || m.mask(text) != text
}
