package outbound

import (
	"net/url"
	"strings"

	"sallyport/internal/platform/egress"
)

// parseURL reads an absolute URL as every parser does: only the characters of RFC 3986, without user name, fragment,
// empty port, empty label or a dot behind the host. wrong is a clause that quotes nothing.
func parseURL(raw string) (u *url.URL, wrong string) {
	if raw == "" {
		return nil, "is missing"
	}
	if len(raw) > maxURL {
		return nil, "is longer than 2048 characters"
	}
	for i := range len(raw) {
		if b := raw[i]; b <= ' ' || b >= 0x7f || strings.IndexByte("\\\"<>^`{|}", b) >= 0 {
			return nil, "has a character that must be percent-encoded, or a name that must be in its ASCII form (xn--…)"
		}
	}
	if strings.Contains(raw, "#") {
		return nil, "must not have a fragment"
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "" || u.Hostname() == "":
		return nil, "must be an absolute URL such as https://api.example.com"
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, "must begin with https://"
	case u.User != nil || strings.Contains(u.Host, "@"):
		return nil, "must not have a user name or password"
	case strings.HasSuffix(u.Host, ":"), u.Port() != "" && !validPort(u.Port()):
		return nil, "must have a port between 1 and 65535, or none"
	case !validURLHost(u.Hostname()):
		return nil, "must have a host without empty labels and without a dot at its end"
	case !safePath(u.EscapedPath()):
		return nil, "must have a path without dot segments, backslashes and control characters"
	}
	return u, ""
}

// hostOf returns the host in lower case, with its port where it is not the scheme's own.
func hostOf(u *url.URL) string { return egress.HostKey(u) }

// safePath reports whether a path means the same to every server: no dot segments, backslashes or control bytes, not in
// an escaped form either, and none that appears when escapes are decoded again.
func safePath(escaped string) bool {
	text := escaped
	for range maxDecodings {
		if !plainPath(text) {
			return false
		}
		decoded, err := url.PathUnescape(text)
		if err != nil {
			return text != escaped // a literal percent sign that had been escaped
		}
		if decoded == text {
			return true
		}
		text = decoded
	}
	return false
}

// maxDecodings limits the levels of percent-encoding in a path.
const maxDecodings = 4

func plainPath(text string) bool {
	for i := range len(text) {
		if b := text[i]; b < ' ' || b == 0x7f || b == '\\' {
			return false
		}
	}
	for segment := range strings.SplitSeq(text, "/") {
		name, _, _ := strings.Cut(segment, ";") // some servers leave parameters of a segment out
		if name == "." || name == ".." {
			return false
		}
	}
	return true
}
