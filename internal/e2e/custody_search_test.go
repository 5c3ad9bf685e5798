package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// markTag begins each half of a mark. Half of a secret that a limit has cut, at either end, has it whole.
const markTag = "Zx7QkLw2Vn9J"

// marks makes secrets that can be found in anything, in every usual form.
type marks struct {
	mu     sync.Mutex
	places []string
	// generated are secrets that the service makes, by place. They have no tag and are searched one by one.
	generated map[string][]string
}

// at returns the secret of a place: 32 letters and digits.
func (m *marks) at(place string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.places = append(m.places, place)
	number := fmt.Sprintf("%04d", len(m.places)-1)
	return markTag + number + markTag + number
}

// made records a secret of the service's own.
func (m *marks) made(place, secret string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generated == nil {
		m.generated = map[string][]string{}
	}
	m.generated[place] = append(m.generated[place], secret)
}

// signed records the assertions in a request, with which anyone gets tokens, and returns their signatures.
func (m *marks) signed(r *http.Request, body []byte) (signatures string) {
	sent := []string{strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	if form, err := url.ParseQuery(string(body)); err == nil {
		sent = append(sent, form.Get("assertion"), form.Get("client_assertion"))
	}
	for _, token := range sent {
		if parts := strings.Split(token, "."); len(parts) == 3 && len(parts[2]) > 64 {
			m.made("an assertion", parts[2][:64])
			signatures += parts[2]
		}
	}
	return signatures
}

// needle is a form of a secret. One in lower case is searched in the text in lower case.
type needle struct {
	form string
	text []byte
	fold bool
}

// needles returns the forms in which a text may have a secret: in clear and in any case, so that escapes for URLs and
// JSON, which leave letters and digits alone, are found too; in hexadecimal; with every byte escaped; and in base64
// next to any other bytes.
func needles(secret string) []needle {
	raw := []byte(secret)
	var percent, unicode strings.Builder
	for _, b := range raw {
		fmt.Fprintf(&percent, "%%%02x", b)
		fmt.Fprintf(&unicode, `\u%04x`, b)
	}
	list := []needle{{"clear", bytes.ToLower(raw), true}, {"hexadecimal", []byte(hex.EncodeToString(raw)), true},
		{"URL form", []byte(percent.String()), true}, {"JSON escapes", []byte(unicode.String()), true}}
	if escaped := url.QueryEscape(secret); escaped != secret {
		list = append(list, needle{"URL form", []byte(strings.ToLower(escaped)), true})
	}
	for before := range 3 {
		padded := append(make([]byte, before), raw...)
		from, to := (before*8+5)/6, len(padded)*8/6
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			list = append(list, needle{"base64", []byte(e.EncodeToString(padded)[from:to]), false})
		}
	}
	return list
}

// leaks returns what a text shows of the secrets, each with what stands around it.
func (m *marks) leaks(source string, text []byte) (list []string) {
	folded := bytes.ToLower(text)
	find := func(place string, all []needle) {
		for _, n := range all {
			in := text
			if n.fold {
				in = folded
			}
			for from, found := 0, 0; found < 3; found++ {
				at := bytes.Index(in[from:], n.text)
				if at < 0 {
					break
				}
				at += from
				around := text[max(0, at-120):min(len(text), at+len(n.text)+40)]
				list = append(list, fmt.Sprintf("%s shows %s in %s: %q", source, place, n.form, around))
				from = at + len(n.text)
			}
		}
	}
	find("a mark", needles(markTag))
	for place, secrets := range m.generated {
		for _, secret := range secrets {
			find(place, needles(secret[:len(secret)/2]))
			find(place, needles(secret[len(secret)-len(secret)/2:]))
		}
	}
	return list
}

// place returns the place of a mark, for the reader of a failure.
func (m *marks) index() string {
	var b strings.Builder
	for i, place := range m.places {
		fmt.Fprintf(&b, "%04d %s\n", i, place)
	}
	return b.String()
}

// The search of the custody test finds a secret in each form, with anything around it, and half of one that was cut.
func TestCustodySearch(t *testing.T) {
	t.Parallel()
	m := &marks{}
	mark, generated := m.at("a place"), "sp_live_0w3k5n7q9r1t3v5x7z2c4f6h8j"
	m.made("a key", generated)
	require.Empty(t, m.leaks("a log", []byte("nothing to see, "+markTag[:8]+" "+generated[:9])))
	for _, secret := range []string{mark, mark[:16], mark[16:], mark[:20], generated, generated[:17], generated[17:]} {
		for _, around := range []string{"", "a", "ab", "abc"} {
			text := around + secret + around
			for form, shown := range map[string]string{
				"clear": text, "upper case": strings.ToUpper(text), "hexadecimal": hex.EncodeToString([]byte(text)),
				"base64":    base64.StdEncoding.EncodeToString([]byte(text)),
				"base64url": base64.RawURLEncoding.EncodeToString([]byte(text)),
				"URL form":  escapeAll(text, "%%%02X"), "JSON": escapeAll(text, `\u%04X`),
			} {
				require.NotEmpty(t, m.leaks("a log", []byte(`{"x":"`+shown+`"}`)), "%s of %q", form, text)
			}
		}
	}
	require.Contains(t, m.index(), "0000 a place")
}

func escapeAll(text, format string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}
