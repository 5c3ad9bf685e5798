package subscriptions

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
)

// refusedNames returns the headers that the service or HTTP sets, as PlainName writes them. Those between Connection
// and Upgrade concern one connection only (RFC 9110 section 7.6.1). Expect and Accept-Encoding change how the response
// is read.
func refusedNames() []string {
	return []string{
		"host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", "accept-encoding",
		"user-agent", "webhook-id", "webhook-timestamp", "webhook-signature",
	}
}

// refusedPrefixes returns the prefixes of refused names.
func refusedPrefixes() []string { return []string{"proxy-", "content-", "sallyport-"} }

// PlainName returns the name in lower case, with a hyphen for every character that is neither letter nor digit.
// Receivers behind CGI (RFC 3875 section 4.1.18) and its successors see names in such a form and cannot distinguish
// Webhook_Signature from Webhook-Signature.
func PlainName(name string) string {
	for i := range len(name) {
		if plainByte(name[i]) == name[i] {
			continue
		}
		b := []byte(name)
		for j := range b {
			b[j] = plainByte(b[j])
		}
		return string(b)
	}
	return name // as nearly always, without a copy
}

// SameName reports whether PlainName of both names is the same.
func SameName(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if plainByte(a[i]) != plainByte(b[i]) {
			return false
		}
	}
	return true
}

func plainByte(c byte) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return c + ('a' - 'A')
	case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		return c
	default:
		return '-'
	}
}

func isRefusedName(name string) bool {
	name = PlainName(name)
	return slices.Contains(refusedNames(), name) ||
		slices.ContainsFunc(refusedPrefixes(), func(p string) bool { return strings.HasPrefix(name, p) })
}

// checkHeaders checks the members of a change. The service checks their number after the merge.
func checkHeaders(v *apperr.Violations, members map[string]*string) {
	badName := false
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !isHeaderName(name) {
			badName = true // an invalid name is not quoted in a location
			continue
		}
		at, value := name, members[name]
		duplicate := seen[strings.ToLower(name)]
		seen[strings.ToLower(name)] = true
		switch {
		case duplicate:
			v.Add(at, "unique", "must occur only once, ignoring case")
		case value == nil: // takes away what an earlier version may have accepted
		case isRefusedName(name):
			v.Add(at, "reserved", "this header is reserved")
		case len(*value) > MaxHeaderValue:
			v.Add(at, "max_length", fmt.Sprintf("must be at most %d bytes", MaxHeaderValue))
		case !isHeaderValue(*value):
			v.Add(at, "pattern", "must be visible ASCII characters, with spaces and tabs only between them")
		}
	}
	if badName {
		v.Add("", "pattern", fmt.Sprintf(
			"every name must be 1 to %d letters, digits and ! # $ %% & ' * + - . ^ _ ` | ~", MaxHeaderName))
	}
}

// isHeaderName accepts a token of RFC 9110 section 5.6.2.
func isHeaderName(name string) bool {
	return name != "" && len(name) <= MaxHeaderName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// isHeaderValue accepts a field value of RFC 9110 section 5.5 without its obsolete part. Spaces at the ends are not
// part of a value and would be lost in transit.
func isHeaderValue(value string) bool {
	return strings.Trim(value, " \t") == value && !strings.ContainsFunc(value, func(r rune) bool {
		return (r < ' ' || r > '~') && r != '\t'
	})
}

// CheckHeaders adds the violations of headers that one request carries in addition to the subscription's own. The rules
// are the same. location is where the caller sent them.
func CheckHeaders(v *apperr.Violations, location string, headers map[string]string) {
	members := make(map[string]*string, len(headers))
	for name, value := range headers {
		members[name] = &value
	}
	checkHeaders(v.At(location), members)
}
