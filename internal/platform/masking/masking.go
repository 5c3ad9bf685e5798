// Package masking removes secrets from texts of others. A server that was sent a credential may quote it: in a
// message, in a header, or encoded with what stands around it.
package masking

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sallyport/internal/platform/secretbox"
)

const (
	// minSecret is the length in bytes below which a text is too common to be masked.
	minSecret = 4
	// minInside is the length below which the inner part of a base64 text is too common.
	minInside = 8
)

// Masker replaces secrets by secretbox.Redacted. The zero Masker knows none.
type Masker struct{ forms []string }

// Add adds secrets, in all forms in which a text may quote them: in clear, escaped for URLs and JSON, in hexadecimal,
// and in base64 next to any other bytes. Those under four bytes are left out.
func (m *Masker) Add(secrets ...string) {
	for _, secret := range secrets {
		if len(secret) < minSecret {
			continue
		}
		for _, form := range forms(secret) {
			if !strings.Contains(secretbox.Redacted, form) { // else each mark would become several
				m.forms = append(m.forms, form)
			}
		}
	}
	slices.Sort(m.forms)
	m.forms = slices.Compact(m.forms)
	// The longest first: one may be a part of another.
	slices.SortStableFunc(m.forms, func(a, b string) int { return len(b) - len(a) })
}

func forms(secret string) []string {
	raw := []byte(secret)
	query, path := url.QueryEscape(secret), url.PathEscape(secret)
	list := []string{secret, query, path, lowerEscapes(query), lowerEscapes(path), strings.ReplaceAll(query, "+", "%20"),
		hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)), base64.RawStdEncoding.EncodeToString(raw),
		base64.RawURLEncoding.EncodeToString(raw), jsonText(secret, true), jsonText(secret, false)}
	// The characters of a base64 text that depend on the secret alone, for each place that its first byte can have.
	for before := range 3 {
		padded := append(make([]byte, before), raw...)
		from, to := (before*8+5)/6, len(padded)*8/6
		if to-from < minInside {
			continue
		}
		list = append(list, base64.RawStdEncoding.EncodeToString(padded)[from:to],
			base64.RawURLEncoding.EncodeToString(padded)[from:to])
	}
	return list
}

// lowerEscapes returns a text with its percent-encodings in lower case.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// jsonText returns a text as it stands in JSON, without the quotes.
func jsonText(text string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if e.Encode(text) != nil {
		return text // a string is always encoded
	}
	return strings.Trim(strings.TrimSuffix(b.String(), "\n"), `"`)
}

// Text returns a text without the secrets.
func (m *Masker) Text(text string) string {
	for _, form := range m.forms {
		text = strings.ReplaceAll(text, form, secretbox.Redacted)
	}
	return text
}

// Bytes returns b without the secrets. If b was cut at its end, what is there of a secret goes as well.
func (m *Masker) Bytes(b []byte, cut bool) []byte {
	for _, form := range m.forms {
		if bytes.Contains(b, []byte(form)) {
			b = bytes.ReplaceAll(b, []byte(form), []byte(secretbox.Redacted))
		}
	}
	if !cut {
		return b
	}
	longest := 0
	for _, form := range m.forms {
		for n := min(len(form)-1, len(b)); n >= minSecret && n > longest; n-- {
			if bytes.HasSuffix(b, []byte(form[:n])) {
				longest = n
			}
		}
	}
	if longest == 0 {
		return b
	}
	return append(slices.Clone(b[:len(b)-longest]), secretbox.Redacted...)
}

// Header returns a header without the secrets in its values.
func (m *Masker) Header(h http.Header) http.Header {
	if len(m.forms) == 0 {
		return h
	}
	masked := make(http.Header, len(h))
	for name, values := range h {
		for _, value := range values {
			masked[name] = append(masked[name], m.Text(value))
		}
	}
	return masked
}

// Shows reports whether a text has, or had, a secret in it.
func (m *Masker) Shows(text string) bool {
	return strings.Contains(text, secretbox.Redacted) || m.Text(text) != text
}
