package oauth

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/internal/platform/secretbox"
)

// Bounds of what is taken from responses, in bytes, and of descriptions in characters.
const (
	// maxToken is not more than a credential may have that is stored.
	maxToken       = 16 << 10
	maxCode        = 64
	maxDescription = 300
	maxMetadata    = 1 << 10
	maxScopes      = 500
	maxScope       = 256
)

// tokenLike is a run of characters that is long enough for a token. Words of that length have no digits.
var tokenLike = regexp.MustCompile(`[A-Za-z0-9_~+/=%.-]{20,}`)

// clean makes foreign text fit for a page, a log and an error: one line of printable characters, without the secrets
// that were sent and without anything that looks like a token, and cut to limit characters.
func clean(text string, limit int, sent []secretbox.Secret) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	for _, secret := range sent {
		if s := secret.Reveal(); len(s) >= 4 {
			text = strings.NewReplacer(s, secretbox.Redacted, url.QueryEscape(s), secretbox.Redacted,
				url.PathEscape(s), secretbox.Redacted).Replace(text)
		}
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	text = tokenLike.ReplaceAllStringFunc(text, func(run string) string {
		if strings.ContainsAny(run, "0123456789") {
			return secretbox.Redacted
		}
		return run
	})
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

var errorCode = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// cleanCode returns an error code of the provider, or "" for what is none.
func cleanCode(code string, sent []secretbox.Secret) string {
	if !errorCode.MatchString(code) || clean(code, maxCode, sent) != code {
		return ""
	}
	return code
}

// isVisible reports whether a text has 1 to limit bytes, all of them printable ASCII (VSCHAR of RFC 6749, appendix A).
// Such a text can be sent in a header.
func isVisible(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// isScope reports whether a text is one scope (RFC 6749, section 3.3).
func isScope(s string) bool {
	return isVisible(s, maxScope) && !strings.ContainsAny(s, ` "\`)
}

// isToken reports whether a text is a token of HTTP (RFC 9110, section 5.6.2), as the names of headers are.
func isToken(s string) bool {
	return isVisible(s, maxCode) && !strings.ContainsAny(s, ` "(),/:;<=>?@[\]{}`)
}

// isFieldValue reports whether a text can be the value of a header.
func isFieldValue(s string) bool {
	return len(s) <= maxToken && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
